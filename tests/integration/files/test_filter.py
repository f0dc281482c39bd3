"""Selected rows on real files: what is read, kept, said and refused."""

import datetime
import json
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.filtered import (
    ROWS,
    dataset_of,
    make_loader,
    rows_of,
    table_of,
    write,
    write_files,
)
from pagefeed.errors import (
    CorruptFileError,
    StaleFileError,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("filter"))


def bytes_read(dataset) -> float:
    loader = make_loader(dataset, drop_last=False)
    for _ in loader:
        pass
    return loader.stats()["bytes_read"]


def test_a_hundredth_of_clustered_rows_reads_a_hundredth(files):
    dataset = dataset_of(files)
    selected = dataset.where(f"place >= 5000 and place < {5000 + 3 * ROWS // 100}")
    assert len(selected) == 3 * ROWS // 100
    ratio = bytes_read(selected) / bytes_read(dataset)
    print(f"1 % of the rows read {100 * ratio:.2f} % of the bytes")
    assert 0.005 < ratio < 0.02


def damage(index: pf.PageIndex, pages: range) -> None:
    """Overwrite pages of a file, but not their headers."""
    path = Path(index.files[0])
    data = bytearray(path.read_bytes())
    for page in pages:
        where = index.locate(page)
        begin, end = where.offset + 40, where.offset + where.compressed_size
        data[begin:end] = bytes(end - begin)
    with path.open("r+b") as file:
        file.write(data)


def test_only_pages_with_selected_rows_are_ever_read(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table, write_page_index=True)
    dataset = dataset_of(path)
    damage(dataset.index, range(1, len(dataset.index)))
    dataset = dataset_of(path)  # Its index reads no page.
    count = int(dataset.index.page_rows[0])
    selected = dataset.where(f"place < {count} and quality > 0.5")
    tokens, quality = (table[name].to_pylist() for name in ("input_ids", "quality"))
    expected = [t for n in range(count) if quality[n] > 0.5 for t in tokens[n]]
    loader = make_loader(selected, shuffle=None, drop_last=False, padding=-1)
    found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
    assert found[found >= 0].tolist() == expected
    with pytest.raises(CorruptFileError):
        dataset.where("quality > 0.5").spans.num_values  # noqa: B018


def test_fields_of_structs_are_read_without_those_beside_them(tmp_path):
    path = tmp_path / "lang=en" / "a.parquet"
    path.parent.mkdir()
    rows = 3000
    meta: list[Any] = [
        None if n % 7 == 0 else {"a": {"x": n % 50, "moment": n}, "text": f"{n}" * 9}
        for n in range(rows)
    ]
    inner = pa.struct([("x", pa.int32()), ("moment", pa.timestamp("us"))])
    kind = pa.struct([("a", inner), ("text", pa.string())])
    table = {"n": range(rows), "id": range(rows), "meta": pa.array(meta, kind)}
    pq.write_table(pa.table(table), path, use_dictionary=False)
    damage(index := pf.PageIndex.build(path, column="meta.text"), range(len(index)))
    with pytest.raises(pf.PagefeedError):
        index.read_page(0)
    x = [None if row is None else row["a"]["x"] for row in meta]
    day = "meta.a.moment < '1970-01-01T00:00:00.001'"
    asked = {
        "meta.a.x > 40": [v is not None and v > 40 for v in x],
        "meta.a.x is null": [v is None for v in x],
        "n < 500 and meta.a.x == 3": [n < 500 and v == 3 for n, v in enumerate(x)],
        day: [v is not None and n < 1000 for n, v in enumerate(x)],
    }
    data = pf.parquet(tmp_path, column="n", metadata=["id"])
    for text, expected in asked.items():
        found = [row["id"] for row in data.where(text)]
        assert found == np.flatnonzero(expected).tolist(), text
    # A column in the names of folders, and a whole struct, need the scanner of files.
    for text in ("lang == 'en' and meta.a.x > 40", pc.field("meta").is_null()):
        with pytest.raises(CorruptFileError):
            len(data.where(text))


