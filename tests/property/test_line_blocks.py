"""Files cut anywhere: every line is in one piece, whole and in order."""

import itertools
import re
from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from pagefeed.prepare.texts.streams import line_blocks

contents = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"e" * 40]), max_size=60
).map(b"".join)
sizes = st.integers(1, 50)
limits = st.integers(1, 90)


def lines_of(data, most):
    """Where each line begins, and the line unless it is too long."""
    found = [
        (one.start(), one.group()) for one in re.finditer(rb"[^\n]*\n|[^\n]+", data)
    ]
    return [(at, line if len(line) <= most else None) for at, line in found]


def lines_in(blocks, most):
    for at, block in blocks:
        if block is None:
            yield at, None
            continue
        assert block
        for begin, line in lines_of(block, most):
            yield at + begin, line


@given(contents, st.lists(st.integers(0, 400), max_size=6), sizes, limits)
def test_pieces_are_the_file(data, cuts, size, most):
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = []
    for begin, end in itertools.pairwise(borders):
        blocks = [*line_blocks(BytesIO(data), begin, end, size, most)]
        assert all(begin <= at < end for at, _ in blocks)
        found += lines_in(blocks, most)
    assert found == lines_of(data, most)


@given(contents, sizes, limits)
def test_streams_without_an_end_are_the_file(data, size, most):
    blocks = line_blocks(BytesIO(data), 0, None, size, most)
    assert [*lines_in(blocks, most)] == lines_of(data, most)
