"""What datasets, indexes, mixtures and loaders show of themselves and their rows."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from pagefeed.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    OutOfRangeError,
)


def table_of(first: int, num_rows: int) -> pa.Table:
    numbers = range(first, first + num_rows)
    return pa.table(
        {
            "input_ids": pa.array(
                [[n] * (n % 7) for n in numbers], pa.list_(pa.int32())
            ),
            "text": [f"row <{n}>" if n % 5 else None for n in numbers],
            "doc": [{"ids": [n, n], "n": n} for n in numbers],
            "quality": [n / 100 for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One hundred rows in two folders, on pages of a few rows."""
    root: Path = tmp_path_factory.mktemp("faces")
    for number, lang in enumerate(("de", "en")):
        (root / f"lang={lang}").mkdir()
        pq.write_table(
            table_of(50 * number, 50),
            root / f"lang={lang}" / "part-0.parquet",
            row_group_size=20,
            data_page_size=64,
            write_batch_size=3,
        )
    return root


@pytest.fixture
def dataset(folder) -> pf.dataset.ParquetDataset:
    return pf.parquet(folder, column="input_ids", metadata=["text", "lang"])


@pytest.fixture
def loader(tmp_path) -> pf.Loader:
    write_numbered(tmp_path)
    return numbered_loader(tmp_path)


def expected(number: int) -> dict[str, Any]:
    return {
        "input_ids": [number] * (number % 7),
        "text": f"row <{number}>" if number % 5 else None,
        "lang": "de" if number < 50 else "en",
    }


def test_rows_are_plain_values(dataset):
    assert [dataset[n] for n in range(100)] == [expected(n) for n in range(100)]
    assert dataset[-1] == dataset[np.int64(99)] == expected(99)
    assert [*dataset] == [expected(n) for n in range(100)]
    assert json.loads(json.dumps(dataset[3])) == expected(3)


def test_rows_of_selections_are_numbered_through(dataset):
    chosen = [n for n in range(100) if 0.305 <= n / 100 < 0.705 and n % 5]
    rows = dataset.where("quality >= 0.305 and quality < 0.705").where("text != 'x'")
    assert len(rows) == len(chosen)
    assert [*rows] == [expected(n) for n in chosen]
    assert rows[7] == expected(chosen[7])
    assert rows[-1] == expected(chosen[-1])


def test_rows_of_inner_columns(folder):
    inner = pf.parquet(folder, column="doc.ids", metadata=["doc.n"])
    assert inner[60] == {"doc.ids": [60, 60], "doc.n": 60}


def test_head(dataset):
    assert dataset.head(3) == [expected(n) for n in range(3)]
    assert dataset.head() == [expected(n) for n in range(5)]
    assert dataset.head(0) == []
    assert len(dataset.head(1000)) == 100
    with pytest.raises(InvalidArgumentError, match="num_rows"):
        dataset.head(-1)


@pytest.mark.parametrize("number", [100, -101, 1 << 70])
def test_rows_out_of_range(dataset, number):
    with pytest.raises(OutOfRangeError, match="there are 100 rows"):
        dataset[number]
    assert issubclass(OutOfRangeError, IndexError)


def test_rows_of_nothing(dataset):
    with pytest.raises(OutOfRangeError, match="there are 0 rows"):
        dataset.where("quality > 5")[0]


@pytest.mark.parametrize("number", [slice(2), "text", 1.5, True, None])
def test_rows_are_asked_for_by_number(dataset, number):
    with pytest.raises(InvalidArgumentError):
        dataset[number]


def test_slices_are_refused_with_a_way_out(dataset):
    with pytest.raises(InvalidArgumentError, match=r"head\(n\)"):
        dataset[2:5]


