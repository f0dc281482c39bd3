"""The logger; attributes that are computed, and modules imported, on first use."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pagefeed.errors import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Return a module of an optional extra, imported.

    Args:
        module: Name of the module.
        extra: Extra of pagefeed that installs it.
        purpose: What needs it, the subject of the error's sentence.

    Raises:
        MissingDependencyError: Naming the extra to install.

    Example:
        >>> require("json", extra="none", purpose="reading").dumps(1)
        '1'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module}: pip install 'pagefeed[{extra}]'"
        ) from error
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module}, which is there and cannot be imported: {error}"
        ) from error


logger = logging.getLogger("pagefeed")


Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - it is written as a decorator
    """A property that is computed once and then kept with its object.

    ``functools.cached_property`` of Python 3.11 holds one lock for all objects of a
    class while it computes. A process that is forked meanwhile inherits the lock
    without the thread that releases it, and hangs at its first use of the property.
    This class has no lock: if two threads compute at once, one value is kept.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the name under which the value is kept in the object."""
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        """Compute the value and keep it."""
        if instance is None:
            return self  # type: ignore[return-value]
        value = self._make(instance)
        return instance.__dict__.setdefault(self._name, value)


def is_made(instance: object, name: str) -> bool:
    """Return whether a lazy attribute is computed already.

    Example:
        >>> class Thing:
        ...     size = lazy(lambda self: 3)
        >>> thing = Thing()
        >>> is_made(thing, "size"), thing.size, is_made(thing, "size")
        (False, 3, True)
    """
    return name in vars(instance)
