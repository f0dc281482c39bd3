"""Subsets of a given size: whole rows in the order of a keyed hash, until enough."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import numpy as np

from pagefeed.caches import ArrayFolder, ArrayWriter, derived_arrays, derived_key
from pagefeed.core._base import (
    Int64Array,
    UInt64Array,
    Work,
    check_number,
    check_positive,
    check_whole,
    lazy,
)
from pagefeed.core.dataset import Spans, lengths_of_rows
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection.criteria import NO_PART, Criterion, Labels, mix_hash
from pagefeed.selection.divided_rows import DividedRows
from pagefeed.selection.row_groups import RowGroups, row_groups_of
from pagefeed.selection.selection import Selection

VERSION = 1
BUCKET_BITS = 20
"""Hashes are counted by their first bits: a bucket holds a millionth of the rows."""
_COUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmbt]?)\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def taken(
    spans: Spans, tokens: int | str | None, share: float | None, seed: int
) -> Selection:
    """Select random rows that hold a number, or a share, of the tokens."""
    if (tokens is None) == (share is None):
        raise InvalidArgumentError("give either tokens='10B' or share=0.01")
    total = spans.num_values
    if share is not None:
        share = check_number(share, "share", above=0, most=1)
        wanted = max(1, round(share * total))
    else:
        wanted = _parse_count(tokens)
        if wanted > total:
            raise InvalidArgumentError(
                f"tokens={tokens!r} are more than the {total:,} tokens there are"
            )
    criterion = Taking(spans, wanted, check_whole(seed, "seed"))
    return Selection(DividedRows(spans, criterion), 0)


def _parse_count(value: object) -> int:
    """Return a number of tokens: 5000, ``"10B"``, ``"1.5M"``."""
    if not isinstance(value, str):
        return check_positive(value, "tokens")
    match = _COUNT.fullmatch(value)
    count = round(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if count < 1:
        raise InvalidArgumentError(
            f"tokens={value!r} is not a number of tokens: give a number, or one with "
            "K, M, B (10**9) or T, such as '10B'"
        )
    return count


class Taking(Criterion):
    """Selects the rows with the smallest hashes, until they hold enough tokens.

    The hash of a row depends on the seed and on the number of the row in the dataset.
    So the rows of a smaller subset are among those of a larger one, and the same rows
    are taken however they are cut into files.

    Args:
        spans: The rows to choose from.
        tokens: Tokens to take; the last row may exceed them.
        seed: Another seed takes other rows.
    """

    parts = ("taken",)
    counts_rows = True
    what = "random rows"

    def __init__(self, spans: Spans, tokens: int, seed: int) -> None:
        self._spans = spans
        self._tokens = tokens
        digest = hashlib.blake2b(digest_size=16, person=b"pagefeed.take")
        digest.update(str(seed).encode())
        first, second = np.frombuffer(digest.digest(), dtype="<u8").astype(np.uint64)
        self._hash_key = first, second
        self.key = f"take {VERSION} {seed} {tokens}"

    def begin(self) -> None:
        """Find the last hash, once for all threads."""
        _ = self._last_hash

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        is_taken = self._hashes(row_groups) <= self._last_hash
        return Labels(np.where(is_taken, 0, NO_PART).astype(np.uint16))

    def _hashes(self, row_groups: RowGroups) -> UInt64Array:
        rows = np.arange(
            row_groups.begin, row_groups.begin + row_groups.num_rows, dtype=np.uint64
        )
        return mix_hash(rows, self._hash_key)

    @lazy
    def _last_hash(self) -> np.uint64:
        """The hash of the last row that is taken."""
        index = self._spans.index
        key = derived_key(index, index.fingerprint, self._spans.fingerprint, self.key)
        stored = derived_arrays(index, "take", key, self._write, self._is_sound)
        return np.uint64(stored["last_hash"].astype(np.uint64)[0])

    def _is_sound(self, stored: ArrayFolder) -> bool:
        return stored.sizes == {"last_hash": 1}

    def _write(self, writer: ArrayWriter) -> None:
        """Find the bucket of hashes in which the tokens are enough, then the row."""
        in_bucket = np.zeros(1 << BUCKET_BITS, dtype=np.int64)
        shift = np.uint64(64 - BUCKET_BITS)

        def count(row_groups: RowGroups) -> tuple[Int64Array, Int64Array]:
            rows = np.flatnonzero(row_groups.wanted())
            buckets = (self._hashes(row_groups)[rows] >> shift).astype(np.int64)
            distinct, bucket_of_row = np.unique(buckets, return_inverse=True)
            sums = np.zeros(len(distinct), dtype=np.int64)
            tokens = lengths_of_rows(row_groups.spans, *row_groups.span_range)
            np.add.at(sums, bucket_of_row, tokens)
            return distinct, sums

        total = self._spans.num_rows
        work = Work("tokens of random rows", total=total, unit="rows")
        every = row_groups_of(self._spans)
        for hash_buckets, sums in work.map(
            count, every, lambda row_groups: row_groups.num_wanted
        ):
            in_bucket[hash_buckets] += sums
        before = np.append(0, np.cumsum(in_bucket))
        if before[-1] < self._tokens:  # Rows without tokens: none is taken.
            writer.append("last_hash", [0])
            return
        bucket = int(np.searchsorted(before, self._tokens, side="left")) - 1
        rows = self._rows_in(bucket)
        hashes, num_tokens = (
            np.concatenate(arrays) for arrays in zip(*rows, strict=True)
        )
        order = np.argsort(hashes)
        ends = before[bucket] + np.cumsum(num_tokens[order])
        last = hashes[order][np.searchsorted(ends, self._tokens, side="left")]
        writer.append("last_hash", last.astype(np.int64)[None])

    def _rows_in(self, bucket: int) -> Iterator[tuple[UInt64Array, Int64Array]]:
        """Yield hashes and tokens of the rows in one bucket, by row groups."""
        shift = np.uint64(64 - BUCKET_BITS)
        for row_groups in row_groups_of(self._spans):
            hashes = self._hashes(row_groups)
            here = np.flatnonzero(((hashes >> shift) == bucket) & row_groups.wanted())
            rows = row_groups.begin + np.stack([here, here + 1])
            first, end = row_groups.index.values_of_rows(rows)
            yield hashes[here], end - first
