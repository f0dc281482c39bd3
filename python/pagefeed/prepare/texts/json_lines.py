"""Lines of JSON: parsed in blocks, or one by one where a block has a problem."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pagefeed import _core
from pagefeed.core.storage import Storage
from pagefeed.prepare.texts.kept import Sample, batch_of
from pagefeed.prepare.texts.lines import LineReader, num_ends
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    Wanted,
    arrow,
)
from pagefeed.prepare.texts.streams import line_blocks, opened, with_compressed

SEEN_BYTES = 1 << 20
"""Bytes at the begin of a file that decide on the types of columns."""
BLOCK_BYTES = 1 << 20
"""Bytes of lines that are read at once. The system gives fresh memory for larger
blocks, which takes as long as reading them."""
MOST_BYTES = (1 << 31) - 1
"""Most bytes of a block for pyarrow."""
MOST_DIGITS = 640
"""Digits of a number, at most, independent of the interpreter's limit."""
_BOM = b"\xef\xbb\xbf"


class JsonLines(LineReader):
    """A record a line."""

    suffixes = with_compressed(".jsonl", ".ndjson")
    most_bytes = BLOCK_BYTES

    def types(self, storage: Storage, file: str) -> dict[str, Any] | None:
        """Return the types in the first lines; times are kept as text."""
        pa = arrow()
        with opened(storage, file) as stream:
            blocks = line_blocks(stream, 0, None, SEEN_BYTES, RECORD_BYTES)
            seen = next((block for _, block in blocks if block is not None), b"")
        lines = seen.removeprefix(_BOM).split(b"\n")
        objects = [_parse_record(line)[0] for line in lines if line.strip()]
        rows = [row for row in objects if row is not None]
        if not rows:
            return None
        names = {name: None for row in rows for name in row}
        types = {}
        for name in names:
            if name != name.encode(errors="ignore").decode():
                continue  # It has half of a surrogate pair.
            try:
                types[name] = pa.array([row.get(name) for row in rows]).type
            except (pa.ArrowException, OverflowError, ValueError, TypeError):
                types[name] = pa.string()  # The values have several types.
        return types

    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> tuple[Batch, int]:
        """Return the records of some lines, and the number of these lines."""
        data = block.removeprefix(_BOM)
        table = None if wanted.is_chat else _at_once(data, wanted)
        if table is None:
            return _one_by_one(data, first, file, wanted), num_ends(data)
        # Every line is a row.
        return Batch(table, lambda row: f"line {first() + row}"), len(table)


def _at_once(block: bytes, wanted: Wanted) -> Any:
    """Parse a block; return None if a record has a problem."""
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
    # A null may be a missing field: the slow way tells.
    is_sound = len(table) == num_lines and not table.column(0).null_count
    return table if is_sound else None


def _texts_at_once(block: bytes, name: str) -> Any:
    """Parse the texts of a block, without the GIL."""
    pa, texts = arrow(), _core.json_texts(block, name)
    return None if texts is None else pa.table({name: pa.array(texts)})


def _one_by_one(
    block: bytes, first: Callable[[], int], file: str, wanted: Wanted
) -> Batch:
    lines = enumerate(block.split(b"\n"))
    samples = (Sample(n, *_parse_record(line)) for n, line in lines if line.strip())
    return batch_of(
        samples, wanted, file, lambda line_in_block: f"line {first() + line_in_block}"
    )


def _parse_record(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Parse a JSON object; return it, or None and the reason."""
    try:
        row = json.loads(line, parse_int=_whole)
    except (ValueError, RecursionError) as problem:
        return None, f"no JSON: {problem}"
    if not isinstance(row, dict):
        return None, f"a record is an object, this is {type(row).__name__}"
    return row, ""


def _whole(digits: str) -> int | str:
    """Parse a number; return text if it has more digits than Python may parse."""
    return int(digits) if len(digits) <= MOST_DIGITS else digits
