"""Lines of JSON: many at once as long as all is well, else one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pagefeed import _core
from pagefeed.prepare.texts.lines import Lines, numbered
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    of_objects,
    shown,
)
from pagefeed.prepare.texts.streams import line_blocks, opened, with_compressed
from pagefeed.storage import Storage

__all__ = ["JsonLines"]

SEEN_BYTES = 1 << 20
"""Of the begin of a file, by which the types of columns are told."""
BLOCK_BYTES = 1 << 20
"""Of lines that are read at once: what is larger is fresh from the system each time,
which takes as long as reading it."""
MOST_BYTES = (1 << 31) - 1
"""Of a block for pyarrow."""
_BOM = b"\xef\xbb\xbf"


class JsonLines(Lines):
    """A record a line."""

    name = "jsonl"
    suffixes = with_compressed(".jsonl", ".ndjson")

    def types(self, storage: Storage, file: str) -> dict[str, Any] | None:
        """Return what the first lines say; times are kept as they are written."""
        pa = arrow()
        with opened(storage, file) as stream:
            _, block = next(line_blocks(stream, 0, None, SEEN_BYTES), (0, b""))
        found = [_parsed(line)[0] for line in block.splitlines() if line.strip()]
        rows = [row for row in found if row is not None]
        if not rows:
            return None
        names = {name: None for row in rows for name in row}
        types = {}
        for name in names:
            try:
                types[name] = pa.array([row.get(name) for row in rows]).type
            except pa.ArrowException:  # Of several kinds: its users say which.
                types[name] = pa.null()
        return types

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the records of a piece."""
        size = min(BLOCK_BYTES, wanted.batch_bytes)
        for block, first in numbered(storage, piece, size):
            data = block.removeprefix(_BOM)
            table = None if wanted.is_chat else _at_once(data, wanted)
            if table is None:
                yield _one_by_one(data, first, piece.file, wanted)
            else:
                yield Batch(table, lambda row, first=first: f"line {first() + row}")  # type: ignore[misc]


def _at_once(block: bytes, wanted: Wanted) -> Any:  # noqa: ANN401
    """The records of a block; None if something is odd with one of them."""
    pa, reader = arrow(), arrow("pyarrow.json")
    if not wanted.kept:
        return _texts_at_once(block, wanted.source)
    if len(block) >= MOST_BYTES:
        return None
    schema = pa.schema({wanted.source: pa.string(), **wanted.kept})
    try:
        table = reader.read_json(
            pa.BufferReader(block),
            reader.ReadOptions(use_threads=False, block_size=len(block) + 1),
            reader.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        ).select(wanted.columns)
        for name in wanted.kept:
            table.column(name).validate(full=True)
    except (pa.ArrowException, KeyError):
        return None
    num_lines = block.count(b"\n") + (block[-1:] != b"\n")
    # Null may be missing: it takes another look.
    is_sound = len(table) == num_lines and not table.column(0).null_count
    return table if is_sound else None


def _texts_at_once(block: bytes, name: str) -> Any:  # noqa: ANN401
    """The same of texts alone, without the GIL."""
    pa, found = arrow(), _core.json_texts(block, name)
    if found is None:
        return None
    data, offsets = map(pa.py_buffer, found)
    count = len(found[1]) // 8 - 1
    kind = pa.large_binary()
    return pa.table({name: pa.Array.from_buffers(kind, count, [None, offsets, data])})


def _one_by_one(block: bytes, first: Any, file: str, wanted: Wanted) -> Batch:  # noqa: ANN401
    rows, numbers, rejected = [], [], []
    for number, line in enumerate(block.split(b"\n")):
        if not line.strip():
            continue
        row, error = _parsed(line)
        if row is not None:
            row, error = _checked(row, wanted)
        if row is None:
            place = f"line {first() + number}"
            rejected.append(Rejected(file, place, error, line))
        else:
            rows.append(row)
            numbers.append(number)
    table = of_objects(rows, wanted)
    return Batch(table, lambda row: f"line {first() + numbers[row]}", rejected)


def _parsed(line: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as problem:
        return None, f"no JSON: {problem}"
    if not isinstance(row, dict):
        return None, f"a record is an object, this is {type(row).__name__}"
    return row, ""


def _checked(row: dict[str, Any], wanted: Wanted) -> tuple[dict[str, Any] | None, str]:
    """Return the columns wanted, the source as bytes, or what is wrong with them."""
    if wanted.source not in row:
        return None, f"there is no field {wanted.source!r}, only {shown([*row])}"
    source = row[wanted.source]
    if wanted.is_chat and isinstance(source, list):
        source = json.dumps(source)
    if not isinstance(source, str | None):
        return None, f"field {wanted.source!r} is {type(source).__name__}, not a text"
    try:
        found = {name: row.get(name) for name in wanted.kept}
        found[wanted.source] = None if source is None else source.encode()
        of_objects([found], wanted)
    except (arrow().ArrowException, UnicodeError) as problem:
        return None, str(problem)
    return found, ""
