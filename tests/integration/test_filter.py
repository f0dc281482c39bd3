"""Selected rows on real files: what is read, kept, said and refused."""

import datetime
import json
import os
import pickle
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    EmptySelectionError,
    InvalidArgumentError,
    StaleFileError,
)

ROWS = 4000
ROW = 100


def table_of(number: int = 0, **columns: Any) -> pa.Table:
    """Rows of 90 to 110 tokens that tell where they come from, and other columns."""
    rng = np.random.default_rng(number)
    lengths = rng.integers(ROW - 10, ROW + 10, ROWS)
    first = rng.integers(0, 30_000, ROWS)
    tokens = [np.arange(a, a + n) for a, n in zip(first, lengths, strict=True)]
    day = datetime.date(2024, 1, 1)
    known = {
        "input_ids": pa.array(tokens, pa.list_(pa.int32())),
        "place": np.arange(number * ROWS, (number + 1) * ROWS),
        "quality": rng.random(ROWS),
        "lang": pa.array(["en", "de", "fr", None] * (ROWS // 4)),
        "day": [day + datetime.timedelta(days=n % 100) for n in range(ROWS)],
        "price": [Decimal(n % 10) for n in range(ROWS)],
        "tag": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
        "meta": pa.array([{"n": n, "list": [n]} for n in range(ROWS)]),
        "odd name": np.arange(ROWS),
    }
    return pa.table(known | columns)


def write(path: Path, table: pa.Table) -> Path:
    pq.write_table(table, path, row_group_size=1000, data_page_size=8192)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("filter")
    return [write(folder / f"part-{n}.parquet", table_of(n)) for n in range(3)]


def rows_of(files) -> Any:
    return pa.concat_tables([pq.read_table(file) for file in files])


def dataset_of(files, **options) -> pf.ParquetDataset:
    return pf.parquet(files, column="input_ids", **options)


def make_loader(dataset, **options) -> pf.Loader:
    settings: dict[str, Any] = {"sequences": pf.Windows(256), "batch_size": 4}
    return pf.Loader(dataset, **settings | options)


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
    """Overwrite pages of a file so that nobody notices before they are read."""
    path = Path(index.files[0])
    state, data = path.stat(), bytearray(path.read_bytes())
    for page in pages:
        where = index.locate(page)
        begin, end = where.offset + 40, where.offset + where.compressed_size
        data[begin:end] = bytes(end - begin)
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_only_pages_with_selected_rows_are_ever_read(tmp_path):
    table = table_of()
    path = write(tmp_path / "a.parquet", table)
    dataset = dataset_of(path)
    damage(dataset.index, range(1, len(dataset.index)))
    count = int(dataset.index.page_rows[0])
    selected = dataset.where(f"place < {count} and quality > 0.5")
    tokens, quality = (table[name].to_pylist() for name in ("input_ids", "quality"))
    expected = [t for n in range(count) if quality[n] > 0.5 for t in tokens[n]]
    loader = make_loader(selected, shuffle=None, drop_last=False, padding=-1)
    found = np.concatenate([batch["input_ids"].ravel() for batch in loader])
    assert found[found >= 0].tolist() == expected
    with pytest.raises(CorruptFileError):
        dataset.where("quality > 0.5").spans.num_values  # noqa: B018


def test_whole_pages_and_fixed_lengths_are_counted_without_reading(tmp_path):
    for kind in (pa.list_(pa.int32(), 8), pa.list_(pa.int32())):
        tokens = pa.array([[n] * 8 for n in range(ROWS)], kind)
        dataset = dataset_of(
            write(tmp_path / "a.parquet", table_of(input_ids=tokens)),
        )
        damage(dataset.index, range(len(dataset.index)))
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
PageIndex.row_offsets = None
import pagefeed.dataset.select.criteria
pagefeed.dataset.select.criteria.scan = None
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
            with pytest.raises(StaleFileError, match=r"quality > 0\.5.* travelled"):
                len(pickle.loads(each))
    else:
        assert len(pickle.loads(sent)) == 0
    pq.write_table(table.slice(1), path, **plain)
    with pytest.raises(StaleFileError, match=r"travelled.*expected fingerprint"):
        pickle.loads(sent)


def rows_by_file(dataset) -> set[tuple[str, int]]:
    spans, index = dataset.spans, dataset.index
    page, row = spans.places(np.arange(len(spans)))
    counts = np.diff(spans.first_rows(np.arange(len(spans) + 1)))
    found = set()
    for here, first, count in zip(page.tolist(), row.tolist(), counts, strict=True):
        where = index.locate(here)
        begin = where.first_row + first
        name = Path(where.file).name
        found |= {(name, n) for n in range(begin, begin + int(count))}
    return found


def test_a_split_is_stable_when_files_are_added_moved_and_reordered(files, tmp_path):
    weights = {"train": 0.9, "validation": 0.1}
    first = dataset_of(files[:2]).split(**weights, seed=7)
    moved = [tmp_path / "x" / file.name for file in (files[2], files[1], files[0])]
    moved[0].parent.mkdir()
    for source, target in zip((files[2], files[1], files[0]), moved, strict=True):
        shutil.copy(source, target)
    second = dataset_of(moved).split(**weights, seed=7)
    for name, weight in weights.items():
        old, new = rows_by_file(first[name]), rows_by_file(second[name])
        assert {row for row in new if row[0] != files[2].name} == old
        assert len(first[name]) == pytest.approx(2 * ROWS * weight, abs=120)
    other = dataset_of(files[:2]).split(**weights, seed=8)
    assert rows_by_file(other["train"]) != rows_by_file(first["train"])


def test_hundreds_of_parts_are_disjoint_and_complete(files):
    dataset = dataset_of(files[:1])
    tiers = dataset.tiers("place", edges=range(5, ROWS, 5))
    assert [len(part) for part in tiers.values()] == [5] * (ROWS // 5)
    assert list(tiers)[-1] == f"place >= {ROWS - 5}"
    last = rows_by_file(tiers[f"place >= {ROWS - 5}"])
    assert {row for _, row in last} == set(range(ROWS - 5, ROWS))
    weights: dict[str, Any] = {f"p{n}": 1 / 700 for n in range(700)}
    parts = dataset.split(**weights)
    rows = [row for part in parts.values() for row in rows_by_file(part)]
    assert len(rows) == len(set(rows)) == ROWS
    assert sum(part.spans.num_values for part in parts.values()) == (
        dataset.spans.num_values
    )


def test_a_split_of_a_selection_is_the_selection_of_a_split(files):
    dataset = dataset_of(files)
    first = dataset.where("quality > 0.5").split(a=0.3, b=0.2)["b"]
    second = dataset.split(a=0.3, b=0.2)["b"].where("quality > 0.5")
    assert first.fingerprint == second.fingerprint
    assert len(first) == pytest.approx(0.1 * 3 * ROWS, rel=0.2)


def test_split_needs_no_pyarrow(files, run_python):
    from test_no_extras import BLOCK

    program = f"""{BLOCK}
import pagefeed as pf
dataset = pf.parquet({str(files[0])!r}, column="input_ids")
parts = dataset.split(a=0.5, b=0.5)
assert sum(map(len, parts.values())) == {ROWS}
assert sum(part.spans.num_values for part in parts.values()) == dataset.spans.num_values
assert sum(map(len, dataset.by_length([100]).values())) == {ROWS}
try:
    dataset.where("quality > 0.5")
except ImportError as error:
    print(error)
"""
    assert "pip install 'pagefeed[pyarrow]'" in run_python(program)


def test_quantiles_divide_evenly(files):
    dataset = dataset_of(files)
    for column in ("quality", "place"):
        tiers = dataset.tiers(column, quantiles=3)
        assert [len(tier) for tier in tiers.values()] == [ROWS] * 3
    with pytest.raises(InvalidArgumentError, match=r"equal value.*fewer quantiles"):
        dataset.where("meta.n == 5").tiers("meta.n", quantiles=2)
    with pytest.raises(InvalidArgumentError, match="only 1 rows"):
        dataset.where("place == 5").tiers("meta.n", quantiles=2)
    with pytest.raises(InvalidArgumentError, match="type string"):
        dataset.tiers("lang", quantiles=2)


def test_tiers_are_named_for_what_they_hold(files):
    dataset = dataset_of(files)
    tiers = dataset.tiers("lang", edges=["de", "en"])
    counts = {name: len(tier) for name, tier in tiers.items()}
    assert counts == {
        "lang < 'de'": 0,
        "'de' <= lang < 'en'": 3 * ROWS // 4,
        "lang >= 'en'": 2 * 3 * ROWS // 4,
        "lang is null": 3 * ROWS // 4,
    }
    assert list(dataset.tiers("quality", edges=[0.5])) == [
        "quality < 0.5",
        "quality >= 0.5",
    ]
    by_length = dataset.by_length([95, 105])
    assert list(by_length) == ["tokens < 95", "95 <= tokens < 105", "tokens >= 105"]
    lengths = pc.list_value_length(rows_of(files)["input_ids"]).to_numpy()
    assert len(by_length["tokens < 95"]) == (lengths < 95).sum()
    assert by_length["tokens >= 105"].spans.num_values == lengths[lengths >= 105].sum()
    assert dataset.by_length([5], column="place").keys() == {"place < 5", "place >= 5"}
    assert "lang is null" in repr(tiers["lang is null"])


@pytest.mark.parametrize(
    ("predicate", "error", "message"),
    [
        ("qualty > 0.5", ColumnNotFoundError, r"'qualty'; did you mean 'quality'"),
        ("qualty > 0.5", ColumnNotFoundError, r"meta\.n \(int64\)"),
        ("meta.x > 0.5", ColumnNotFoundError, r"'meta\.x'"),
        (pc.field("qualty") > 0.5, ColumnNotFoundError, "did you mean 'quality'"),
        ("quality", InvalidArgumentError, "type double: compare it"),
        (pc.field("quality"), InvalidArgumentError, "must be true or false"),
        ("lang > 0.5", InvalidArgumentError, r"0\.5 cannot .* type string"),
        ("quality > 'x'", InvalidArgumentError, r"'x' cannot .* type double"),
        ("day > 'soon'", InvalidArgumentError, r"'soon' cannot .* type date32"),
        ("quality == true", InvalidArgumentError, "True cannot"),
        ("input_ids == 3", InvalidArgumentError, "one value per row"),
        ("meta == 3", InvalidArgumentError, "one value per row"),
        ("lang == day", InvalidArgumentError, "cannot be evaluated"),
        ("", InvalidArgumentError, "must be text"),
        (3, InvalidArgumentError, "must be text"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(files, predicate, error, message):
    with pytest.raises(error, match=message):
        dataset_of(files).where(predicate)


def test_files_that_lack_the_column_are_named(files, tmp_path):
    path = write(tmp_path / "z.parquet", table_of().drop_columns(["quality"]))
    selected = dataset_of([*files, path]).where("quality > 0.5")
    with pytest.raises(ColumnNotFoundError, match=r"'quality'.*z\.parquet") as caught:
        len(selected)
    assert caught.value.file == str(path)
    write(path, table_of(quality=["good"] * ROWS))
    selected = dataset_of([*files, path]).where("quality > 0.5")
    message = r"(?s)type string.*z\.parquet; in .*part-0\.parquet quality is double"
    with pytest.raises(InvalidArgumentError, match=message):
        len(selected)


def test_an_empty_selection_says_what_there_is(files):
    dataset = dataset_of(files)
    with pytest.raises(EmptySelectionError) as caught:
        make_loader(dataset.where("quality > 3 and lang == 'nl'"))
    message = str(caught.value)
    assert "none of 12,000 rows" in message
    assert "quality is from " in message
    assert "lang is 'en' (3,000), 'de' (3,000), 'fr' (3,000), 3,000 null" in message
    with pytest.raises(EmptySelectionError, match=r"of 2 rows with place < 2 is in"):
        make_loader(dataset.where("place < 2").where("lang == 'fr'"))


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("split", {"train": 0.9, "test": 0.2}, "sum to"),
        ("split", {"train": 0.0}, "train=0.0"),
        ("split", {}, "name the parts"),
        (
            "split",
            {f"p{n}": 1e-5 for n in range(65_536)},
            "65536 parts are too many: there may be 65535",
        ),
        ("split", {"a": 0.5, "seed": "x"}, "seed"),
        ("tiers", {}, "either"),
        ("tiers", {"edges": [0.5, 0.5]}, "rise"),
        ("tiers", {"edges": [0.5, "x"]}, "must rise"),
        ("tiers", {"edges": [float("nan")]}, r"\[nan\] must rise"),
        ("tiers", {"edges": []}, "edges"),
        ("tiers", {"edges": "abc"}, "'abc' must be a list"),
        ("tiers", {"edges": ["abc"]}, "tiers of quality"),
        ("tiers", {"quantiles": 1}, "at least 2"),
        ("by_length", {"edges": [0, 5]}, "numbers of tokens"),
        ("by_length", {"edges": [0.5]}, r"0\.5.* numbers of tokens"),
    ],
)
def test_arguments_are_checked(files, method, arguments, message):
    column = {"column": "quality"} if method == "tiers" else {}
    with pytest.raises(InvalidArgumentError, match=message):
        getattr(dataset_of(files), method)(**column, **arguments)


def test_the_command_line_takes_predicates(files, capsys):
    run = [*map(str, files), "--column", "input_ids", "--length", "256", "--json"]
    assert main(["plan", *run, "--where", "place < 1000 and quality > 0.5"]) == 0
    plan = json.loads(capsys.readouterr().out)
    selected = dataset_of(files).where("place < 1000 and quality > 0.5")
    assert plan["rows"] == len(selected)
    assert plan["tokens"] == selected.spans.num_values
    assert plan["pages"] == selected.spans.num_pages
    assert plan["loads_per_page"] == pytest.approx(1, rel=0.1)
    assert main(["verify", *run, "--where", "quality > 0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert main(["plan", *run, "--where", "quality >> 0.5"]) == 1
    assert "^^^" in capsys.readouterr().err
    assert main(["plan", *run, "--where", "quality > 5"]) == 1
    assert "EmptySelectionError" in capsys.readouterr().err


def test_a_view_shows_the_selected_rows(files):
    selected = dataset_of(files).where("lang == 'en'")
    view = pf.SequenceView(selected, pf.Windows(256))
    loader = make_loader(selected, shuffle=None, batch_size=1)
    assert len(view) == loader.num_sequences
    for number, batch in zip(range(5), loader, strict=False):
        assert np.array_equal(view[number]["input_ids"], batch["input_ids"][0])