def test_schema_and_columns(dataset):
    names = ["input_ids", "text", "doc", "quality", "lang"]
    assert dataset.columns == names
    assert isinstance(dataset.schema, pa.Schema)
    assert dataset.schema.field("input_ids").type == pa.list_(pa.int32())
    assert dataset.schema.field("lang").type == pa.string()
    assert "index" not in vars(dataset)
    assert dataset.where("quality > 0.5").columns == names
    assert pickle.loads(pickle.dumps(dataset)).columns == names


@pytest.mark.parametrize("name", ["schema", "columns", "__getitem__", "head"])
def test_without_pyarrow(dataset, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pagefeed\[pyarrow\]"):
        getattr(dataset, name)(0)


def test_datasets_show_what_is_known(dataset):
    assert repr(dataset) == (
        "ParquetDataset(column='input_ids', metadata=['text', 'lang'], files=2)"
    )
    assert "index" not in vars(dataset)
    tokens = sum(n % 7 for n in range(100))
    assert dataset.index is not None
    assert repr(dataset).endswith(f"files=2, rows=100, tokens={tokens})")


def test_selections_show_what_is_known(dataset):
    good = dataset.where("quality >= 0.5")
    assert repr(good).endswith("files=2, selected=['quality >= 0.5'])")
    assert len(good) == 50
    assert repr(good).endswith("selected=['quality >= 0.5'], rows=50)")
    tokens = good.spans.num_values
    assert repr(good).endswith(f"rows=50, tokens={tokens})")


def test_an_index_shows_its_pages(dataset):
    assert "PageIndex(column='input_ids', files=2, pages=" in repr(dataset.index)


def test_mixtures_show_names_and_weights(dataset):
    mixed = pf.mix({"<web>": (dataset, 0.7), "code": (dataset, 0.3)})
    assert repr(mixed) == "Mixture(<web>: 0.7, code: 0.3)"
    by_size = pf.mix({"web": dataset})
    assert repr(by_size) == "Mixture(web)"


def test_loaders_show_their_run(loader):
    shown = repr(loader)
    for part in (
        "Loader(dataset=ParquetDataset(column='input_ids', files=2, rows=600",
        "sequences=Windows(",
        f"num_sequences={loader.num_sequences}",
        f"steps={len(loader)}",
        "step=0",
        "rank=0",
        "world_size=1",
        "shuffle=Shuffle(block='page'",
        "memory='8.0 MiB'",
    ):
        assert part in shown


def test_endless_loaders_show_themselves(folder):
    mixed = pf.mix({"web": pf.parquet(folder, column="input_ids")})
    endless = numbered_loader(mixed, sequences=pf.Packed(32))
    assert "steps=" not in repr(endless)
    assert endless.num_steps_left is None


def test_steps_of_a_loader(loader):
    total = len(loader)
    assert (loader.step, loader.num_steps_left) == (0, total)
    for step, _ in enumerate(loader, 1):
        assert (loader.step, loader.num_steps_left) == (step, total - step)
    assert (loader.step, loader.num_steps_left) == (0, total)


def test_steps_of_a_loader_that_moves(loader):
    total = len(loader)
    loader.seek(5)
    assert (loader.step, loader.num_steps_left) == (5, total - 5)
    loader.skip([7, 8])
    assert (loader.step, loader.num_steps_left) == (5, total - 7)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    other = pickle.loads(pickle.dumps(loader))
    other.load_state_dict(state)
    assert (other.step, other.num_steps_left) == (6, total - 8)


@pytest.mark.parametrize("name", ["where", "tiers"])
def test_a_dataset_without_columns_says_what_gives_it_some(tmp_path, name):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "a.bin")
    flat: Any = pf.tokens(tmp_path / "a.bin", dtype="u2")
    datasets: list[Any] = [flat, pf.rows([{"n": 1}, {"n": 2}])]
    for dataset in datasets:
        assert not hasattr(dataset, name)
        with pytest.raises(AttributeError, match=r"prepare\.convert"):
            getattr(dataset, name)
        with pytest.raises(AttributeError, match="no attribute 'wher'"):
            _ = dataset.wher
