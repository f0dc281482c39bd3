"""Texts in lists and structs: what conversations and documents with metadata are."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.probing import Job, assert_all, probe

TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
STRICT = pa.struct(
    [
        pa.field("role", pa.large_string(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
    ]
)
TYPES = {
    "chat": pa.list_(TURN),
    "large-chat": pa.large_list(pa.field("item", STRICT, nullable=False)),
    "documents": pa.struct(
        [("text", pa.string()), ("meta", pa.struct([("id", pa.string())]))]
    ),
    "texts": pa.list_(pa.string()),
    "branches": pa.list_(pa.list_(TURN)),
    "mixed-depth": pa.list_(
        pa.struct([("role", pa.string()), ("parts", pa.list_(pa.string()))])
    ),
    "beside": pa.struct([("a", pa.list_(pa.string())), ("b", pa.list_(pa.string()))]),
}


def drawn(draw: random.Random, kind: pa.DataType, nullable: bool = True) -> object:
    """A value of a type, or None."""
    if nullable and draw.random() < 0.1:
        return None
    if pa.types.is_struct(kind):
        return {one.name: drawn(draw, one.type, one.nullable) for one in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = kind.value_field
        size = draw.choice([0, 1, 2, 3, 9])
        return [drawn(draw, item.type, item.nullable) for _ in range(size)]
    text = draw.choice(["user", "assistant", "", "caf\u00e9 " * draw.randrange(9)])
    return text.encode() if pa.types.is_binary(kind) else text


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("nulls", [True, False])
def test_texts_in_lists_and_structs(
    tmp_path: Path, version: str, dictionary: bool, nulls: bool
):
    draw = random.Random(5)
    jobs = []
    for name, kind in TYPES.items():
        values = [drawn(draw, kind, nulls) for _ in range(700)]
        table = pa.table({"a": pa.array(values, kind)})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=500,
            data_page_size=900,
            write_batch_size=17,
            data_page_version=version,
            use_dictionary=dictionary,
        )
        jobs.append(Job(path=path, column="a", expected=path))
    assert_all(probe(jobs), {"same"})
    assert all(one.outcome == "same" for one in probe(jobs))


@pytest.mark.parametrize("kind", ["list", "struct"])
def test_one_long_text_among_many_short_ones(tmp_path: Path, kind: str):
    """A megabyte once, and twenty thousand short answers, all in one dictionary."""
    texts = ["x" * (1 << 20), *["yes", "no"] * 10_000]
    turns = [{"role": "user", "content": text} for text in texts]
    rows = (
        turns
        if kind == "struct"
        else [turns[at : at + 3] for at in range(0, 20_001, 3)]
    )
    path = tmp_path / "chat.parquet"
    pq.write_table(
        pa.table({"a": rows}),
        path,
        data_page_size=1 << 20,
        dictionary_pagesize_limit=4 << 20,
    )
    assert path.stat().st_size < 1 << 20
    (outcome,) = probe([Job(path=path, column="a", expected=path)], memory=256 << 20)
    assert outcome.outcome == "same", outcome
