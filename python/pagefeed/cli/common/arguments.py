"""The arguments that verbs share, in tables: flag, type or default, help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from pagefeed.arrow_files import SIGNS, arrow
from pagefeed.cli.common.signatures import parameters
from pagefeed.core.loader import Loader
from pagefeed.core.order import KINDS
from pagefeed.core.sequences import Windows
from pagefeed.core.storage import is_url
from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare import TOKEN_FORMATS
from pagefeed.remote import StorageOptions
from pagefeed.tokenizer import Tokenizer

Argument = dict[str, Any]

READERS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    **{name: (each.reader, each.writer.signs) for name, each in TOKEN_FORMATS.items()},
    "arrow": (arrow, SIGNS),
}
"""For each format, the function that opens its files, and signs of their names."""
NO_FLAGS = {"paths", "run", "verb", "what", "words", "set"}
OTHERS = {"source": "from"}
"""Names in Python whose flags have another name."""


def arg(kind: Any, text: str = "", **more: Any) -> Argument:
    """Return an argument from its type or default, and its help.

    Example:
        >>> arg(8, "sequences of a step on each rank")["type"]
        <class 'int'>
    """
    if kind is bool:
        return {"action": "store_true", "help": text} | more
    if isinstance(kind, type):
        return {"type": kind, "help": text} | more
    if isinstance(kind, list):
        return {"nargs": "+", "default": kind, "help": text} | more
    text = f"{text} ({kind})".strip().replace("%", "%%")
    return {"type": type(kind), "default": kind, "help": text} | more


def repeated(text: str, metavar: str, **more: Any) -> Argument:
    """Return an argument that may be given several times, from its help."""
    given = {"action": "append", "default": [], "help": text, "metavar": metavar}
    return given | more


def group(
    arguments: Mapping[str, Argument], title: str | None = None
) -> dict[str, Argument]:
    """Return arguments as a group.

    Args:
        arguments: A table.
        title: What the help says above it; None if one of them may be given at most.
    """
    key = title or tuple(arguments)
    return {flag: given | {"group": key} for flag, given in arguments.items()}


SHUFFLES = [kind or "none" for kind in KINDS]
PAIR = "NAME=VALUE"
PLACES = (
    *("paths", "inputs", "dataset", "beside", "tokenize", "tokenizer"),
    "output",
)
"""Arguments that may be URLs."""
URL = r"([^=/]+=)?(?!file:)[a-z0-9]+://"

STORAGE = {
    "--storage-option": repeated(
        "such as endpoint_url=https://host; keep secrets in the environment", PAIR
    ),
    "--json": arg(bool, "print JSON"),
}
PATHS = {
    "paths": arg(str, "files, folders, patterns, URLs", nargs="*", metavar="PATH"),
    "--column": arg(str, "the column of tokens, or of texts", required=True),
    "--cache-dir": arg(str, "folder to keep the index in"),
    **STORAGE,
}
SOME_PATHS = {"paths": PATHS["paths"] | {"nargs": "+"}}
"""The argument of paths, for verbs that need at least one."""
NO_COLUMN = {"--column": PATHS["--column"] | {"required": False}}
"""The argument ``--column`` of verbs that work without it."""
FILES = {
    "--from": arg(str, "format (by their names)", dest="source", choices=READERS),
    "--where": arg(str, 'only rows such as "quality > 0.8"', metavar="PREDICATE"),
    "--in-dtype": arg(str, "type of the tokens of raw files, or records of guideloom"),
    "--in-document": arg(str, "number of a document in records of guideloom"),
    "--in-eos": arg(int, "last token of documents in raw files"),
}
TOKENIZER_FILE = arg(
    str,
    "for a column of texts: tokenizer.json, .model or tiktoken's ranks",
    dest="tokenize",
    metavar="FILE",
)
TOKENIZER = parameters(Tokenizer, "pattern special_tokens")
TEXT_TOKENIZER = {"--tokenizer": arg(str, "a tokenizer.json", metavar="FILE")}
PLACE = PATHS["paths"] | {
    "metavar": "FILE.py:FUNCTION | PATH",
    "help": "the function that makes the loader; or files, folders, patterns, URLs",
}
OF_DATA = {
    **NO_COLUMN,
    "--cache-dir": PATHS["--cache-dir"],
    "--where": FILES["--where"],
    "--tokenize": TOKENIZER_FILE,
}
OF_LOADER = {
    "--length": arg(int, "tokens of a sequence"),
    "--packed": arg(bool, "pack whole documents into sequences"),
    "--documents": arg(bool, "each row is a sequence"),
    **parameters(Windows, "eos"),
    "--batch-size": arg(int, "sequences of a step on each rank (8)"),
    "--shuffle": arg("page", "what is permuted", choices=SHUFFLES),
    **parameters(Loader, "seed memory"),
}
RUN = {
    "paths": PLACE,
    "--set": repeated("an argument of the function", PAIR),
    "--world-size": arg(int, "number of ranks"),
    "--epoch": arg(0, "which epoch"),
    **STORAGE,
    **group(OF_DATA, "a first look at paths, in place of a function"),
    **group(OF_LOADER, "how paths are cut and shuffled"),
}
"""The arguments of a run: the function that makes it, or paths for a first look."""


def flags_of(options: argparse.Namespace) -> set[str]:
    """Return the flags that a command was typed with."""
    return {word.partition("=")[0] for word in vars(options).get("words", ())}


def pairs_of(words: Iterable[str], form: str) -> list[tuple[str, str]]:
    """Divide words at the first equals sign.

    Raises:
        InvalidArgumentError: If one is not of the form.
    """
    pairs = [word.partition("=") for word in words]
    wrong = ["".join(pair) for pair in pairs if not (pair[0] and pair[1] and pair[2])]
    if wrong:
        raise InvalidArgumentError(f"{wrong[0]!r} is not of the form {form}")
    return [(name, value) for name, _, value in pairs]


def storage_options(options: argparse.Namespace, *paths: str) -> StorageOptions | None:
    """Return the settings of remote storage that were given, if a path is a URL."""
    given = dict(pairs_of(options.storage_option, f"--storage-option {PAIR}"))
    return cast("StorageOptions", given) if given and any(map(is_url, paths)) else None


def check_storage_options(options: argparse.Namespace) -> None:
    """Check that a command with settings of remote storage names a URL.

    Raises:
        InvalidArgumentError: If no path of the command is a URL.
    """
    pairs = pairs_of(getattr(options, "storage_option", []), f"--storage-option {PAIR}")
    given = (getattr(options, name, None) or [] for name in PLACES)
    words = [[word] if isinstance(word, str) else word for word in given]
    # Some are NAME=URL.
    if pairs and not any(re.match(URL, word) for some in words for word in some):
        raise InvalidArgumentError(
            f"--storage-option {', '.join(dict(pairs))} is for remote storage, and no "
            "path of the command is a URL such as s3://bucket/folder/: leave it out"
        )


def in_flags(message: str, options: argparse.Namespace) -> str:
    """Return a message that names arguments as they are typed: ``--batch-size=0``.

    Args:
        message: An error about arguments in Python, such as ``batch_size=0``.
        options: The arguments of the verb.
    """
    names, typed = vars(options).keys() - NO_FLAGS, flags_of(options)
    if "set" in vars(options) and typed.isdisjoint(OF_DATA):
        # Other arguments are those of the user's own function.
        names &= {flag[2:].replace("-", "_") for flag in typed}
    any_name = "|".join(sorted(names)) or "(?!)"
    # Text in parentheses is a call in Python.
    return re.sub(rf"(?<![\w.(\[{{-])({any_name})(=|\b)", _as_flag, message)


def _as_flag(match: re.Match[str]) -> str:
    name, end = match.groups()
    if not end and "_" not in name:  # An ordinary word.
        return name
    return "--" + OTHERS.get(name, name).replace("_", "-") + end
