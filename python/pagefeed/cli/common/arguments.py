"""The arguments that verbs share, in tables: flag, type or default, help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pagefeed.cli.common.signatures import parameters
from pagefeed.core.loader import Loader
from pagefeed.core.order import KINDS, Shuffle
from pagefeed.core.sequences import Windows
from pagefeed.core.storage import is_url
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import mix
from pagefeed.parquet_files import parquet
from pagefeed.prepare import TOKEN_FORMATS
from pagefeed.remote import StorageOptions
from pagefeed.tokenizer import Tokenizer

Argument = dict[str, Any]

NO_FLAGS = {"paths", "run", "verb", "what"}
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


def step_size(text: str) -> int | tuple[int, int]:
    """Return a step size; or the first step of a stage, and the step size in it.

    Raises:
        argparse.ArgumentTypeError: If the text is neither.
    """
    first, colon, size = text.rpartition(":")
    if not size.isdecimal() or (colon and not first.isdecimal()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of sequences, nor STEP:SIZE such as 10000:512"
        )
    return (int(first), int(size)) if colon else int(size)


SHUFFLES = [kind or "none" for kind in KINDS]
PAIR = "NAME=VALUE"
PLACES = (
    *("paths", "inputs", "mix", "dataset", "beside", "tokenize", "tokenizer"),
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
    "--from": arg(str, "format (by their names)", dest="source", choices=TOKEN_FORMATS),
    "--where": arg(str, 'only rows such as "quality > 0.8"', metavar="PREDICATE"),
    "--in-dtype": arg(str, "type of the tokens of raw files"),
    "--in-eos": arg(int, "last token of documents in raw files"),
}
TOKENIZER_FILE = arg(
    str,
    "for a column of texts: tokenizer.json, .model or tiktoken's ranks",
    dest="tokenize",
    metavar="FILE",
)
TOKENIZER = parameters(Tokenizer, "pattern special_tokens")
SETTINGS = {
    "--tokenize": TOKENIZER_FILE,
    "--erase": repeated("documents to erase, by a predicate", "PREDICATE"),
    **TOKENIZER,
    "--length": arg(int, "tokens of a sequence"),
    "--batch-size": arg(int, "sequences of a step on each rank (8)"),
    "--global-batch-size": arg(
        str,
        "or of a step on all ranks; or stages, such as 0:256 10000:512",
        type=step_size,
        nargs="+",
        metavar="SIZE",
    ),
    "--world-size": arg(1, "number of ranks"),
    "--epoch": arg(0, "which epoch"),
    "--shuffle": arg("page", "what is permuted", choices=SHUFFLES),
    "--balance": arg(str, "ranks by what steps cost", choices=["attention", "tokens"]),
    **parameters(Loader, "batch_tokens seed memory"),
    **parameters(Shuffle, "window passes"),
    **parameters(Windows, "eos bos overlap tail join"),
}
CUTS = {
    "--packed": arg(bool, "pack whole documents into sequences"),
    "--documents": arg(bool, "each row is a sequence"),
}
TEXT_TOKENIZER = {"--tokenizer": arg(str, "a tokenizer.json", metavar="FILE")}
BESIDE = parameters(parquet, "aligned metadata spans")


def parse_number(text: str) -> float:
    """Return a number.

    Raises:
        InvalidArgumentError: If the text is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(f"{text!r} is not a number") from None


def whole_number(text: str) -> int:
    """Return a whole number, which may be written as 1e9.

    Raises:
        InvalidArgumentError: If the text is not a whole number.
    """
    value = parse_number(text)
    if not value.is_integer():
        raise InvalidArgumentError(f"{text!r} is not a whole number, such as 1e9")
    return int(value)


MIXTURE = {
    "--mix": arg(
        [],
        "datasets and weights; without weights by size and temperature",
        metavar="NAME=PATH[:WEIGHT]",
    ),
    "--stage": repeated(
        "later weights: step=N or tokens=N, NAME=WEIGHT and so on, anneal=N",
        "KEY=NUMBER",
        nargs="+",
    ),
    **parameters(mix, "temperature unit stop"),
    "--max-epochs": arg([], "most epochs of a dataset", metavar="NAME=N"),
    "--max-steps": arg(str, "steps at which a mixture ends", type=whole_number),
    "--max-tokens": arg(str, "such as 1e9", type=whole_number, metavar="N"),
}


OF_MIXTURE = group(MIXTURE, "a mixture of datasets, in place of PATH")
RUN = PATHS | FILES | SETTINGS | group(CUTS) | OF_MIXTURE
"""The arguments of a run."""


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
    names = "|".join(sorted(vars(options).keys() - NO_FLAGS))
    # Text in parentheses is a call in Python.
    return re.sub(rf"(?<![\w.(\[{{-])({names})(=|\b)", _as_flag, message)


def _as_flag(match: re.Match[str]) -> str:
    name, end = match.groups()
    if not end and "_" not in name:  # An ordinary word.
        return name
    return "--" + OTHERS.get(name, name).replace("_", "-") + end
