"""Lines of JSON: parsed in blocks, or one by one where a block has a problem."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed.core.storage import Storage
from pagefeed.prepare.texts.kept import Sample, batch_of
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    FileRange,
    Rejected,
    Wanted,
    arrow,
    rejection,
    too_long,
)
from pagefeed.prepare.texts.streams import (
    Reader,
    codec_of,
    line_blocks,
    opened,
    with_compressed,
)

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
_COUNTED_BYTES = 8 << 20


class JsonLines(Reader):
    """A record a line."""

    suffixes = with_compressed(".jsonl", ".ndjson")

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

    def ranges(self, storage: Storage, file: str, most: int) -> Iterator[FileRange]:
        """Divide a file at the ends of lines, unless it is compressed."""
        if codec_of(file) is not None:
            yield from super().ranges(storage, file, most)
            return
        size = storage.size(file)
        count = max(1, -(-size // most))
        borders = [size * index // count for index in range(count + 1)]
        for begin, end in itertools.pairwise(borders):
            if begin < end or count == 1:
                yield FileRange(file, begin, end, end - begin)

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the records of a range.

        Lines of the ranges before are counted when a position is asked for.
        """
        size = min(BLOCK_BYTES, wanted.batch_bytes)
        before = cache(lambda: _num_before(storage, file_range))
        count = 0
        with opened(storage, file_range.file) as stream:
            for _, block in line_blocks(
                stream, file_range.begin, file_range.end, size, wanted.record_bytes
            ):

                def first(counted: int = count) -> int:
                    return 1 + before() + counted

                if block is None:
                    error = too_long(wanted.record_bytes)
                    rejected = Rejected(file_range.file, f"line {first()}", error)
                    yield rejection(rejected, wanted)
                    count += 1
                    continue
                batch, num_lines = self.batch(block, first, file_range.file, wanted)
                yield batch
                count += num_lines

    def batch(
        self, block: bytes, first: Callable[[], int], file: str, wanted: Wanted
    ) -> tuple[Batch, int]:
        """Return the records of some lines, and the number of these lines."""
        data = block.removeprefix(_BOM)
        table = None if wanted.is_chat else _at_once(data, wanted)
        if table is None:
            return _one_by_one(data, first, file, wanted), _num_ends(data)
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


def _num_before(storage: Storage, file_range: FileRange) -> int:
    """Return the number of lines before a range."""
    if not file_range.begin:
        return 0
    # The range's first line follows the line end at its start, or the next line end.
    parts = storage.parts(file_range.file, 0, file_range.begin - 1, _COUNTED_BYTES)
    return 1 + sum(map(_num_ends, parts))


def _num_ends(block: bytes) -> int:
    """Return the number of line ends, a few times as fast as ``bytes.count``."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
