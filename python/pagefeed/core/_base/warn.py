"""Warnings that name the line of the user's program."""

from __future__ import annotations

import inspect
import warnings

PACKAGE = __name__.partition(".")[0]


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line of the stack that is outside of this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_own(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_own(module: str) -> bool:
    # A generated method has the globals of its class.
    return f"{module}.".startswith(f"{PACKAGE}.")