def test_whole_pages_and_fixed_lengths_are_counted_without_reading(tmp_path):
    for kind in (pa.list_(pa.int32(), 8), pa.list_(pa.int32())):
        tokens = pa.array([[n] * 8 for n in range(ROWS)], kind)
        table = table_of(input_ids=tokens)
        path = write(tmp_path / "a.parquet", table, write_page_index=True)
        index = dataset_of(path).index
        damage(index, range(len(index)))
        dataset = dataset_of(path)
        assert dataset.where("place < 1000").spans.num_values == 8000
        part = dataset.where("place in [3, 4, 17]")
        assert len(part) == 3
        if pa.types.is_fixed_size_list(kind):
            assert part.spans.num_values == 24
        else:
            with pytest.raises(CorruptFileError):
                part.spans.num_values  # noqa: B018


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("quality > 0.8 and lang == 'en'", None),
        ("lang in ['en', 'de'] and not quality < 0.5", None),
        ("lang is null or 100 <= place < 200", None),
        ("day >= '2024-03-01'", pc.field("day") >= datetime.date(2024, 3, 1)),
        ("price > 7", pc.field("price").cast("int64") > 7),
        ("price < 6.5", pc.field("price").cast("int64") < 7),
        ("tag == 'b'", pc.field("tag") == "b"),
        ("tag in ['b', 'c']", pc.field("tag") == "b"),
        ("meta.n < 77", pc.field("meta", "n") < 77),
        ("column('odd name') <= 3", pc.field("odd name") <= 3),
        ("place == meta.n", pc.field("place") == pc.field("meta", "n")),
    ],
)
def test_text_and_expressions_select_what_pyarrow_selects(files, text, expression):
    if expression is None:
        quality, lang = pc.field("quality"), pc.field("lang")
        place = pc.field("place")
        expression = {
            "quality > 0.8 and lang == 'en'": (quality > 0.8) & (lang == "en"),
            "lang in ['en', 'de'] and not quality < 0.5": lang.isin(["en", "de"])
            & ~(quality < 0.5),
            "lang is null or 100 <= place < 200": lang.is_null()
            | ((place >= 100) & (place < 200)),
        }[text]
    expected = rows_of(files).filter(expression)
    for predicate in (text, expression):
        selected = dataset_of(files).where(predicate)
        assert len(selected) == len(expected) > 0
        loader = make_loader(selected, shuffle=None, drop_last=False, padding=-1)
        found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
        tokens = expected["input_ids"].combine_chunks().flatten().to_numpy()
        assert np.array_equal(found[found >= 0], tokens)


def test_statistics_that_know_no_nan_lose_no_row(tmp_path):
    quality = np.where(np.arange(ROWS) < 1000, 0.25, 0.75)
    quality[::10] = np.nan
    path = write(tmp_path / "a.parquet", table_of(quality=quality))
    dataset = dataset_of(path)
    missing = ROWS // 10
    for text, expression, count in (
        ("not quality < 1", ~(pc.field("quality") < 1), missing),
        ("quality != 0.25", pc.field("quality") != 0.25, 2700 + missing),
        ("quality not in [0.25, 0.75]", None, missing),
        ("quality < 1", pc.field("quality") < 1, ROWS - missing),
    ):
        assert len(dataset.where(text)) == count
        if expression is not None:
            assert len(dataset.where(expression)) == count


@pytest.mark.parametrize("scores", [None, pa.list_(pa.float64()), pa.list_(pa.int8())])
def test_row_groups_without_a_selected_row_are_not_scanned(tmp_path, scores):
    table = table_of().drop_columns(["quality"])
    if scores is not None:
        table = table.append_column("scores", pa.array([[1]] * ROWS, scores))
    path = write(tmp_path / "a.parquet", table)
    metadata, data = pq.read_metadata(path), bytearray(path.read_bytes())
    for number in range(1, metadata.num_row_groups):
        chunk = metadata.row_group(number).column(table.column_names.index("place"))
        begin = chunk.dictionary_page_offset or chunk.data_page_offset
        size = chunk.total_compressed_size
        data[begin : begin + size] = bytes(size)
    path.write_bytes(data)
    dataset, place = dataset_of(path), pc.field("place")
    assert len(dataset.where("place < 900")) == 900
    if scores == pa.list_(pa.float64()):  # The expression may ask for NaN.
        with pytest.raises(CorruptFileError):
            len(dataset.where(place < 900))
    else:
        assert len(dataset.where(place < 900)) == 900
    with pytest.raises(CorruptFileError):
        len(dataset.where(place < 1100))


def test_one_after_the_other_is_both(files):
    dataset = dataset_of(files)
    chained = dataset.where("quality > 0.5").where("lang == 'en'")
    at_once = dataset.where("lang == 'en' and quality > 0.5")
    assert chained.fingerprint == at_once.fingerprint != dataset.fingerprint
    assert chained.fingerprint != dataset.where("quality > 0.5").fingerprint
    state = make_loader(at_once).state_dict()
    make_loader(chained).load_state_dict(state)


