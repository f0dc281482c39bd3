"""Small decisions that no larger test would miss: each line here once went unheld."""

import gc
import os
from collections import Counter
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.handmade import one_column, token_list, token_page, with_checksums
from made.numbered import LENGTH, first_tokens, numbered_loader, write_numbered
from models import mixing
from models.tasks import ends, tasks
from pagefeed.core.run import MOST_RANGES
from pagefeed.core.run.route import merge_ranges
from pagefeed.core.run.state_parts import ranges_fit
from pagefeed.core.sequences.packed import BLOCK_SEQUENCES, Packed
from pagefeed.errors import ChecksumError, InvalidArgumentError, StateMismatchError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("numbered")
    write_numbered(path, num_rows=100)
    return path


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return mixing.write_datasets(tmp_path_factory.mktemp("mixed"))


# What a state is held against.

OTHER_PLANS: dict[str, dict[str, Any]] = {
    "shuffle": {"shuffle": "row"},
    "sequences": {"sequences": pf.Windows(LENGTH, tail="drop")},
    "seed": {"seed": 6},
}


@pytest.mark.parametrize("name", OTHER_PLANS)
def test_a_state_of_another_plan_is_refused(folder, datasets, name):
    state = numbered_loader(folder).state_dict()
    with pytest.raises(StateMismatchError, match=name):
        numbered_loader(folder, **OTHER_PLANS[name]).load_state_dict(state)
    mixed = mixing.mixture(datasets)
    state = mixing.make(mixed, sequences=pf.Windows(LENGTH)).state_dict()
    other = {"sequences": pf.Windows(LENGTH)} | OTHER_PLANS[name]
    with pytest.raises(StateMismatchError, match=name):
        mixing.make(mixed, **other).load_state_dict(state)


# Skips.


def test_ranges_that_touch_or_overlap_are_one():
    assert merge_ranges([(0, 2), (2, 3)]) == ((0, 3),)
    assert merge_ranges([(0, 5), (1, 2), (4, 6)]) == ((0, 6),)
    assert merge_ranges([(3, 4), (0, 2)]) == ((0, 2), (3, 4))
    assert merge_ranges([(1, 1), (5, 5)]) == ()


def test_ranges_of_steps_that_touch_count_once(folder):
    loader = numbered_loader(folder, batch_size=1)
    for step in range(40):
        loader.skip([step])
    assert loader.state_dict()["skipped"] == [0, 40, 1]


def test_a_state_holds_so_many_ranges_and_not_one_more(folder):
    loader = numbered_loader(folder, batch_size=1, epochs=None)
    num_ranges = next(
        number
        for number in count()
        if not ranges_fit([(2 * at + 1, 2 * at + 2) for at in range(number + 1)])
    )
    assert num_ranges == MOST_RANGES
    loader.skip(range(1, 2 * num_ranges, 2))
    held = loader.state_dict()["skipped"]
    assert len(held) == 2 * num_ranges + 1
    with pytest.raises(
        InvalidArgumentError, match=f"{num_ranges + 1:,} separate ranges"
    ):
        loader.skip([2 * num_ranges + 1])
    assert loader.state_dict()["skipped"] == held


