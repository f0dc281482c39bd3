"""Checks of arguments that several classes take."""

from __future__ import annotations

from pagefeed.errors import InvalidArgumentError

__all__ = ["check_choice", "check_positive", "check_vocab_size"]


def check_positive(value: int, name: str) -> int:
    """Return a whole number of at least 1.

    Raises:
        InvalidArgumentError: If it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(
            f"{name}={value!r} must be a whole number, at least 1"
        )
    return value


def check_choice(value: str, choices: tuple[str, ...], name: str) -> str:
    """Return one of some words.

    Raises:
        InvalidArgumentError: If it is none of them.
    """
    if value not in choices:
        raise InvalidArgumentError(
            f"{name}={value!r} is unknown: choose one of {', '.join(choices)}"
        )
    return value


def check_vocab_size(value: int | None, **token_ids: int | None) -> int | None:
    """Return the size of a vocabulary, or None, which holds these ids if given.

    Raises:
        InvalidArgumentError: If it is something else, or an id is not below it.
    """
    if value is None:
        return None
    size = check_positive(value, "vocab_size")
    for name, token in token_ids.items():
        if token is not None and not 0 <= token < size:
            raise InvalidArgumentError(
                f"{name}={token} is no token id: with vocab_size={size} they are 0 to "
                f"{size - 1}"
            )
    return size
