"""Values that predicates compare: columns, literals, arithmetic, lengths of texts.

Numbers are compared in the type of the column: with integers and decimals exactly, and
with floats a literal is the nearest number of their type. Columns of different types,
and arithmetic, are compared as float64.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pagefeed.selection.query import Constant, Expression, arrow

COMPARISONS: dict[str, Callable[[Any, Any], Expression]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Value(NamedTuple):
    """One side of a comparison."""

    field: Expression
    kind: Any
    """Arrow type of the side."""


class LiteralTypeError(Exception):
    """Internal: a literal does not fit the type it is compared with; says what fits."""


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is of numbers."""
    types = arrow("pyarrow.types")
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    )


def as_float(value: Value) -> Expression:
    """Return numbers as float64. Numbers that do not fit are rounded."""
    types = arrow("pyarrow.types")
    if types.is_float16(value.kind):  # Arrow does not compute with them.
        return value.field.cast("float32").cast("float64")
    return value.field.cast("float64", safe=False)


def compare(sign: str, left: Value | Constant, right: Value | Constant) -> Expression:
    """Return a comparison of two sides that are not both literals.

    Raises:
        LiteralTypeError: If a literal does not fit the other side.
    """
    if not isinstance(left, Value):
        return compare(_MIRRORED.get(sign, sign), right, left)
    if isinstance(right, Value):
        return COMPARISONS[sign](*_in_one_type(left, right))
    types = arrow("pyarrow.types")
    if types.is_null(left.kind):
        return left.field.cast("bool")  # As any comparison with null.
    if types.is_integer(left.kind) or types.is_decimal(left.kind):
        return _with_whole(sign, left, right)
    if isinstance(right, str) and types.is_temporal(left.kind):
        return _with_time(sign, left, right)
    return COMPARISONS[sign](_comparable(left), _literal(right, left.kind))


def _in_one_type(left: Value, right: Value) -> tuple[Expression, Expression]:
    """Return two columns so that Arrow compares them without an error."""
    types = arrow("pyarrow.types")
    kinds = [left.kind, right.kind]
    is_mixed = kinds[0] != kinds[1] and all(map(is_number, kinds))
    if is_mixed and all(map(types.is_integer, kinds)):
        if not any(map(types.is_uint64, kinds)):
            return left.field, right.field
        wide = arrow().decimal128(20, 0)
        return left.field.cast(wide), right.field.cast(wide)
    if is_mixed or types.is_float16(left.kind):
        return as_float(left), as_float(right)
    return left.field, right.field


def _comparable(value: Value) -> Expression:
    if arrow("pyarrow.types").is_float16(value.kind):
        return value.field.cast("float32")
    return value.field


def _with_whole(sign: str, column: Value, literal: Constant) -> Expression:
    """Compare integers or decimals with a number of any size, exactly.

    A number between two of the column stands for the one below or above.
    """
    if isinstance(literal, bool) or not isinstance(literal, int | float):
        raise LiteralTypeError
    least, most, scale = _steps(column.kind)
    steps: Fraction | float = literal
    if not math.isinf(literal):
        # A decimal 0.1 is that number, and not the nearest of float64.
        exact = (
            Fraction(literal) if isinstance(literal, int) else Fraction(repr(literal))
        )
        steps = exact * 10**scale
    is_equality = sign in ("==", "!=")
    if least <= steps <= most and (not is_equality or steps == math.floor(steps)):
        whole = math.ceil(steps) if sign in ("<", ">=") else math.floor(steps)
        return COMPARISONS[sign](column.field, _number_of(whole, column.kind, scale))
    # The comparison holds for all values, or for none; null stays null.
    is_below = sign in ("<", "<=") and steps > most
    is_above = sign in (">", ">=") and steps < least
    lowest = _number_of(least, column.kind, scale)
    if is_below or is_above or sign == "!=":
        return column.field >= lowest
    return column.field < lowest


