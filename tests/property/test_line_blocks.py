"""Files cut anywhere: every line is in one piece, whole and in order."""

import itertools
from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from pagefeed.prepare.texts.streams import line_blocks

contents = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"bcd", b"e" * 40]), max_size=60
).map(b"".join)


@given(contents, st.lists(st.integers(0, 400), max_size=6), st.integers(1, 50))
def test_pieces_are_the_file(data, cuts, size):
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    whole = b""
    for begin, end in itertools.pairwise(borders):
        for at, block in line_blocks(BytesIO(data), begin, end, size):
            assert data[at : at + len(block)] == block
            assert at == 0 or data[at - 1 : at] == b"\n"
            assert begin <= at < end or not block
            assert block.endswith(b"\n") or at + len(block) == len(data)
            whole += block
    assert whole == data


@given(contents, st.integers(1, 50))
def test_streams_without_an_end_are_the_file(data, size):
    blocks = [block for _, block in line_blocks(BytesIO(data), 0, None, size)]
    assert b"".join(blocks) == data
