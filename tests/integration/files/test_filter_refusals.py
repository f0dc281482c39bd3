"""Selections that cannot be had are refused; others by way of commands and views."""

import datetime
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pagefeed as pf
from made.filtered import ROWS, dataset_of, make_loader, table_of, write, write_files
from pagefeed.cli import main
from pagefeed.errors import (
    ColumnNotFoundError,
    EmptySelectionError,
    InvalidArgumentError,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("filter"))


@pytest.mark.parametrize(
    ("predicate", "error", "message"),
    [
        (
            "qualty > 0.5",
            ColumnNotFoundError,
            r"'qualty' \(did you mean 'quality'\?\);",
        ),
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


def test_times_without_a_zone_are_not_compared_with_others(tmp_path):
    times = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
    path = write(tmp_path / "a.parquet", pa.table({"time": times, "n": [1, 2, 3]}))
    data = pf.parquet(path, column="n")
    noon = datetime.datetime(1960, 1, 1, 12)
    with pytest.raises(InvalidArgumentError, match="without timezone"):
        data.where(pc.field("time") > noon)
    assert len(data.where(pc.field("time") > noon.replace(tzinfo=datetime.UTC))) == 3


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
    ("sequences", "size"),
    [
        (pf.Windows(8), {"batch_size": 2}),
        (pf.Packed(8), {"batch_size": 2}),
        (pf.Documents(max_length=8), {"batch_size": 2}),
        (pf.Documents(max_length=8), {"batch_tokens": 64}),
    ],
)
def test_no_sequences_are_made_of_an_empty_selection(files, sequences, size):
    empty = dataset_of(files).where("place < 2").where("lang == 'fr'")
    with pytest.raises(EmptySelectionError):
        pf.Loader(empty, sequences=sequences, **size)


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
    assert main(["plan", *run, "--where", "quality >> 0.5"]) == 2
    assert "^^^" in capsys.readouterr().err
    assert main(["plan", *run, "--where", "quality > 5"]) == 2
    assert "EmptySelectionError" in capsys.readouterr().err


def test_a_view_shows_the_selected_rows(files):
    selected = dataset_of(files).where("lang == 'en'")
    view = pf.SequenceView(selected, pf.Windows(256))
    loader = make_loader(selected, shuffle=None, batch_size=1)
    assert len(view) == loader.num_sequences
    for number, batch in zip(range(5), loader, strict=False):
        assert np.array_equal(view[number]["input_ids"], batch["input_ids"][0])
