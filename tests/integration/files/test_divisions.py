"""Splits and tiers of real files: stable, disjoint and complete."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.filtered import ROWS, dataset_of, rows_of, write_files
from pagefeed.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("filter"))


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
    weights: dict[str, Any] = {"train": 0.9, "validation": 0.1}
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


def test_quantiles_are_of_the_rows_that_have_a_value(tmp_path):
    values = [float(n) for n in range(60)] + [None] * 20 + [float("nan")] * 20
    table = pa.table({"input_ids": [[7]] * 100, "quality": values})
    pq.write_table(table, tmp_path / "a.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    *sizes, missing = map(len, data.tiers("quality", quantiles=3).values())
    assert (sizes, missing) == ([20] * 3, 40)


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
