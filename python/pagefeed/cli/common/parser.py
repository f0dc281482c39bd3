"""How arguments are refused: in one line, with the name that was probably meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

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
        """Return what was read, and nothing else: what is not known is refused."""
        found, others = super().parse_known_args(args, namespace)
        if others:
            name = others[0].partition("=")[0]
            near = _near(name, self._option_string_actions)
            self.error(f"there is no {name}{near}")
        return found, others

    def error(self, message: str) -> NoReturn:
        """Exit with 2; the usage, of many lines, is left to ``--help``."""
        if match := CHOICES.search(message):
            message += _near(match[1], re.findall(r"[\w-]+", match[2]))
        self.exit(2, f"{self.prog}: error: {message}\nSee {self.prog} --help\n")


def _near(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, list(known), n=1)
    return f": did you mean {found[0]}?" if found else ""
