"""Records as tables: kept columns in their types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pagefeed.errors import InvalidArgumentError
from pagefeed.prepare.texts.records import Batch, Rejected, Wanted, arrow, shown

MOST_SHOWN = 40
"""Most characters of a value that an error shows."""


class Sample(NamedTuple):
    """A record of the input, or the reason why it was rejected."""

    key: Any
    """The position of the record, in the form of its format."""
    row: Mapping[str, Any] | None
    """Values by name; None if the record was rejected."""
    error: str = ""
    """Why it is rejected."""


def batch_of(
    samples: Iterable[Sample],
    wanted: Wanted,
    file: str,
    position_of: Callable[[Any], str],
) -> Batch:
    """Return records as a batch: the source as bytes, kept columns in their types.

    Args:
        samples: The records.
        wanted: What to take of them.
        file: Their file.
        position_of: Returns the position in the file that a key stands for.

    Raises:
        InvalidArgumentError: If an inferred type of a column is too narrow.
    """
    pa, rejected = arrow(), list[Rejected]()
    keys, rows, sources = [], [], []
    for key, row, problem in samples:
        source, error = (None, problem) if row is None else _source_of(row, wanted)
        if row is None or error:
            rejected.append(Rejected(file, position_of(key), error))
            continue
        keys.append(key)
        rows.append(row)
        sources.append(source)

    def position_of_row(row: int) -> str:
        return position_of(keys[row])

    columns = {wanted.source: pa.array(sources, "binary")}
    for name in wanted.kept:
        values = [row.get(name) for row in rows]
        columns[name], unfit = fitting(values, name, wanted, file, position_of_row)
        rejected += unfit
    return Batch(pa.table(columns), position_of_row, rejected)


def fitting(
    values: Any, name: str, wanted: Wanted, file: str, position_of: Callable[[int], str]
) -> tuple[Any, list[Rejected]]:
    """Convert values to the type of their column. Return also values that do not fit.

    Args:
        values: Python objects, or a ``pyarrow.ChunkedArray``.
        name: Name of the column.
        wanted: Has its type. Values that do not fit a given type, or text, become null.
        file: File of the values.
        position_of: Returns the position of a row in the file.

    Raises:
        InvalidArgumentError: If a value does not fit an inferred type.
    """
    pa, kind = arrow(), wanted.kept[name]
    unfit = (pa.ArrowException, UnicodeError, OverflowError, ValueError, TypeError)
    try:
        return _all(values, kind), []
    except unfit:
        pass
    fit, rejected = [], []
    for row, value in enumerate(values):
        try:
            fit.append(_one(value, kind))
        except unfit:
            plain = _plain(value)
            shown = f"{plain!r:.{MOST_SHOWN}}"
            error = f"column {name!r} is {kind}: it cannot hold {shown}"
            if name not in wanted.given and not _is_text(kind):
                is_number = pa.types.is_integer(kind) and isinstance(plain, float)
                wider = "double" if is_number else "string"
                raise InvalidArgumentError(
                    f"{file}, {position_of(row)}: {error}; the first records gave "
                    "this type: give one that holds all values, "
                    f"keep={{{name!r}: {wider!r}}}"
                ) from None
            rejected.append(
                Rejected(file, position_of(row), f"{error}, and is null", 0)
            )
            fit.append(None)
    return pa.chunked_array([pa.array(fit, kind)]), rejected


def _plain(value: Any) -> Any:
    """Return a value as a Python object; text that is not UTF-8 as bytes."""
    if not isinstance(value, arrow().Scalar):
        return value
    try:
        return value.as_py()
    except UnicodeError:
        return value.as_buffer().to_pybytes()


def _all(values: Any, kind: Any) -> Any:
    pa, compute = arrow(), arrow("pyarrow.compute")
    if not isinstance(values, pa.ChunkedArray):
        array = pa.array(values, kind)
        # pyarrow converts silently: 1.5 to 1, a text to its letters, true to 1.0.
        is_same = pa.types.is_floating(kind) or array.to_pylist() == values
        if not is_same or (bool in map(type, values) and not pa.types.is_boolean(kind)):
            raise TypeError("other values")
        return array
    if pa.types.is_string(values.type) and not _is_text(kind):
        values = compute.if_else(compute.equal(values, ""), None, values)
    cast = values.cast(kind)
    cast.validate(full=True)
    return cast


def _one(value: Any, kind: Any) -> Any:
    pa = arrow()
    if isinstance(value, pa.Scalar):
        try:
            array = _all(
                pa.chunked_array([pa.array([value.as_py()], value.type)]), kind
            )
            return array[0].as_py()
        except pa.ArrowException:
            value = value.as_py()
            if isinstance(value, str) or not _is_text(kind):
                raise
    if _is_text(kind) and value is not None:
        return _text(value)
    return _all([value], kind)[0].as_py()


def _text(value: object) -> str:
    """Return a text unchanged, and other values as JSON."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeError:  # Half of a surrogate pair, which JSON can write.
            return json.dumps(value)
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _source_of(row: Mapping[str, Any], wanted: Wanted) -> tuple[bytes | None, str]:
    """Return the text of a record, or JSON of its messages, or None and the reason."""
    name = wanted.source
    if name not in row:
        return None, f"there is no field {name!r}, only {shown([*row])}"
    value = row[name]
    if value is None or isinstance(value, bytes):
        return value, ""
    if wanted.is_chat and isinstance(value, list | dict):
        value = json.dumps(value)
    if not isinstance(value, str):
        return None, f"field {name!r} is {type(value).__name__}, not a text"
    try:
        return value.encode(), ""
    except UnicodeError as problem:
        return None, f"half of a surrogate pair: {problem}"
