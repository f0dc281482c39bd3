"""Lines of JSON are read at once where nothing is odd with any of them."""

import pytest

pytest.importorskip("pyarrow", reason="the extra text is not installed")

from pagefeed.prepare.texts.json_lines import _at_once
from pagefeed.prepare.texts.records import Wanted

WANTED = Wanted(source="text", kept={})


@pytest.mark.parametrize("end", ["", "\n"], ids=["open", "ended"])
def test_sound_lines_are_read_at_once(end):
    texts = ["one", "", "and a third"]
    block = "\n".join(f'{{"text": "{text}"}}' for text in texts) + end
    table = _at_once(block.encode(), WANTED)
    assert table.column(0).to_pylist() == texts


@pytest.mark.parametrize(
    "block", [b'{"text": "a"}\n\n{"text": "b"}\n', b'{"text": null}\n', b'{"t": "a"}']
)
def test_what_is_odd_takes_another_look(block):
    assert _at_once(block, WANTED) is None
