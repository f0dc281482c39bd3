"""Warnings that name the line of the user's program."""

from __future__ import annotations

import inspect
import warnings

PACKAGE = __name__.partition(".")[0]


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line of the stack that is outside of this package."""
    level, frame = 1, inspect.currentframe()
    # A generated method has the globals of its class.
    while frame and f"{frame.f_globals.get('__name__')}.".startswith(f"{PACKAGE}."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
