"""Texts that the data plane takes from lines of JSON are those that Python takes."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed import _core
from pagefeed.prepare.texts.json_lines import _at_once, _one_by_one
from pagefeed.prepare.texts.records import Wanted

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=8)
VALUES = st.one_of(TEXTS, st.none(), st.integers(), st.floats(), st.lists(TEXTS))
OBJECTS = st.dictionaries(st.sampled_from(["text", "other", "é"]), VALUES)
ODD = [
    b"",
    b" ",
    b"[]",
    b'{"text": "a"',
    b'{"text": "a"} {"text": "b"}',
    b'{"text": "a", "text": "b"}',
    b'{"text": "\xff"}',
    b'{"text": "a", "x": "\xff"}',
    b'\xef\xbb\xbf{"text": "a"}',
    b'{"te\\u0078t": "\\ud83d\\ude00"}\r',
]
SOUND = st.builds(
    lambda row, *, plain: json.dumps(row, ensure_ascii=plain).encode(
        errors="surrogatepass"
    ),
    OBJECTS | st.fixed_dictionaries({"text": TEXTS}),
    plain=st.booleans(),
)


@given(st.lists(SOUND | st.sampled_from(ODD), max_size=5), st.booleans())
def test_texts_are_those_of_python(lines, ends):
    block = b"\n".join(lines) + b"\n" * ends
    found = _core.json_texts(block, "text")
    wanted = Wanted(source="text", kept={})
    expected = _one_by_one(block, lambda: 1, "file", wanted)
    rows = expected.table.column(0).to_pylist()
    if found is None:
        return
    assert not expected.rejected
    assert pa.array(found).to_pylist() == rows


def test_what_is_sound_is_taken_at_once():
    block = b'{"n": 1, "text": "a\\nb"}\n{"text": ""}\n'
    found = _core.json_texts(block, "text")
    assert found is not None
    assert pa.array(found).to_pylist() == [b"a\nb", b""]


BESIDE = Wanted(source="text", kept={"n": pa.int64()})


@pytest.mark.parametrize("end", ["", "\n"], ids=["open", "ended"])
def test_columns_beside_are_taken_at_once(end):
    texts = ["one", "", "and a third"]
    lines = [f'{{"n": {n}, "text": "{text}"}}' for n, text in enumerate(texts)]
    table = _at_once(("\n".join(lines) + end).encode(), BESIDE)
    assert table.column("text").to_pylist() == texts
    assert table.column("n").to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("kept", [{}, BESIDE.kept], ids=["alone", "beside"])
@pytest.mark.parametrize(
    "block", [b'{"text": "a"}\n\n{"text": "b"}\n', b'{"text": null}\n', b'{"t": "a"}']
)
def test_what_is_odd_takes_another_look(block, kept):
    assert _at_once(block, Wanted(source="text", kept=kept)) is None
