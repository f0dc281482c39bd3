"""Rooms that the core uses, by name; imported when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

_PROVIDED: dict[str, str] = {}


def provide(table: Mapping[str, str]) -> None:
    """Say where rooms have what: by name, ``"module:attribute"``."""
    _PROVIDED.update(table)


@cache
def provided(name: str) -> Any:
    """Return the object that a room registered under a name.

    Raises:
        UnsupportedError: If no room registered it.
    """
    if name not in _PROVIDED:
        from pagefeed.errors import UnsupportedError

        raise UnsupportedError(f"no room of this installation provides {name}")
    module, _, attribute = _PROVIDED[name].partition(":")
    named = import_module(module)
    return attrgetter(attribute)(named) if attribute else named


def room(name: str) -> Any:
    """Return the module of a room, imported when it is first used.

    Raises:
        UnsupportedError: If there is no such room.
    """
    return provided(f"room {name}")


def offered(name: str, otherwise: Any) -> Any:
    """Return what a room provides under a name; something else if none does."""
    return provided(name) if name in _PROVIDED else otherwise


def parsed(name: str, value: Any) -> Any:
    """Return an argument as the room that provides its class parses it."""
    return None if value is None else provided(name)(value)
