"""Read-only attributes with the settings of an object."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar, overload

__all__ = ["Setting"]

Value = TypeVar("Value")


class Setting(Generic[Value]):
    """A setting of an object, read from its ``_settings``.

    Example:
        >>> class Reader:
        ...     _settings = range(2)
        ...     start = Setting[int]()
        >>> Reader().start
        0
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the name of the setting."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return its value."""
        if instance is None:
            return self
        return getattr(instance._settings, self._name)  # noqa: SLF001 - its owner's

    def __set__(self, instance: object, value: object) -> NoReturn:
        """Refuse to change a setting of an existing object.

        Raises:
            AttributeError: Always.
        """
        name = type(instance).__name__
        raise AttributeError(
            f"{self._name} of a {name} cannot be set: make another {name} with "
            f"{self._name}={value!r:.60}"
        )
