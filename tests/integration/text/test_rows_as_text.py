"""Texts in structs and lists, and of several columns, are the same both ways."""

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.tokenizers_made import tokenizer_json
from pagefeed.errors import CorruptFileError, InvalidArgumentError

DOCS: list[Any] = [
    {"text": "one text", "meta": {"id": 1}},
    {"text": None, "meta": None},
    {"text": "naïve 漢字\n", "meta": {"id": 3}},
    None,
] * 60
LISTS = [["first", "", "second 👍"], [], None, ["alone"]] * 60
TITLES = [None if n % 7 == 3 else f"title {n} " * (n % 5) for n in range(240)]
EXPECTED = {
    "doc.text": ["" if not one or not one["text"] else one["text"] for one in DOCS],
    "parts": ["\n".join(filter(None, one or [])) for one in LISTS],
}


@pytest.fixture(scope="module")
def tok(tmp_path_factory):
    path = tmp_path_factory.mktemp("tok") / "tokenizer.json"
    path.write_text(tokenizer_json("gpt2"))
    return pf.Tokenizer(path)


@pytest.fixture
def source(tmp_path):
    table = pa.table({"doc": DOCS, "parts": LISTS, "title": TITLES})
    # Pages of the columns end at different rows.
    options = {"data_page_size": 200, "write_batch_size": 7, "use_dictionary": False}
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100, **options)
    return tmp_path / "a.parquet"


def joined(row):
    """A function of a row."""
    title, doc = row["title"], row["doc"]
    return None if title is None else f"{title}|{(doc or {}).get('text')}"


def by_template(number):
    title, doc = TITLES[number], EXPECTED["doc.text"][number]
    return f"# {title or ''}\n{doc}{{}}{EXPECTED['parts'][number]}"


WAYS: dict[str, tuple[dict[str, Any], list[str | None]]] = {
    "template": (
        {"text": "# {title}\n{doc.text}{{}}{parts}"},
        [by_template(number) for number in range(240)],
    ),
    "function": (
        {"text": joined, "columns": ["doc"]},
        [
            None if t is None else f"{t}|{(d or {}).get('text')}"
            for t, d in zip(TITLES, DOCS, strict=True)
        ],
    ),
}


def ids_of(tok, texts):
    return [tok.encode(text or "").tolist() for text in texts]


def offline(tok, path, folder, **options):
    done = pf.tokenize(path, folder, tokenizer=tok, **options)
    rows = [pq.read_table(file)["input_ids"].to_pylist() for file in done.files]
    return [row for file in rows for row in file]


@pytest.mark.parametrize("column", EXPECTED)
def test_nested_texts_both_ways(column, source, tok, tmp_path):
    expected = ids_of(tok, EXPECTED[column])
    data = pf.parquet(source, column=column).tokenize(tok)
    assert [row[column] for row in data] == expected
    batches = pf.Loader(
        data,
        sequences=pf.Windows(32, eos=0),
        batch_size=1,
        shuffle=None,
        rank=0,
        world_size=1,
    )
    line = np.concatenate([batch["input_ids"][0] for batch in batches])
    joined = [token for row in expected for token in (*row, 0)]
    assert line[: len(joined)].tolist() == joined
    assert offline(tok, source, tmp_path / "out", column=column) == expected


@pytest.mark.parametrize("kind", ["arrow", "jsonl"])
def test_nested_texts_of_other_files(kind, source, tok, tmp_path):
    table = pq.read_table(source)
    path = tmp_path / f"a.{kind}"
    if kind == "arrow":
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    else:
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    for column, texts in EXPECTED.items():
        made = offline(tok, path, tmp_path / column, column=column)
        assert made == ids_of(tok, texts)
    for name, (options, texts) in WAYS.items():
        made = offline(tok, path, tmp_path / name, column="title", **options)
        assert made == ids_of(tok, texts)


@pytest.mark.parametrize("way", WAYS)
def test_texts_of_rows_both_ways(way, source, tok, tmp_path):
    options, texts = WAYS[way]
    expected = ids_of(tok, texts)
    data = pf.parquet(source, column="title", cache_dir=tmp_path / "cache")
    data = data.tokenize(tok, **options)
    assert [row["title"] for row in data] == expected
    assert data.where("title is not null")[0]["title"] == expected[0]
    again = pickle.loads(pickle.dumps(data))
    assert again.fingerprint == data.fingerprint
    assert again[2]["title"] == expected[2]
    loader = pf.Loader(
        again, sequences=pf.Packed(64), batch_size=2, rank=0, world_size=1, seed=3
    )
    assert sum((batch["input_ids"] != 0).sum() for batch in loader) > 0
    folder = tmp_path / "out"
    made = offline(tok, source, folder, column="title", keep=["doc"], **options)
    assert made == expected
    kept = pq.read_table(next(folder.glob("*.parquet"))).to_pylist()
    assert set(kept[0]) == {"input_ids", "doc"}


def test_what_decides_is_in_the_fingerprint(source, tok):
    data = pf.parquet(source, column="title")
    hooks = ("{title}", "{title} ", joined, lambda row: row["title"])
    made = {data.tokenize(tok, text=hook, columns=["doc"] if callable(hook) else ())
            .index.fingerprint for hook in hooks}  # fmt: skip
    assert len(made) == len(hooks)


def test_hooks_are_checked(source, tok, tmp_path):
    data = pf.parquet(source, column="title")
    given: list[tuple[Any, str]] = [
        ("", "names no column"),
        ("title", "names no column"),
        ("{title", "expected '}'"),
        ("{title!r}", "has a format"),
        ("{0:>99999999}", "has a format"),
        ("{}", "names no column"),
        (5, "give a template"),
    ]
    for text, told in given:
        with pytest.raises(InvalidArgumentError, match=told):
            data.tokenize(tok, text=text)
        with pytest.raises(InvalidArgumentError, match=told):
            pf.tokenize(source, tmp_path / "out", tokenizer=tok, text=text)
    with pytest.raises(InvalidArgumentError, match="give text= too"):
        data.tokenize(tok, columns=["doc"])
    with pytest.raises(InvalidArgumentError, match="give one"):
        data.tokenize(tok, text="{title}", messages="title")


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (lambda row: row["other"], "KeyError"),
        (len, "returns int"),
        (lambda row: 1 / len(row["title"][:0]), "ZeroDivisionError"),
        ("{doc}", "dict"),
        ("{doc.author}", "no 'author'"),
    ],
)
def test_rows_without_a_text_are_named(hook, told, source, tok, tmp_path):
    data = pf.parquet(source, column="title").tokenize(tok, text=hook)
    with pytest.raises(CorruptFileError, match=rf"a\.parquet.*row 0 .*{told}"):
        len(data.index)
    with pytest.raises(CorruptFileError, match=rf"a\.parquet.*row 0.*{told}"):
        offline(tok, source, tmp_path / "out", column="title", text=hook)
