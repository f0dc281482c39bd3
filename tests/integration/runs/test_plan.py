"""`loader.plan`: the table that goes to the engine says what batches hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.core.batches.feeds import TokenFeed
from pagefeed.core.sequences import Segments
from pagefeed.errors import InvalidArgumentError

LENGTH = 32
ROWS = {
    name: [[(first + n * 13 + k) % 900 for k in range(n * 7 % 60)] for n in range(300)]
    for name, first in (("a", 0), ("b", 1000))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("planned")
    for name, rows in ROWS.items():
        table = pa.table({"input_ids": rows, "id": range(len(rows))})
        pq.write_table(table, path / f"{name}.parquet", data_page_size=1500)
    return path


def named(folder: Path, name: str) -> pf.dataset.ParquetDataset:
    return pf.parquet(folder / f"{name}.parquet", column="input_ids")


def make(folder: Path, sequences: Any, **options: Any) -> pf.Loader:
    data = options.pop("data", None) or named(folder, "a")
    size: Any = {} if "batch_tokens" in options else {"batch_size": 4}
    return pf.Loader(data, sequences=sequences, seed=5, **size, **options)


def tokens_of(loader: pf.Loader, page: int, row: int, first: int, count: int):
    """The tokens that a segment names, from the rows as they were written."""
    run = loader.view().run
    part = int(np.searchsorted(run.index.first_page, page, side="right")) - 1
    local = page - run.index.first_page[part]
    number = int(run.datasets[part].index.first_rows([local])[0])
    joined = np.concatenate(ROWS[run.names[part] or "a"][number + row :])
    return joined[first : first + count]


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("rank", [0, 1])
def test_segments_are_what_batches_of_windows_hold(folder, is_mixed, rank):
    mixed = {name: (named(folder, name), 1.0) for name in ROWS}
    loader = make(
        folder,
        pf.Windows(LENGTH),
        data=pf.mix(mixed, max_steps=9) if is_mixed else None,
        rank=rank,
        world_size=2,
        drop_last=False,
        padding=7,
        dtype="int64",
    )
    steps = range(len(loader))
    plan = loader.plan(steps)
    assert plan.bundles is None
    assert plan.step.tolist() == np.repeat(steps, 4).tolist()
    assert plan.row.tolist() == [0, 1, 2, 3] * len(steps)
    expected = np.full((len(plan.row), LENGTH), 7)
    for place, page, row, first, count, offset in zip(*plan.segments, strict=True):
        assert plan.sequence[place] >= 0
        tokens = tokens_of(loader, int(page), int(row), int(first), int(count))
        expected[place, offset : offset + count] = tokens
    found = np.concatenate([batch["input_ids"] for batch in loader])
    assert np.array_equal(found, expected)
    cursor = loader.view().run.at(loader.view().run.beginning(0))
    assert plan.sequence.tolist() == cursor.sequences(0, len(steps)).tolist()


def test_the_table_goes_to_the_engine(folder, monkeypatch):
    """What a running loader plans is what `plan` told before."""
    loader = make(folder, pf.Windows(LENGTH), fields=("input_ids", "labels"))
    told = loader.plan(range(len(loader)))
    planned, plan = [], TokenFeed.plan

    def recorded(feed, sequences):
        planned.append(plan(feed, sequences))
        return planned[-1]

    monkeypatch.setattr(TokenFeed, "plan", recorded)
    twin = make(folder, pf.Windows(LENGTH), fields=("input_ids", "labels"))
    assert len(list(twin)) == len(loader)
    rows = np.cumsum([0, *(4 * each.num_batches for each in planned)])
    assert rows[-1] == len(told.row)
    for name in Segments._fields:
        columns = [getattr(each.segments, name) for each in planned]
        if name == "sequence":
            columns = [own + at for own, at in zip(columns, rows, strict=False)]
        assert np.array_equal(np.concatenate(columns), getattr(told.segments, name))


def test_bundles_have_the_pages_of_packed_documents(folder):
    loader = make(folder, pf.Packed(LENGTH, eos=950))
    plan, index = loader.plan([2]), loader.dataset.index
    bundles, segments = plan.bundles, plan.segments
    assert bundles is not None
    assert segments.sequence.tolist() == [0, 1, 2, 3]
    for row in range(4):
        [bundle] = np.flatnonzero(bundles.key == segments.page[row])
        begin, end = bundles.slice_offsets[bundle : bundle + 2].tolist()
        pages = [index.locate(int(page)) for page in bundles.slice_page[begin:end]]
        origins = loader.locate(2, row)
        assert origins
        held = {(page.row_group, page.page) for page in pages}
        assert {(origin.row_group, origin.page) for origin in origins} <= held


@pytest.mark.parametrize(
    "cut",
    [
        pf.Windows(LENGTH),
        pf.Packed(LENGTH),
        pf.Documents(columns=("input_ids", "id")),
    ],
)
def test_the_epoch_of_infilled_documents_is_a_column(folder, cut):
    infill = pf.Infill(prefix=901, middle=902, suffix=903, rate=1.0)
    data = named(folder, "a").infill(infill)
    loader = make(folder, cut, data=data, epochs=3)
    num_steps, run = len(loader), loader.view().run
    plan = loader.plan(range(num_steps))
    # A step may begin in one epoch and end in the next.
    epochs = np.arange(len(plan.row))[plan.segments.sequence] // run.num_sequences
    is_infilled = np.ones(len(epochs), dtype=bool)
    if isinstance(cut, pf.Documents):  # The first of two columns is that of tokens.
        is_infilled = plan.segments.offset == 0
    assert plan.epoch.tolist() == np.where(is_infilled, epochs, 0).tolist()
    assert set(plan.epoch.tolist()) == {0, 1, 2}
    pages = plan.segments.page if plan.bundles is None else plan.bundles.slice_page
    assert pages.max() < 2 * len(data.index)
    plain = make(folder, cut, data=named(folder, "a"), epochs=3)
    assert not plain.plan(range(len(plain))).epoch.any()


@pytest.mark.parametrize("size", [{}, {"batch_tokens": 200}])
def test_rows_of_columns_are_planned(folder, size):
    documents = pf.Documents(max_length=60, columns=("id",))
    loader = make(folder, documents, **size)
    plan, index = loader.plan([3, 1]), loader.dataset.index
    batches = list(loader)
    for step in (3, 1):
        for row in range(len(batches[step]["id"])):
            [place] = np.flatnonzero((plan.step == step) & (plan.row == row))
            [cell] = np.flatnonzero(
                (plan.segments.sequence == place) & (plan.segments.offset == 0)
            )
            page = plan.segments.page[cell : cell + 1]
            number = index.first_rows(page)[0] + plan.segments.row[cell]
            assert int(number) == int(batches[step]["id"][row])


def test_a_plan_moves_nothing(folder):
    loader, twin = (make(folder, pf.Packed(LENGTH)) for _ in range(2))
    batches = iter(loader)
    for number, expected in enumerate(twin):
        loader.plan([number, len(loader) - 1])
        assert np.array_equal(next(batches)["input_ids"], expected["input_ids"])
        assert loader.state_dict() == twin.state_dict()


def test_steps_must_exist(folder):
    loader = make(folder, pf.Windows(LENGTH))
    loader.skip([4])
    wrong: list[tuple[Any, str]] = [
        ([], "must name a step"),
        ([4], "step=4 is skipped"),
        ([len(loader)], "step"),
        ([-1], "steps=-1"),
        (["1"], "steps='1'"),
    ]
    for steps, told in wrong:
        with pytest.raises(InvalidArgumentError, match=told):
            loader.plan(steps)
    assert loader.plan([3, 5]).step.tolist() == [3] * 4 + [5] * 4


def test_a_fleet_plans_for_its_place(folder):
    """Ranks have unlike numbers of rows: the missing ones are padding."""
    loader = make_fleet(folder)
    for rank in range(3):
        batch = loader.at(2, rank=rank, world_size=3)
        assert batch is not None
        rows = len(batch["input_ids"])
        plan = loader.plan([1, 2])
        assert (plan.sequence[plan.step == 2] >= 0).sum() == rows
        assert rows in (2, 3)


def make_fleet(folder: Path) -> pf.Loader:
    data = named(folder, "a")
    return pf.Loader(
        data,
        sequences=pf.Windows(LENGTH),
        global_batch_size=8,
        seed=1,
        rank=0,
        world_size=1,
    )