def test_other_processes_map_what_was_found(files, tmp_path, run_python):
    cache = tmp_path / "cache"
    dataset = dataset_of(files, cache_dir=cache)
    selected = dataset.where("quality > 0.5")
    expected = [len(selected), selected.spans.num_values, selected.fingerprint]
    before = sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*"))
    # Nothing is read again: there is nothing to read with.
    found = run_python(f"""
import json
import pagefeed as pf
from pagefeed.dataset import PageIndex
PageIndex.row_lengths = None
import pagefeed.selection.criteria
from pagefeed.caches import arrays
arrays._COPIED = 0  # Small ones are copied.
pagefeed.selection.criteria.scan = None
dataset = pf.parquet({[str(file) for file in files]!r}, column="input_ids",
                     cache_dir={str(cache)!r})
selected = dataset.where(" quality>0.5 ")
array = selected.spans.first_rows.__self__._rows_before
while array.base is not None and not hasattr(array, "filename"):
    array = array.base
assert array.filename, "not mapped"
print(json.dumps([len(selected), selected.spans.num_values, selected.fingerprint]))
""")
    assert json.loads(found) == expected
    after = sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*"))
    assert after == before


def test_what_was_found_is_made_anew_if_damaged_or_of_other_files(tmp_path):
    path, cache = write(tmp_path / "a.parquet", table_of()), tmp_path / "cache"

    def count():
        selected = dataset_of(path, cache_dir=cache).where("quality > 0.5")
        return len(selected), selected.spans.num_values

    expected = count()
    for name in ("about.json", "numbers"):
        for found in cache.rglob(name):
            found.write_bytes(found.read_bytes()[:-8])
            assert count() == expected
    # Equal sizes and an equal footer, but for other values.
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    plain |= {"write_statistics": False}
    table = table_of()
    pq.write_table(table, path, **plain)
    shutil.rmtree(cache)
    first, footer = dataset_of(path, cache_dir=cache), pq.read_metadata(path)
    assert len(first.where("quality > 0.5")) == expected[0]
    other = table.set_column(2, "quality", pa.array(np.zeros(ROWS)))
    time.sleep(0.01)
    pq.write_table(other, path, **plain)
    assert pq.read_metadata(path).serialized_size == footer.serialized_size
    with pytest.raises(StaleFileError):
        len(first.where("quality > 0.6"))
    pf.PageIndex.build(path, "input_ids", cache, refresh=True)
    again = dataset_of(path, cache_dir=cache)
    assert again.fingerprint == first.fingerprint
    assert len(again.where("quality > 0.5")) == 0


@pytest.mark.parametrize("cached", [False, True])
def test_selections_travel_by_pickle(files, tmp_path, cached):
    dataset = dataset_of(files, cache_dir=tmp_path if cached else None)
    part = dataset.where("quality > 0.5").split(a=0.5, b=0.5)["b"]
    loader = make_loader(part, seed=3)
    next(iter(loader))
    sent = pickle.dumps(loader)
    assert len(sent) < 5000
    twin = pickle.loads(sent)
    assert twin.dataset.fingerprint == part.fingerprint
    pairs = zip(twin, make_loader(part, seed=3), strict=False)
    for number, (found, expected) in enumerate(pairs):
        if number:
            break
        assert found["input_ids"].shape == expected["input_ids"].shape
    assert twin.num_sequences == loader.num_sequences


@pytest.mark.parametrize("looked_at", [False, True])
def test_rows_that_change_on_the_way_are_refused(tmp_path, looked_at):
    path = tmp_path / "a.parquet"
    # Equal sizes and an equal footer, whatever the values are.
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    plain |= {"write_statistics": False}
    table = table_of()
    pq.write_table(table, path, **plain)
    selected = dataset_of(path).where("quality > 0.5")
    if looked_at:
        assert len(selected) > 0
    sent = pickle.dumps(selected)
    assert len(pickle.loads(sent)) == len(selected)
    time.sleep(0.01)
    other = table.set_column(2, "quality", pa.array(np.zeros(ROWS)))
    pq.write_table(other, path, **plain)
    if looked_at:
        # A twin of a twin knows as well which rows there were.
        again = pickle.dumps(pickle.loads(sent))
        for each in (sent, again):
            with pytest.raises(StaleFileError, match=r"quality > 0\.5.* were sent"):
                len(pickle.loads(each))
    else:
        assert len(pickle.loads(sent)) == 0
    pq.write_table(table.slice(1), path, **plain)
    with pytest.raises(StaleFileError, match=r"was sent.*expected fingerprint"):
        pickle.loads(sent)
