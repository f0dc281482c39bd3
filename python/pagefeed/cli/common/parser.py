"""Errors about arguments: one line, with the name that was probably meant."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from pagefeed._removed import REMOVED

__all__ = ["Parser"]

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
            # Before another option is missed, which may be this one.
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
            self.error(f"there is no {name}{_near(name, self._option_string_actions)}")

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
    near = get_close_matches(name, list(names), n=1)
    return f": did you mean {near[0]}?" if near else ""
