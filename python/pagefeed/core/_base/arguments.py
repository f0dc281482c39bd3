"""Checks of arguments, and sizes such as ``"64MiB"``.

Numbers of NumPy count as numbers of Python; True and False are not numbers.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from pagefeed.errors import InvalidArgumentError

__all__ = [
    "MOST",
    "check_callable",
    "check_choice",
    "check_column",
    "check_columns",
    "check_flag",
    "check_number",
    "check_positive",
    "check_stages",
    "check_text",
    "check_token",
    "check_vocab_size",
    "check_whole",
    "format_bytes",
    "near_name",
    "parse_bytes",
]

MOST = 1 << 53
"""No count is larger: every reader of JSON has numbers up to this one."""


def check_whole(
    value: object, name: str, *, least: int | None = None, most: int | None = None
) -> int:
    """Return a whole number within bounds.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    whole = _whole(value)
    if (
        whole is None
        or (least is not None and whole < least)
        or (most is not None and whole > most)
    ):
        bounds = "" if least is None else f", at least {least}"
        if most is not None and (most != MOST or (whole or 0) > most):
            bounds += f", at most {most}"
        raise InvalidArgumentError(
            f"{name}={value!r:.200} must be a whole number{bounds}"
        )
    return whole


def check_positive(value: object, name: str) -> int:
    """Return a whole number of at least 1.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    return check_whole(value, name, least=1, most=MOST)


def check_stages(asked: object, name: str, example: str) -> tuple[tuple[int, int], ...]:
    """Return stages, each with its first step and a number that holds from there on.

    Raises:
        InvalidArgumentError: If these are not stages, or do not rise from step 0.
    """
    stages = []
    for stage in asked if isinstance(asked, list | tuple) else [asked]:
        if not isinstance(stage, list | tuple) or len(stage) != 2:
            raise InvalidArgumentError(
                f"{name} has the stage {stage!r:.60}: each is a first step and a size, "
                f"such as {example}"
            )
        first = check_whole(stage[0], f"step of {name}", least=0)
        stages.append((first, check_positive(stage[1], name)))
    firsts = [first for first, _ in stages]
    if firsts[:1] != [0] or firsts != sorted(set(firsts)):
        raise InvalidArgumentError(
            f"{name} has stages that begin at steps {firsts}: the first begins at step "
            "0, and each further one later than the one before it"
        )
    return tuple(stages)


def check_number(
    value: object,
    name: str,
    what: str = "a number",
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return a number within bounds. Without bounds, infinity and NaN are accepted too.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    try:
        as_float = float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:  # An integer or fraction beyond all floats.
        is_number, as_float = False, math.nan
    fits = (
        (above is None or as_float > above)
        and (least is None or as_float >= least)
        and (most is None or as_float <= most)
        and (below is None or as_float < below)
    )
    if not (is_number and fits):
        upper = "at most" if least is None else "to"
        names = {"above": above, "from": least, upper: most, "below": below}
        bounds = [f" {word} {at:g}" for word, at in names.items() if at is not None]
        what += "".join(bounds)
        raise InvalidArgumentError(f"{name}={value!r:.60} must be {what}")
    return as_float


def check_seconds(value: object, name: str) -> float | None:
    """Return some seconds, at most some thirty years; None stays None.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    if value is None:
        return None
    return check_number(value, name, "None, or seconds", above=0, most=1e9)


def check_text(value: object, name: str) -> str:
    """Return a text that has a digest.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    if not isinstance(value, str) or value.encode(errors="ignore").decode() != value:
        raise InvalidArgumentError(f"{name}={value!r:.200} must be text")
    return value


def check_token(value: object, name: str) -> int | None:
    """Return the number of a token, or None.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    token = None if value is None else _whole(value)
    if value is not None and (token is None or not 0 <= token < 1 << 32):
        raise InvalidArgumentError(
            f"{name}={value!r:.200} must be the number of a token, such as "
            "tokenizer.eos, or None"
        )
    return token


def check_callable(value: object, name: str) -> Any:
    """Return something to call, or None.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    if value is not None and not callable(value):
        raise InvalidArgumentError(f"{name}={value!r:.200} must be a function, or None")
    return value


def check_flag(value: object, name: str) -> bool:
    """Return True or False.

    Raises:
        InvalidArgumentError: If it is anything else.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name}={value!r:.200} must be True or False")
    return bool(value)


def check_column(value: object, name: str) -> str:
    """Return the name of a column.

    Raises:
        InvalidArgumentError: If it is none.
    """
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(
            f"{name}={value!r:.200} must be a name or a dotted path, such as "
            "'input_ids' or 'meta.url'"
        )
    return value


def check_columns(value: object, name: str) -> tuple[str, ...]:
    """Return names of columns.

    Raises:
        InvalidArgumentError: If they are none.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        such = f", such as [{value!r}]" if isinstance(value, str) else ""
        raise InvalidArgumentError(f"{name}={value!r} must be a list of columns{such}")
    return tuple(check_column(column, name) for column in value)


def check_choice(value: object, choices: tuple[str, ...], name: str) -> str:
    """Return a word that is one of the choices.

    Raises:
        InvalidArgumentError: If it is not; the message lists the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(
            f"{name}={value!r:.200} is unknown: choose one of {', '.join(choices)}"
            f"{near_name(str(value), choices)}"
        )
    return value


def check_vocab_size(value: int | None, **token_ids: int | None) -> int | None:
    """Return a vocabulary size, or None. It must be larger than every given token id.

    Raises:
        InvalidArgumentError: If the size is invalid, or a token id is not below it.
    """
    if value is None:
        return None
    size = check_positive(value, "vocab_size")
    for name, token in token_ids.items():
        if token is not None and not 0 <= token < size:
            raise InvalidArgumentError(
                f"{name}={token} is not a token id: with vocab_size={size} they are 0 "
                f"to {size - 1}. If the embedding has more rows, give their number as "
                "vocab_size"
            )
    return size


def _whole(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(value: int | str, *, name: str) -> int:
    """Return a size in bytes.

    Args:
        value: Bytes, or a number with a unit: ``"512KiB"``, ``"64 MiB"``, ``"1GB"``.
        name: The argument's name, for the error.

    Raises:
        InvalidArgumentError: If it is not a size, or not positive.

    Example:
        >>> parse_bytes("64MiB", name="memory")
        67108864
    """
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise InvalidArgumentError(
                f"{name}={value!r} is not a size: give bytes, or a number with one of "
                "KiB, MiB, GiB, TiB, KB, MB, GB, TB"
            )
        size = float(match[1]) * unit
    else:
        size = check_positive(value, name)
    if not 0 < size < 1 << 63:
        raise InvalidArgumentError(
            f"{name}={value!r:.60} must be more than 0 bytes, and less than 8 EiB"
        )
    return int(size)


def format_bytes(size: float) -> str:
    """Return a size as text in binary units.

    Example:
        >>> format_bytes(67108864)
        '64.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def near_name(name: str, names: Iterable[str]) -> str:
    """Return a suggestion of the name that is most like a misspelt one, or "".

    Example:
        >>> near_name("txt", ["id", "text"])
        " (did you mean 'text'?)"
        >>> near_name("url", ["id", "text"])
        ''
    """
    import difflib  # Used only if a name is wrong.

    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
