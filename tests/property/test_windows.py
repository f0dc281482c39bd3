"""Token ranges of windows, over spans of any sizes."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import pagefeed as pf
from made.listed import ListedSpans
from pagefeed.core._base.arrays import sorted_with_places
from pagefeed.core.sequences.lines import Lines

# Of empty spans, of rows without values, and of one long row among short ones.
SIZES = st.one_of(
    st.just((0, 0)),
    st.tuples(st.integers(1, 5), st.just(0)),
    st.tuples(st.integers(1, 4), st.integers(0, 12)),
    st.tuples(st.integers(1, 2), st.integers(100, 300)),
)
FILES = st.lists(st.lists(SIZES, max_size=12), min_size=1, max_size=4)
WINDOWS = st.builds(
    lambda length, overlap, tail, separators, join: pf.Windows(
        length, tail, overlap=min(overlap, length - 1), join=join, **separators
    ),
    st.sampled_from([1, 2, 3, 8, 40, 150]),
    st.sampled_from([0, 0, 1, 5]),
    st.sampled_from(["pad", "drop"]),
    st.sampled_from([{}, {"eos": 0}, {"eos": 0, "bos": 1}]),
    st.sampled_from(["dataset", "dataset", "file"]),
)


def lines_of(files, windows):
    """The (span, token of the span) of every token, line by line."""
    per_row, lines, first = windows.layout.per_row, [], 0
    for file in files:
        lines.append(
            [
                (span, token)
                for span, (rows, values) in enumerate(file, first)
                for token in range(values + per_row * rows)
            ]
        )
        first += len(file)
    if windows.windows.join == "dataset":
        return [[token for line in lines for token in line]]
    return lines


def windows_of(files, windows):
    """Every window: the (span, token of the span) of its tokens."""
    length, drops = windows.length, windows.windows.tail == "drop"
    found = []
    for line in lines_of(files, windows):
        start = 0
        while start < len(line) - (length - 1 if drops else 0):
            found.append(line[start : start + length])
            if start + length >= len(line):
                break
            start += windows.stride
    return found


def expected_segments(files, windows, sequences):
    """Window by window and token by token: what `segments` says of them."""
    every, found = windows_of(files, windows), []
    for place, sequence in enumerate(sequences):
        ranges: list[list[int]] = []
        for offset, (span, token) in enumerate(every[sequence]):
            if ranges and ranges[-1][1] == span:
                ranges[-1][4] += 1
            else:
                ranges.append([place, span, 0, token, 1, offset])
        found += ranges
    return found


@given(files=FILES, windows=WINDOWS, seed=st.integers(0, 99), count=st.integers(0, 200))
def test_segments_are_the_tokens_of_windows(files, windows, seed, count):
    spans: Any = ListedSpans(files)
    sequences = windows.index(spans)
    if sequences.num_sequences == 0:
        assert len(sequences.segments(np.empty(0, dtype=np.int64)).sequence) == 0
        return
    # Neighbours, in any order and some of them twice.
    rng = np.random.default_rng(seed)
    first = rng.integers(sequences.num_sequences)
    asked = (first + rng.permutation(count)) % sequences.num_sequences
    segments = sequences.segments(asked)
    expected = expected_segments(files, sequences, asked.tolist())
    assert np.array(segments).T.tolist() == expected


@given(files=FILES, windows=WINDOWS)
def test_counts_of_windows_are_those_of_a_plain_model(files, windows):
    spans: Any = ListedSpans(files)
    sequences, expected = (
        windows.index(spans),
        windows_of(files, windows.index(spans)),
    )
    held = sum(map(len, expected))
    assert sequences.num_sequences == len(expected)
    assert sequences.num_delivered_tokens == held
    assert sequences.num_padding_tokens == len(expected) * windows.length - held
    distinct = {token for window in expected for token in window}
    assert sequences.num_dropped_tokens == sequences.num_tokens - len(distinct)
    # Blocks and files by where windows start.
    starts = np.array([window[0][0] for window in expected], dtype=np.int64)
    assert np.array_equal(sequences.spans_of(np.arange(len(expected))), starts)
    borders = np.arange(len(spans) + 1)
    first = sequences.first_of_spans(borders)
    assert np.array_equal(first, np.searchsorted(starts, borders))
    assert np.array_equal(sequences.file_first_sequence, first[spans.file_first_span])


@given(files=FILES, per_row=st.integers(1, 3))
def test_the_span_of_every_token_of_a_line_is_found(files, per_row):
    spans: Any = ListedSpans(files)
    lines = Lines(spans, per_row)
    tokens = np.arange(lines.num_tokens)
    borders = lines.first(np.arange(len(spans) + 1))
    expected = np.searchsorted(borders, tokens, side="right") - 1
    assert np.array_equal(lines.spans_of(tokens), expected)


@given(
    numbers=st.lists(
        st.one_of(st.integers(0, 9), st.integers(-(2**62), 2**62)), max_size=20
    ),
)
def test_sorting_keeps_track_of_places(numbers):
    array = np.array(numbers, dtype=np.int64)
    rising, places = sorted_with_places(array)
    assert rising.tolist() == sorted(numbers)
    assert np.array_equal(array[places], rising)
    assert sorted(places.tolist()) == list(range(len(numbers)))
