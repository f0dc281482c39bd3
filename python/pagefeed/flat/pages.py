"""Pages of flat files: runs of tokens, cut where documents begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.errors import LimitExceededError

PAGE_BYTES = 64 << 10
"""Approximate bytes of a page, which is read at once.

A window of some thousand tokens has a few KB, so a full shuffle reads several times
what it delivers. Smaller pages would cost more system calls than they save bytes.
"""

_MOST = np.iinfo(np.uint32).max
UInt32Array = npt.NDArray[np.uint32]


class FilePages(NamedTuple):
    """The pages of one file."""

    offset: Int64Array
    """Offset of each page in the file: int64 [pages]."""
    size: Int64Array
    """Bytes of each page: int64 [pages]."""
    num_rows: Int64Array
    """Rows that begin in it: int64 [pages]."""
    num_values: Int64Array
    """Tokens of each page: int64 [pages]."""
    row_value: UInt32Array
    """Tokens of the page before each row, uint32 [rows]; [0] if a page is one row."""
    row_byte: UInt32Array
    """Bytes of the page before each row, uint32 [rows]; [0] if rows follow closely."""


_NONE = np.empty(0, dtype=np.uint32)
_ZERO = np.zeros(1, dtype=np.int64)


def joined_pages(begin: int, num_tokens: int, record_size: int) -> FilePages:
    """Cut tokens without documents: every page is a row.

    Example:
        >>> joined_pages(8, 40_000, 2).num_values.tolist()
        [32768, 7232]
    """
    step = max(1, PAGE_BYTES // record_size)
    first = np.arange(0, num_tokens, step)
    counts = np.diff(first, append=num_tokens)
    return FilePages(
        offset=begin + first * record_size,
        size=counts * record_size,
        num_rows=np.ones_like(first),
        num_values=counts,
        row_value=_NONE,
        row_byte=_NONE,
    )


def document_pages(
    begin: int, lengths: Iterable[Int64Array], record_size: int
) -> FilePages:
    """Cut contiguous documents; a page holds whole documents.

    Args:
        begin: Offset of the first in the file.
        lengths: Tokens of each, some at a time: int64 arrays.
        record_size: Bytes of a token and its other fields.

    Raises:
        LimitExceededError: If a document has 2^32 tokens or more.

    Example:
        >>> pages = document_pages(0, [np.array([3, 0, 40_000, 2])], 2)
        >>> pages.num_rows.tolist(), pages.row_value.tolist()
        ([3, 1], [0, 3, 3, 0])
    """
    step = max(1, PAGE_BYTES // record_size)
    bucket, page_start, num_tokens, num_rows = -1, 0, 0, 0
    starts: list[Int64Array] = []
    first_rows: list[Int64Array] = []
    row_value: list[UInt32Array] = []
    for some in lengths:
        if not len(some):
            continue
        ends = num_tokens + np.cumsum(some)
        start = ends - some
        if bucket < 0 and start[-1] < step:  # Most shards of many are small.
            starts, first_rows = [_ZERO], [_ZERO]
            row_value.append(start.astype(np.uint32))
            bucket, num_tokens, num_rows = 0, int(ends[-1]), len(some)
            continue
        buckets = start // step
        is_new = steps(buckets, bucket) > 0
        own = np.maximum.accumulate(np.where(is_new, start, page_start))
        row_value.append(_narrow(start - own))
        starts.append(start[is_new])
        first_rows.append(num_rows + np.flatnonzero(is_new))
        bucket, page_start = int(buckets[-1]), int(own[-1])
        num_tokens, num_rows = int(ends[-1]), num_rows + len(some)
    first, row = _joined(starts), _joined(first_rows)
    counts = _until(first, num_tokens)
    return FilePages(
        offset=begin + first * record_size,
        size=counts * record_size,
        num_rows=_until(row, num_rows),
        num_values=counts,
        row_value=row_value[0]
        if len(row_value) == 1
        else np.concatenate([_NONE, *row_value]),
        row_byte=_NONE,
    )


def apart(starts: Int64Array, num_tokens: Int64Array, token_bytes: int) -> FilePages:
    """Cut rows with gaps between them; a page holds whole rows and their gaps.

    Args:
        starts: Offset of the tokens of each row, rising: int64 [rows].
        num_tokens: Tokens of each: int64 [rows].
        token_bytes: Bytes of a token.

    Raises:
        LimitExceededError: If a row has 2^32 bytes or more.

    Example:
        >>> apart(np.array([10, 50]), np.array([4, 8]), 2).row_byte.tolist()
        [0, 40]
    """
    ends = starts + num_tokens * token_bytes
    is_new = np.diff(starts // PAGE_BYTES, prepend=-1) > 0
    row = np.flatnonzero(is_new)
    before = np.cumsum(num_tokens) - num_tokens
    page = np.cumsum(is_new) - 1
    last = np.append(row[1:], len(starts))[: len(row)] - 1
    return FilePages(
        offset=starts[row],
        size=ends[last] - starts[row],
        num_rows=np.diff(row, append=len(starts)),
        num_values=np.diff(before[row], append=int(num_tokens.sum())),
        row_value=_narrow(before - before[row][page]),
        row_byte=_narrow(starts - starts[row][page]),
    )


def steps(numbers: Int64Array, before: int) -> Int64Array:
    """Return differences as ``np.diff(prepend=)``, which takes five times as long."""
    steps = numbers.copy()
    steps[1:] -= numbers[:-1]
    steps[0] -= before
    return steps


def _until(numbers: Int64Array, end: int) -> Int64Array:
    """Return differences as ``np.diff(append=)``, which takes four times as long."""
    if len(numbers) == 1:
        return end - numbers
    differences = np.empty_like(numbers)
    np.subtract(numbers[1:], numbers[:-1], out=differences[:-1])
    differences[-1:] = end - numbers[-1:]
    return differences


def _narrow(numbers: Int64Array) -> UInt32Array:
    if len(numbers) and numbers.max() > _MOST:
        raise LimitExceededError(
            f"a page would hold {numbers.max():,} tokens or bytes before a document: a "
            f"document may have {_MOST:,} at most; split it"
        )
    return numbers.astype(np.uint32)


def _joined(parts: list[Int64Array]) -> Int64Array:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
