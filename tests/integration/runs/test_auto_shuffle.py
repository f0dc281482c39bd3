"""`shuffle="auto"` moves the block that suits a bucket, the same wherever files lie."""

import json
import shutil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.core.batches import sources
from pagefeed.errors import StateMismatchError

LENGTH, ROWS = 64, 1200


def write(folder, *, page_rows, group_rows):
    folder.mkdir()
    rows = np.random.default_rng(3).integers(0, 2**31, (ROWS, LENGTH))
    pq.write_table(
        pa.table({"input_ids": list(rows)}),
        folder / "a.parquet",
        row_group_size=group_rows,
        use_dictionary=False,
        write_page_index=True,
        data_page_size=1,
        write_batch_size=page_rows,
    )
    return folder


def loader(paths, **more):
    settings: dict[str, Any] = {"batch_size": 4, "shuffle": "auto"} | more
    data = pf.parquet(paths, column="input_ids")
    return pf.Loader(data, sequences=pf.Windows(LENGTH), **settings)


@pytest.fixture
def small(tmp_path):
    """Pages of a kilobyte, 120 row groups."""
    return write(tmp_path / "small", page_rows=2, group_rows=10)


def rows(loader):
    return [batch["input_ids"].tolist() for batch in loader]


def test_row_groups_where_pages_are_small_and_row_groups_many(small):
    auto = loader(small)
    assert auto.shuffle == pf.Shuffle(block="row_group")
    assert rows(auto) == rows(loader(small, shuffle="row_group"))
    blocks: tuple[Any, ...] = ("auto", "row_group", "page")
    shuffles = [pf.Shuffle(block=block, window=100) for block in blocks]
    chosen, groups, pages = (rows(loader(small, shuffle=each)) for each in shuffles)
    assert chosen == groups != pages


def test_pages_where_row_groups_would_not_mix(tmp_path):
    few = write(tmp_path / "few", page_rows=2, group_rows=100)
    assert loader(few).shuffle == pf.Shuffle(block="page")
    assert rows(loader(few)) == rows(loader(few, shuffle="page"))


@pytest.mark.parametrize(
    ("name", "value"), [("SMALL", 50), ("LARGE", 500), ("FEWEST", 121)]
)
def test_pages_that_are_worth_a_request_and_row_groups_that_are_not(
    small, monkeypatch, name, value
):
    monkeypatch.setattr(sources, name, value)
    assert loader(small).shuffle == pf.Shuffle(block="page")


def test_window_and_passes_stay(small):
    asked = pf.Shuffle(block="auto", window="1MiB", passes=2)
    chosen = pf.Shuffle(block="row_group", window="1MiB", passes=2)
    assert loader(small, shuffle=asked).shuffle == chosen


def test_a_state_records_the_choice_and_holds_for_a_copy(small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    whole = rows(loader(small))
    begun = loader(small)
    for _ in zip(range(3), begun, strict=False):
        pass
    state = json.loads(json.dumps(begun.state_dict()))
    assert state["shuffle"] == "Shuffle('row_group')"
    for other in (loader(copy), loader(copy, shuffle="row_group")):
        other.load_state_dict(state)
        assert rows(other) == whole[3:]
    with pytest.raises(StateMismatchError, match="row_group"):
        loader(copy, shuffle="page").load_state_dict(state)


def test_a_mixture_chooses_for_all(small, tmp_path):
    large = write(tmp_path / "large", page_rows=2, group_rows=1200)
    parts = [pf.parquet(at, column="input_ids") for at in (small, large)]
    mixed = pf.mix({"small": (parts[0], 1), "large": (parts[1], 1)}, max_steps=9)
    both = pf.Loader(mixed, sequences=pf.Windows(LENGTH), batch_size=4, shuffle="auto")
    assert both.shuffle.block == "row_group"
    assert loader(large).shuffle.block == "page"


def test_plan_shows_what_each_costs(small, capsys):
    arguments = ["plan", str(small), "--column", "input_ids", "--length", str(LENGTH)]
    assert main([*arguments, "--shuffle", "auto", "--tokens-per-second", "1e6"]) == 0
    told = capsys.readouterr().out
    assert "requests/Mtok" in told
    lines = [line.split() for line in told.splitlines()]
    table = {line[0]: line for line in lines if line}
    assert table["row_group"][1] == "(auto)"
    assert "(auto)" not in table["page"]
    tokens = ROWS * LENGTH
    reads = int(table["page"][1].replace(",", ""))
    each = float(table["page"][-4].replace(",", ""))
    assert each == pytest.approx(reads / tokens * 1e6, rel=0.01)
