"""Errors in the words of the command line."""

from __future__ import annotations

import argparse
import re

__all__ = ["in_flags"]

NO_FLAGS = {"paths", "run", "verb", "what"}
OTHERS = {"source": "from"}
"""Names in Python whose flags are called otherwise."""


def in_flags(message: str, options: argparse.Namespace) -> str:
    """Return a message that names arguments as they are typed: ``--batch-size=0``.

    Args:
        message: What an error says of arguments in Python, ``batch_size=0``.
        options: Those of the verb.
    """
    names = "|".join(sorted(vars(options).keys() - NO_FLAGS))
    # Within parentheses it is a call in Python that is meant.
    return re.sub(rf"(?<![\w.(\[{{-])({names})(=|\b)", _as_flag, message)


def _as_flag(found: re.Match[str]) -> str:
    name, end = found.groups()
    if not end and "_" not in name:  # A word like any other.
        return name
    return "--" + OTHERS.get(name, name).replace("_", "-") + end