def _with_time(sign: str, column: Value, text: str) -> Expression:
    """Compare times with one of any number of digits, exactly.

    A time between two of the column stands for the one below or above.
    """
    pa, types, kind = arrow(), arrow("pyarrow.types"), column.kind
    try:
        if types.is_time(kind):
            fine = pa.scalar(datetime.time.fromisoformat(text), pa.time64("us"))
            per_unit = {"s": 10**6, "ms": 1000}.get(kind.unit, 1)
            steps = fine.value if kind.unit != "ns" else 1000 * fine.value
        else:
            fine, per_unit = _timestamp(text, kind)
            if not per_unit:
                return COMPARISONS[sign](column.field, fine)
            steps = fine.value
    except (pa.ArrowException, ValueError):
        raise LiteralTypeError(_time_hint(text, kind)) from None
    steps, rest = divmod(steps, per_unit)
    if rest and sign in ("==", "!="):  # Null stays null.
        same = column.field == column.field
        return same if sign == "!=" else ~same
    steps += rest > 0 and sign in ("<", ">=")
    return COMPARISONS[sign](column.field, pa.scalar(steps, kind))


def _timestamp(text: str, kind: Any) -> tuple[Any, int]:
    """Return a time as the column has it and 0, or nanoseconds and those of a unit."""
    pa = arrow()
    try:
        return pa.scalar(text).cast(kind), 0
    except pa.ArrowException:
        if not arrow("pyarrow.types").is_timestamp(kind):
            raise
        fine = pa.scalar(text).cast(pa.timestamp("ns", kind.tz))
        return fine, {"s": 10**9, "ms": 10**6, "us": 1000}.get(kind.unit, 1)


def _steps(kind: Any) -> tuple[int, int, int]:
    """The least and the most of a type in its last digit, and digits of fractions."""
    if arrow("pyarrow.types").is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most, kind.scale
    bounds = np.iinfo(kind.to_pandas_dtype())
    return int(bounds.min), int(bounds.max), 0


def _number_of(steps: int, kind: Any, scale: int) -> Any:
    is_decimal = arrow("pyarrow.types").is_decimal(kind)
    return arrow().scalar(Decimal(f"{steps}e{-scale}") if is_decimal else steps, kind)


def _literal(value: Constant, kind: Any) -> Any:
    """Return a literal in the type of a column that holds no whole numbers."""
    pa, types = arrow(), arrow("pyarrow.types")
    if types.is_floating(kind):
        return _nearest(value, kind)
    if isinstance(value, bool | int | float) != types.is_boolean(kind):
        raise LiteralTypeError
    if isinstance(value, bytes) and "binary" not in str(kind):
        raise LiteralTypeError
    try:
        return pa.scalar(value)
    except (pa.ArrowException, ValueError):
        raise LiteralTypeError from None


def _nearest(value: Constant, kind: Any) -> Any:
    """Return the number of a type of floats that is nearest to a literal."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LiteralTypeError
    to_number = kind.to_pandas_dtype()
    with np.errstate(over="ignore"):
        try:
            nearest = to_number(value)
        except OverflowError:
            nearest = to_number(math.inf)
    if np.isinf(nearest) and not (isinstance(value, float) and math.isinf(value)):
        raise LiteralTypeError(f"its numbers go to {np.finfo(to_number).max:g}")
    pa, is_half = arrow(), arrow("pyarrow.types").is_float16(kind)
    return pa.scalar(float(nearest), pa.float32() if is_half else kind)


def _time_hint(text: object, kind: Any) -> str:
    """Return how to write a time with a zone, or without, as the column has it."""
    pa, zone = arrow(), getattr(kind, "tz", None)
    other = pa.timestamp("us", None if zone else "UTC")
    try:
        pa.scalar(text).cast(other)
    except pa.ArrowException:
        return ""
    if not zone:
        return "its times have no zone: leave it out"
    time = "" if ":" in str(text) else "T00:00:00"
    shown = f"{text}{time}Z"
    return f"its times have the zone {zone}: write one, as in {shown!r} for UTC"
