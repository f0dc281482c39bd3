"""Records as tables: further columns of the types asked for, or of wider ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagefeed.prepare.texts.records import Batch, Rejected, Wanted, arrow

__all__ = ["WidenedError", "batch_of", "fitting", "source_of"]

MOST_SHOWN = 40
"""Characters of a value that an error shows."""


class WidenedError(Exception):
    """A column meets a value that its type cannot hold: all begins anew with a wider.

    Not an error of the data: the type was only what the first records said.
    """

    def __init__(self, name: str, kind: str, error: str) -> None:
        super().__init__(name, kind, error)  # All of them, to be pickled.
        self.name = name
        self.kind = kind
        """The type to take, as ``keep`` has it."""
        self.error = error
        """Which value of the column it was."""


def batch_of(
    rows: Sequence[Mapping[str, Any]],
    wanted: Wanted,
    file: str,
    place: Callable[[int], str],
    rejected: Sequence[Rejected] = (),
) -> Batch:
    """Return records as a batch: the source as bytes, the others by their types.

    Raises:
        WidenedError: If the type of a column, which was not given, is too narrow.
    """
    pa, told = arrow(), list(rejected)
    columns = {wanted.source: pa.array([row[wanted.source] for row in rows], "binary")}
    for name in wanted.kept:
        values = [row.get(name) for row in rows]
        columns[name], found = fitting(values, name, wanted, file, place)
        told += found
    return Batch(pa.table(columns), place, told)


def fitting(
    values: Any,  # noqa: ANN401 - pyarrow has no types
    name: str,
    wanted: Wanted,
    file: str,
    place: Callable[[int], str],
) -> tuple[Any, list[Rejected]]:
    """Return values as a column of its type, and which of them it cannot hold.

    Args:
        values: Python objects, or a ``pyarrow.ChunkedArray``.
        name: Of the column.
        wanted: Its type. One that was given stands, and strings are the widest: null is
            in the place of values that these cannot hold.
        file: Where the values are of.
        place: Where there, by the number of the row.

    Raises:
        WidenedError: If the type was not given.
    """
    pa, kind = arrow(), wanted.kept[name]
    unfit = (pa.ArrowException, UnicodeError, OverflowError, ValueError, TypeError)
    try:
        return _all(values, kind), []
    except unfit:
        pass
    found, told = [], []
    for row, value in enumerate(values):
        try:
            found.append(_one(value, kind))
        except unfit:
            plain = _plain(value)
            shown = f"{plain!r:.{MOST_SHOWN}}"
            error = f"column {name!r} is {kind}: it cannot hold {shown}"
            if name not in wanted.given and not _is_text(kind):
                is_number = pa.types.is_integer(kind) and isinstance(plain, float)
                wider = "double" if is_number else "string"
                where = f"{file}, {place(row)}: {error}"
                raise WidenedError(name, wider, where) from None
            told.append(Rejected(file, place(row), f"{error}, and is null", None, 0))
            found.append(None)
    return pa.chunked_array([pa.array(found, kind)]), told


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A value as Python has it; what is no UTF-8 as bytes."""
    if not isinstance(value, arrow().Scalar):
        return value
    try:
        return value.as_py()
    except UnicodeError:
        return value.as_buffer().to_pybytes()


def _all(values: Any, kind: Any) -> Any:  # noqa: ANN401
    pa, compute = arrow(), arrow("pyarrow.compute")
    if not isinstance(values, pa.ChunkedArray):
        made = pa.array(values, kind)
        # Some it takes for others: 1.5 for 1, a text for its letters, true for 1.0.
        is_same = pa.types.is_floating(kind) or made.to_pylist() == values
        if not is_same or (bool in map(type, values) and not pa.types.is_boolean(kind)):
            raise TypeError("other values")
        return made
    if pa.types.is_string(values.type) and not _is_text(kind):
        values = compute.if_else(compute.equal(values, ""), None, values)
    found = values.cast(kind)
    found.validate(full=True)
    return found


def _one(value: Any, kind: Any) -> Any:  # noqa: ANN401
    pa = arrow()
    if isinstance(value, pa.Scalar):
        try:
            one = _all(pa.chunked_array([pa.array([value.as_py()], value.type)]), kind)
            return one[0].as_py()
        except pa.ArrowException:
            value = value.as_py()
            if isinstance(value, str) or not _is_text(kind):
                raise
    if _is_text(kind) and value is not None:
        return _text(value)
    return _all([value], kind)[0].as_py()


def _text(value: object) -> str:
    """A value as a text: itself, or JSON of it."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeError:  # Half of a pair: JSON has a way to write it.
            return json.dumps(value)
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def source_of(value: object, wanted: Wanted) -> bytes | None:
    """Return a text, or messages and other objects as JSON, in UTF-8.

    Raises:
        ValueError: If it is none; the message says what it is.
    """
    if value is None or isinstance(value, bytes):
        return value
    if wanted.is_chat and isinstance(value, list | dict):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - of the record, not of an argument
            f"field {wanted.source!r} is {type(value).__name__}, not a text"
        )
    try:
        return value.encode()
    except UnicodeError as problem:
        raise ValueError(f"half of a surrogate pair: {problem}") from problem