def test_counters_of_a_mixture_leave_out_what_is_skipped_behind_only(datasets):
    loader = mixing.make(mixing.mixture(datasets, max_steps=20))
    batches = iter(loader)
    loader.skip([1, 5, 6])
    taken = [token for batch in islice(batches, 3) for token in first_tokens(batch)]
    delivered = Counter(token // mixing.APART for token in taken)
    stats = loader.stats()
    for number, name in enumerate(mixing.ROWS):
        assert stats[f"{name}/sequences"] == delivered[number]
    assert sum(delivered.values()) == 12


# Weights.


def test_an_anneal_is_counted_in_steps_of_all_ranks(datasets):
    loader = mixing.make(mixing.mixture(datasets), batch_size=3, world_size=2)
    loader.seek(4)
    loader.set_weights({"web": 1}, anneal=10)
    assert loader.state_dict()["mixture"]["stages"][-1][:2] == [4 * 6, 10 * 6]


def test_a_stage_anneals_in_steps_if_it_starts_at_one(datasets):
    stages = [pf.Stage(start_step=5, weights={"web": 1}, anneal=7)]
    loader = mixing.make(
        mixing.mixture(datasets, stages=stages), batch_size=3, world_size=2
    )
    assert loader.state_dict()["mixture"]["stages"][-1][:2] == [5 * 6, 7 * 6]


# Checksums.


def write_checked(folder: Path) -> Path:
    """Tokens in three pages under checksums."""
    folder.mkdir()
    pages = [token_page([[first + n] * 8 for n in range(4)]) for first in (10, 20, 30)]
    file = with_checksums(one_column(token_list(), pages, num_rows=12))
    path = folder / "part-0.parquet"
    path.write_bytes(file.encode())
    return path


def damage(path: Path, page: pf.dataset.Page) -> None:
    """Flip a bit of a page's last token."""
    with path.open("r+b") as file:
        file.seek(page.offset + page.compressed_size - 4)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("asked", [False, True])
def test_checksums_are_verified_for_the_datasets_that_ask(tmp_path, names, asked):
    """Two datasets, one verified; the damaged one is refused if it is that one."""
    parts = {}
    for name, verify in zip(names, (asked, not asked), strict=True):
        path = write_checked(tmp_path / name)
        if name == names[0]:
            damage(path, pf.PageIndex.build(path, column="input_ids").locate(2))
        dataset = pf.parquet(path, column="input_ids", verify_checksums=verify)
        parts[name] = (dataset, 0.5)

    def read() -> list[Any]:
        mixed = pf.mix(parts, stop="all_exhausted")
        return list(pf.Loader(mixed, sequences=pf.Windows(8), batch_size=1))

    if asked:
        with pytest.raises(ChecksumError, match="part-0"):
            read()
    else:
        assert read()


# Workers.


def test_the_dataset_of_a_worker_loads_its_own_state(folder, monkeypatch):
    adapter = pytest.importorskip("pagefeed.torch", reason="torch is not installed")
    whole = [first_tokens(batch) for batch in numbered_loader(folder)]
    loader = numbered_loader(folder, memory="8MiB", num_threads=2)
    loader.seek(6)
    state = loader.state_dict()

    class Info:
        id, num_workers, seed = 1, 2, 1

    dataset = adapter.as_dataset(numbered_loader(folder, num_threads=2))
    monkeypatch.setattr(adapter, "get_worker_info", lambda: Info)
    before = dataset.loader
    dataset.load_state_dict(state)
    assert dataset.loader is not before  # Its share, not all of the memory.
    assert dataset.loader.num_threads == 1
    assert [first_tokens(batch) for batch in dataset] == whole[7::2]


# Packed blocks.


def packed_sequences(folder: Path) -> Any:
    dataset = pf.parquet(folder, column="input_ids")
    return Packed(2, eos=1).index(dataset.spans)


def test_packed_blocks_have_at_least_200_sequences_worth_of_tokens(folder):
    sequences = packed_sequences(folder)
    tokens = np.diff(sequences.lines.first(sequences.first_span))
    assert BLOCK_SEQUENCES == 200
    assert len(tokens) > 10
    assert tokens.min() >= 200 * 2
    page_tokens = np.diff(sequences.lines.first(np.arange(len(sequences.spans) + 1)))
    assert tokens.max() < 2 * 200 * 2 + 2 * page_tokens.max()


def test_packed_blocks_of_a_row_group_are_shuffled_as_one(folder):
    sequences = packed_sequences(folder)
    pages, groups = sequences.blocks("page"), sequences.blocks("row_group")
    assert 1 < len(groups) < len(pages)
    runs = sequences.spans.runs("row_group")
    first = groups.first_sequence(np.arange(len(groups)))
    starts = sequences.first_span[pages.block_of(first)]
    # Each begins with the first packed block that begins in its row group.
    expected = [
        int(sequences.first_span[np.searchsorted(sequences.first_span, run)])
        for run in runs.tolist()
    ]
    assert starts.tolist() == sorted(set(expected) - {len(sequences.spans)})


# Threads.


@pytest.mark.parametrize(
    "sequences", [pf.Windows(LENGTH), pf.Packed(LENGTH), pf.Documents()]
)
def test_an_engine_ends_with_its_loader(folder, sequences):
    """Not when the garbage of Python is collected next."""
    gc.collect()
    gc.disable()
    try:
        before = tasks()
        loader = numbered_loader(folder, sequences=sequences)
        batch = next(iter(loader))
        started = tasks() - before
        assert started
        del loader, batch
        assert ends(started)
    finally:
        gc.enable()
