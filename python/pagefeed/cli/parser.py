"""The parser of the command line, and the verbs in it.

Only the verb of a command is imported: another that fails leaves it alone.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import platform
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from importlib.machinery import PathFinder
from typing import Any, NoReturn

import numpy as np

from pagefeed._removed import REMOVED
from pagefeed.errors import InternalError, PagefeedError

OF_CODE = (
    ": the function that makes the loader sets this: name it, such as "
    "train.py:make_loader (in Python: pf.forecast(loader), pf.verify(loader) ...)"
)
CHOICES = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")


class Parser(argparse.ArgumentParser):
    """Reads arguments by their whole names; its verbs do so too.

    Example:
        >>> parser = Parser(prog="pagefeed plan", exit_on_error=False)
        >>> option = parser.add_argument("--length")
        >>> parser.parse_args(["--length", "512"]).length
        '512'
    """

    def __init__(self, **given: Any) -> None:
        # A shortened name may be a mistaken one.
        super().__init__(**given | {"allow_abbrev": False})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the parsed arguments; unknown ones are refused."""
        if args is not None and self._subparsers is None:
            # Before argparse misses an option, of which this may be a misspelling.
            given = itertools.takewhile(lambda word: word != "--", args)
            names = (word.partition("=")[0] for word in given if word.startswith("--"))
            self._refuse(
                [name for name in names if name not in self._option_string_actions]
            )
        parsed, others = super().parse_known_args(args, namespace)
        self._refuse(others)
        return parsed, others

    def _refuse(self, words: list[str]) -> None:
        if words:
            name = words[0].partition("=")[0]
            self._check_removed(name)
            near = _near(name, self._option_string_actions)
            if not near and "--set" in self._option_string_actions:
                near = OF_CODE
            self.error(f"there is no {name}{near}")

    def _check_removed(self, word: str) -> None:
        """Say what to use in place of a verb, or of a flag of this verb."""
        if remedy := REMOVED.get(f"{self.prog.removeprefix('pagefeed ')} {word}"):
            self.exit(2, f"{self.prog}: error: there is no {word} now: use {remedy}\n")

    def error(self, message: str) -> NoReturn:
        """Exit with 2; the usage, of many lines, is left to ``--help``."""
        if match := CHOICES.search(message):
            self._check_removed(match[1])
            message += _near(match[1], re.findall(r"[\w-]+", match[2]))
        self.exit(2, f"{self.prog}: error: {message}\nSee {self.prog} --help\n")


def _near(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else ""


def add_verbs(
    parser: argparse.ArgumentParser,
    package: str,
    verbs: Iterable[str],
    dest: str,
    whole: Collection[str],
) -> None:
    """Add verbs: modules of a package, which say what they do.

    Each has a table ``ARGUMENTS`` and ``run``, or further verbs, ``VERBS``.

    Args:
        parser: The parser.
        package: The package of the modules.
        verbs: Names of the verbs.
        dest: The option that holds the name of the verb of a command.
        whole: Verbs that are imported, and get their arguments.

    Raises:
        InternalError: If such a verb cannot be imported.
    """
    added = parser.add_subparsers(
        dest=dest, metavar=dest.upper(), required=True, help="what to do"
    )
    for name in verbs:
        about = _docstring(f"{package}.{name}")
        verb = added.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name not in whole:
            continue
        try:
            module = importlib.import_module(f"{package}.{name}")
            if hasattr(module, "VERBS"):
                add_verbs(verb, module.__name__, module.VERBS, "what", module.VERBS)
            else:
                _declare(verb, module.ARGUMENTS)
                verb.set_defaults(run=module.run)
        except PagefeedError:
            raise
        except Exception as error:
            raise InternalError(
                f"the verb {name!r} does not start with Python "
                f"{platform.python_version()} and NumPy {np.__version__}: "
                f"{type(error).__name__}: {error}. Other verbs may"
            ) from error


def _docstring(module: str) -> str:
    """Return the docstring of a module, which is not imported for it."""
    folders = sys.modules[module.rpartition(".")[0]].__path__
    spec: Any = PathFinder.find_spec(module, folders)
    source = spec.loader.get_source(module) or ""
    return ast.get_docstring(ast.parse(source), clean=False) or ""


def _declare(
    parser: argparse.ArgumentParser, arguments: Mapping[str, dict[str, Any]]
) -> None:
    groups: dict[object, argparse._ActionsContainer] = {None: parser}
    for flag, given in arguments.items():
        key = given.get("group")
        if key not in groups:
            groups[key] = (
                parser.add_argument_group(key)
                if isinstance(key, str)
                else parser.add_mutually_exclusive_group()
            )
        groups[key].add_argument(flag, **{n: given[n] for n in given if n != "group"})
