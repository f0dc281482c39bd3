"""Blocks of packed sequences, over spans of any sizes in files of any sizes."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pagefeed as pf
from made.listed import ListedSpans
from pagefeed.core._base import joined_ranges
from pagefeed.core.sequences.bundles import Bundles, bundle_keys
from pagefeed.core.sequences.packed import BLOCK_SEQUENCES, pack_lengths


class PackedSpans(ListedSpans):
    """Spans of rows of listed lengths, and runs of them that go together."""

    def __init__(self, files: list[list[list[int]]], run: int) -> None:
        super().__init__([[(len(rows), sum(rows)) for rows in file] for file in files])
        self.lengths = [length for file in files for rows in file for length in rows]
        self._run = run
        self.index = self
        self.null_pages = ()
        self.is_borderless = False
        self.value_bytes = 4
        self.bytes_beside = 0

    def runs(self, _: str) -> Any:
        if self._run == 1:
            return None
        # As with dictionaries: none over two files.
        borders = pairwise(self.file_first_span.tolist())
        return np.array([s for b, e in borders for s in range(b, e, self._run)])

    def row_lengths(self, pages: Any) -> Any:
        first, stop = self._rows[pages], self._rows[pages + 1]
        return np.array(self.lengths, dtype=np.int64)[joined_ranges(first, stop)]

    def spans_of_rows(self, rows: Any) -> Any:
        return np.searchsorted(self._rows, rows, side="right") - 1


def plain_blocks(spans: Any, packed: pf.Packed) -> list[int]:
    """First span of every block, one after another."""
    per_row, least = packed.layout.per_row, BLOCK_SEQUENCES * packed.length
    borders = np.arange(len(spans) + 1)
    before = spans.first_values(borders) + per_row * spans.first_rows(borders)
    file_first = spans.file_first_span.tolist()
    total = int(before[-1])
    lines = [0]
    for span in file_first[1:-1]:
        has = before[span] - before[lines[-1]]
        alone = packed.join == "file" and span > lines[-1]
        if alone or (has >= least and total - before[span] >= least):
            # Of files without spans or tokens the last begins a line.
            lines.append(span)
    starts = []
    run = spans.runs("page")
    may_begin = set(range(len(spans)) if run is None else run.tolist())
    for begin, end in pairwise([*lines, len(spans)]):
        if begin == end:
            continue
        starts.append(begin)
        for span in range(begin + 1, end):
            has, left = before[span] - before[starts[-1]], before[end] - before[span]
            if has >= least and left >= least and span in may_begin:
                starts.append(span)
    return starts


# Lengths of which a few make a block of just the tokens that it must have.
LENGTHS = [0, 0, 1, 2, 3, 5, 30, 70, BLOCK_SEQUENCES, 2 * BLOCK_SEQUENCES]
ROWS = st.lists(st.sampled_from(LENGTHS), max_size=5)
FILES = st.lists(st.lists(ROWS, max_size=6), min_size=1, max_size=30)
PACKED = st.builds(
    lambda length, separators, join: pf.Packed(length, join=join, **separators),
    st.sampled_from([1, 2, 3, 7]),
    st.sampled_from([{}, {"eos": 0}, {"eos": 0, "bos": 1}]),
    st.sampled_from(["dataset", "dataset", "file"]),
)


@given(files=FILES, packed=PACKED, run=st.integers(1, 3), copies=st.integers(1, 4))
def test_blocks_hold_every_row_once_and_little_padding(files, packed, run, copies):
    spans: Any = PackedSpans(files * copies, run)
    sequences = packed.index(spans)
    tokens = np.array(spans.lengths, dtype=np.int64) + packed.layout.per_row
    assert sequences.num_tokens == sequences.num_delivered_tokens == tokens.sum()
    if packed.join == "dataset":
        assert sequences.num_padding_tokens < max(
            packed.length, 0.005 * sequences.num_tokens
        )
    # Bundles: the rows of all spans in turn.
    keys = bundle_keys(np.arange(len(sequences)))
    bundles = sequences.bundles(keys)
    assert bundles.slice_page.tolist() == list(range(len(spans)))
    assert bundles.num_sequences.sum() == sequences.num_sequences
    assert np.array_equal(
        bundles.slice_rows, np.diff(spans.first_rows(np.arange(len(spans) + 1)))
    )
    if packed.join == "file":
        assert set(spans.file_first_span.tolist()) <= set(sequences.first_span.tolist())
    # Every token of every row in one sequence, and found there.
    found: dict[int, list[int]] = {}
    for block in range(len(sequences)):
        lengths = sequences.lengths(block)
        assert (
            packed.join == "file"
            or len(sequences) == 1
            or (lengths.sum() >= BLOCK_SEQUENCES * packed.length)
        )
        rows = pack_lengths(lengths, packed.length, packed.layout)
        first_row = int(spans.first_rows(sequences.first_span[block]))
        first_sequence = int(
            sequences.blocks("page").first_sequence(np.array([block]))[0]
        )
        assert len(np.unique(rows.sequence)) == bundles.num_sequences[block]
        covered = np.bincount(rows.row, weights=rows.num_tokens, minlength=len(lengths))
        assert np.array_equal(covered, lengths)
        for sequence, row in zip(
            rows.sequence.tolist(), rows.row.tolist(), strict=True
        ):
            found.setdefault(first_row + row, []).append(first_sequence + sequence)
    for row in range(0, len(tokens), 1 + len(tokens) // 20):
        assert sequences.sequences_of_row(row).tolist() == found.get(row, [])


def test_no_bundles_are_of_the_types_of_some():
    spans: Any = PackedSpans([[[100]]], 1)
    some = pf.Packed(64).index(spans).bundles(bundle_keys(np.arange(1)))
    none = Bundles.none()
    assert [each.dtype for each in none] == [each.dtype for each in some]
    assert [each.tolist() for each in none] == [[], [], [0], [], [], [], [0], [], []]


@given(files=FILES, packed=PACKED, run=st.integers(1, 3), copies=st.integers(1, 4))
@example(files=[[[BLOCK_SEQUENCES]] * 3], packed=pf.Packed(1), run=1, copies=1)
def test_blocks_are_those_of_a_plain_model(files, packed, run, copies):
    spans: Any = PackedSpans(files * copies, run)
    sequences = packed.index(spans)
    assert sequences.first_span.tolist() == [*plain_blocks(spans, packed), len(spans)]


@pytest.mark.parametrize("num_tokens", [1, 500, 2100, 128 * 64 + 1, 200 * 64 + 1])
def test_files_of_one_size_lose_little(num_tokens):
    # Sizes that would waste most of a sequence in each file.
    spans: Any = PackedSpans([[[num_tokens]]] * 60, 1)
    sequences = pf.Packed(64).index(spans)
    assert sequences.num_padding_tokens < max(64, 0.005 * sequences.num_tokens)


@pytest.mark.parametrize(
    ("bytes_beside", "fewest"), [(0, 200), (1, 200), (1 << 14, 128), (1 << 20, 32)]
)
def test_blocks_of_rows_that_bring_much_along_are_smaller(bytes_beside, fewest):
    spans = PackedSpans([[[16]] * 4000], run=1)
    spans.bytes_beside = bytes_beside * spans.num_values
    index = pf.Packed(64).index(spans)  # type: ignore[arg-type]
    blocks = np.diff(index.first_span)[:-1]
    assert (blocks == 4 * fewest).all()
