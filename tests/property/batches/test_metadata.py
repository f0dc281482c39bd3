"""What batches tell of their documents, against a plain model."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.cuts import all_cuts, make_loaders, resumed_on_two
from made.shuffles import SHUFFLES
from models.told import FIRST_TOKEN, Row, cut_span, parts_of
from scaled import scaled

PADDING = 0
SPAN = pa.struct([("start", pa.int16()), ("name", pa.string()), ("end", pa.int32())])
TYPES = {
    "id": pa.string(),
    "score": pa.float32(),
    "tags": pa.list_(pa.string()),
    "meta": pa.struct([("lang", pa.string()), ("n", pa.int32())]),
    "concepts": pa.list_(SPAN),
}
METADATA = ["id", "score", "tags", "meta.lang"]
FIELDS: Final = ("input_ids", "document_ids", "metadata")
ROWS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Layout(NamedTuple):
    """How files are written; pages of columns end elsewhere by what they hold."""

    row_group_rows: int
    page_bytes: int
    batch_rows: int
    dictionaries: bool
    version: str


layouts = st.builds(
    Layout,
    row_group_rows=st.integers(1, 40),
    page_bytes=st.sampled_from([1, 100, 1000]),
    batch_rows=st.integers(1, 9),
    dictionaries=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
)

cuts = all_cuts()


@st.composite
def some_spans(draw: st.DrawFn, length: int) -> list[Row | None]:
    places = st.lists(st.integers(0, length), min_size=2, max_size=2)
    found = draw(st.lists(st.none() | places, max_size=4))
    return [
        None if span is None else {"start": min(span), "name": "s", "end": max(span)}
        for span in found
    ]


@st.composite
def some_rows(draw: st.DrawFn, number: int) -> list[Row]:
    tokens = itertools.count(FIRST_TOKEN + 10_000 * number)
    lengths = st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=40)
    short = st.text("abc", max_size=5)
    rows = []
    for place, length in enumerate(draw(lengths.filter(any))):
        ids = None if length is None else list(itertools.islice(tokens, length))
        meta = {"lang": draw(st.none() | short), "n": place}
        row = {
            "input_ids": ids,
            "id": draw(st.none() | st.just(f"{number}/{place}")),
            "score": draw(st.none() | st.floats(-1, 1, width=32)),
            "tags": draw(st.none() | st.lists(short, max_size=3)),
            "meta": draw(st.none() | st.just(meta)),
            "concepts": draw(st.none() | some_spans(length or 0)),
        }
        rows.append(row)
    return rows


@st.composite
def some_files(draw: st.DrawFn) -> list[list[Row]]:
    return [draw(some_rows(number)) for number in range(draw(st.integers(1, 3)))]


def write(folder: Path, files: list[list[Row]], layout: Layout) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for number, rows in enumerate(files):
        columns = {
            name: pa.array([row[name] for row in rows], kind)
            for name, kind in TYPES.items()
        }
        ids = pa.array([row["input_ids"] for row in rows], pa.list_(pa.int32()))
        pq.write_table(
            pa.table({"meta": columns.pop("meta"), "input_ids": ids} | columns),
            folder / f"{number}.parquet",
            row_group_size=layout.row_group_rows,
            data_page_size=layout.page_bytes,
            write_batch_size=layout.batch_rows,
            use_dictionary=layout.dictionaries,
            data_page_version=layout.version,
            write_page_index=layout.batch_rows % 2 == 0,
        )


def told(part: Row) -> Row:
    row = part.pop("row")
    meta = row["meta"]
    spans = row["concepts"]
    if spans is not None:
        cut = [(s["name"], cut_span(part, s["start"], s["end"])) for s in spans if s]
        spans = [
            {"start": place[0], "name": name, "end": place[1]}
            for name, place in cut
            if place is not None
        ]
    names = ("id", "score", "tags")
    lang = None if meta is None else meta["lang"]
    return (
        part
        | {name: row[name] for name in names}
        | {"meta.lang": lang, "concepts": spans}
    )


def check(batches: Iterable[Row], files: list[list[Row]], cut: Any) -> list[int]:
    """Check every batch, and return the tokens that were in them."""
    where = {
        token: (row, place)
        for rows in files
        for row in rows
        for place, token in enumerate(row["input_ids"] or ())
    }
    tokens: list[int] = []
    for batch in batches:
        table = pa.table(batch["metadata"]).to_pylist()
        if isinstance(cut, pf.Documents):
            table = [row for row in table if row["start"] < row["stop"]]
        assert table == [told(part) for part in parts_of(batch["input_ids"], where)]
        ids = batch["input_ids"].reshape(-1).tolist()
        tokens += [token for token in ids if token >= FIRST_TOKEN]
    return tokens


def parquet(path: Any) -> pf.dataset.ParquetDataset:
    return pf.parquet(path, column="input_ids", metadata=METADATA, spans=["concepts"])


@settings(ROWS, max_examples=scaled(60))
@given(
    files=some_files(),
    layout=layouts,
    cut=cuts,
    shuffle=st.sampled_from(SHUFFLES),
    memory=st.sampled_from(["1MiB", "64MiB"]),
)
def test_every_part_of_a_document_is_told_of(
    tmp_path: Path,
    files: list[list[Row]],
    layout: Layout,
    cut: Any,
    shuffle: Any,
    memory: str,
):
    write(tmp_path / "data", files, layout)
    loader = pf.Loader(
        parquet(tmp_path / "data"),
        sequences=cut,
        batch_size=3,
        seed=1,
        shuffle=shuffle,
        memory=memory,
        num_threads=2,
        drop_last=False,
        fields=FIELDS,
    )
    found = check(loader, files, cut)
    rows = [row["input_ids"] or [] for rows in files for row in rows]
    if isinstance(cut, pf.Documents):
        assert sorted(found) == sorted(t for row in rows for t in row[: cut.max_length])
    else:
        assert set(found) == {token for row in rows for token in row}


@settings(ROWS, max_examples=scaled(15))
@given(files=some_files(), layout=layouts, cut=cuts, data=st.data())
def test_mixtures_resumed_at_another_world_size(
    tmp_path: Path,
    files: list[list[Row]],
    layout: Layout,
    cut: Any,
    data: st.DataObject,
):
    write(tmp_path / "data", files, layout)
    paths = sorted((tmp_path / "data").iterdir())
    parts = {str(n): (parquet(path), 1.0) for n, path in enumerate(paths)}
    mixture = pf.mix(parts, stop="all_exhausted")
    make = make_loaders(mixture, cut, fields=FIELDS)
    every, found = resumed_on_two(make, data, lambda some: check(some, files, cut))
    assert found == every
