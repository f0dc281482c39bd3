"""The loader on real files: every token once, the same order, exact resume."""

import json
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shuffles import SHUFFLES
from pagefeed.errors import (
    InvalidArgumentError,
    StaleFileError,
    StateMismatchError,
    TokenRangeError,
)

LENGTH = 64


def make_loader(files, **options):
    settings: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH),
        "batch_size": 4,
        "seed": 3,
        "memory": "8MiB",
        "rank": 0,
        "world_size": 1,
        "padding": -1,
    } | options
    return pf.Loader(pf.parquet(files, column="input_ids"), **settings)


def rows_of(batches):
    return [row.copy() for batch in batches for row in batch["input_ids"]]


def run(loader):
    return rows_of(loader)


def same(left, right):
    return len(left) == len(right) and all(map(np.array_equal, left, right))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_token_is_delivered_exactly_once(token_files, num_tokens, shuffle):
    loader = make_loader(token_files, shuffle=shuffle, drop_last=False)
    tokens = np.concatenate(run(loader))
    assert np.array_equal(np.sort(tokens[tokens >= 0]), np.arange(num_tokens))


@pytest.mark.parametrize("join", ["dataset", "file"])
def test_windows_are_the_files_tokens_joined_and_cut(token_files, join):
    windows = pf.Windows(LENGTH, join=join)
    loader = make_loader(token_files, sequences=windows, shuffle=None, drop_last=False)
    expected: list[np.ndarray] = []
    lines = [
        pq.read_table(file)["input_ids"].combine_chunks().flatten().to_numpy()
        for file in token_files
    ]
    for tokens in lines if join == "file" else [np.concatenate(lines)]:
        padded = np.full(-(-len(tokens) // LENGTH) * LENGTH, -1)
        padded[: len(tokens)] = tokens
        expected.extend(padded.reshape(-1, LENGTH))
    found = run(loader)
    assert same(found[: len(expected)], expected)
    assert all((row == -1).all() for row in found[len(expected) :])


def test_a_dropped_tail_is_counted(token_files, num_tokens):
    windows = pf.Windows(LENGTH, tail="drop")
    loader = make_loader(token_files, sequences=windows, drop_last=False)
    delivered = sum((row >= 0).sum() for row in run(loader))
    assert delivered == loader.num_sequences * LENGTH
    assert num_tokens - delivered == loader.num_dropped_tokens > 0


def test_shuffling_depends_on_seed_and_epoch_only(token_files):
    first = run(make_loader(token_files))
    assert same(first, run(make_loader(token_files, num_threads=3, memory="1MiB")))
    assert not same(first, run(make_loader(token_files, seed=4)))
    assert not same(first, run(make_loader(token_files, shuffle=None)))
    loader = make_loader(token_files)
    run(loader)
    second = run(loader)
    assert not same(first, second)
    fresh = make_loader(token_files)
    fresh.set_epoch(1)
    assert same(second, run(fresh))


def test_ranks_share_an_epoch_between_them(token_files):
    whole = run(make_loader(token_files, batch_size=12))
    for world_size in (2, 3):
        parts = [
            run(
                make_loader(
                    token_files,
                    batch_size=12 // world_size,
                    rank=rank,
                    world_size=world_size,
                )
            )
            for rank in range(world_size)
        ]
        assert same([row for rows in zip(*parts, strict=True) for row in rows], whole)


@pytest.mark.parametrize("stop", [0, 1, 7])
def test_a_resumed_run_continues_exactly(token_files, stop):
    whole = run(make_loader(token_files))
    loader = make_loader(token_files)
    before = rows_of(islice(loader, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = make_loader(token_files, memory="1MiB", num_threads=1)
    resumed.load_state_dict(state)
    assert same(before + run(resumed), whole)


def test_resuming_on_another_number_of_ranks(token_files):
    whole = run(make_loader(token_files, drop_last=False))
    loader = make_loader(token_files)
    before = rows_of(islice(loader, 5))
    state = loader.state_dict()
    parts = []
    for rank in range(3):
        resumed = make_loader(
            token_files, batch_size=2, rank=rank, world_size=3, drop_last=False
        )
        resumed.load_state_dict(state)
        parts.append(run(resumed))
    after = [row for rows in zip(*parts, strict=True) for row in rows]
    delivered = [row for row in before + after if (row >= 0).any()]
    assert same(delivered, [row for row in whole if (row >= 0).any()])


def test_the_state_is_small_and_the_same_on_every_rank(token_files):
    states = []
    for rank in range(2):
        loader = make_loader(token_files, rank=rank, world_size=2)
        next(iter(loader))
        states.append(loader.state_dict())
    assert states[0] == states[1]
    assert len(json.dumps(states[0])) < 1024


def test_the_state_is_the_consumed_position_not_the_prefetched(token_files):
    loader = make_loader(token_files)
    iterator = iter(loader)
    for taken in range(1, 4):
        next(iterator)
        assert loader.state_dict()["position"] == 4 * taken


def test_leaving_early_begins_the_epoch_again(token_files):
    loader = make_loader(token_files)
    first = rows_of([next(iter(loader))])
    assert same(first, rows_of([next(iter(loader))]))


def test_epochs_are_joined_without_a_gap(token_files):
    joined = run(make_loader(token_files, epochs=2, batch_size=1))
    loader = make_loader(token_files, batch_size=1)
    assert same(joined, run(loader) + run(loader))
    endless = iter(make_loader(token_files, epochs=None, batch_size=1))
    assert same([next(endless)["input_ids"][0].copy() for _ in joined], joined)


def test_the_length_is_the_number_of_steps(token_files):
    for drop_last in (True, False):
        loader = make_loader(token_files, drop_last=drop_last, batch_size=7)
        assert len(loader) == sum(1 for _ in loader)
    with pytest.raises(TypeError, match="never ends"):
        len(make_loader(token_files, epochs=None))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16"])
def test_dtypes(token_files, dtype):
    loader = make_loader(token_files, dtype=dtype, padding=0)
    batch = next(iter(loader))["input_ids"]
    assert batch.dtype == dtype
    assert batch.shape == (4, LENGTH)
    expected = next(iter(make_loader(token_files, padding=0)))["input_ids"]
    assert np.array_equal(batch, expected)


def test_a_token_that_does_not_fit_is_refused(tmp_path, write_tokens):
    path = write_tokens(tmp_path / "wide.parquet", [[1, 2, 70_000, 4]])
    options = {"sequences": pf.Windows(4), "batch_size": 1, "padding": 0}
    loader = make_loader([path], dtype="uint16", **options)
    with pytest.raises(TokenRangeError, match="70000") as caught:
        next(iter(loader))
    assert caught.value.file == str(path)


def test_batches_are_views_that_stay_valid(token_files):
    loader = make_loader(token_files)
    kept = [batch["input_ids"] for batch in loader]
    assert same([row for batch in kept for row in batch], run(make_loader(token_files)))


def test_torch_tensors_share_memory_with_nothing_copied(token_files):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    batch = next(iter(make_loader(token_files, format="torch")))["input_ids"]
    expected = next(iter(make_loader(token_files)))["input_ids"]
    assert batch.dtype == torch.int64
    assert np.array_equal(batch.numpy(), expected)


def test_locate_names_the_tokens_of_every_row(token_files):
    loader = make_loader(token_files)
    tables = {str(p): pq.read_table(p)["input_ids"].to_pylist() for p in token_files}
    for step, batch in enumerate(loader):
        for row, tokens in enumerate(batch["input_ids"]):
            found = np.full(LENGTH, -1)
            for source in loader.locate(step, row):
                document = tables[source.file][source.row]
                part = document[source.first_token :][: source.num_tokens]
                assert len(part) == source.num_tokens > 0
                found[source.offset :][: source.num_tokens] = part
            assert np.array_equal(found, tokens)
        if step == 5:
            break


def test_an_index_travels_by_pickle(token_files, tmp_path):
    for cache_dir in (None, tmp_path):
        index = pf.PageIndex.build(token_files, "input_ids", cache_dir)
        twin = pickle.loads(pickle.dumps(index))
        assert twin.fingerprint == index.fingerprint
        assert np.array_equal(twin.page_rows, index.page_rows)


def test_a_state_of_another_run_is_refused_with_both_sides(token_files):
    state = make_loader(token_files).state_dict()
    with pytest.raises(StateMismatchError, match=r"seed: the state has 3, .* 4"):
        make_loader(token_files, seed=4).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="dataset"):
        make_loader(token_files[:2]).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="lacks"):
        make_loader(token_files).load_state_dict({"epoch": 1})


def test_a_file_replaced_while_running_is_refused_by_name(tmp_path, write_tokens):
    path = write_tokens(tmp_path / "a.parquet", [[1, 2, 3, 4]] * 100)
    dataset = pf.parquet(path, column="input_ids")
    loader = pf.Loader(dataset, sequences=pf.Windows(4), batch_size=1)
    write_tokens(tmp_path / "a.parquet", [[5, 6, 7, 8]] * 100)
    with pytest.raises(StaleFileError, match=r"a\.parquet"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"memory": "lots"}, "not a size"),
        ({"dtype": "float32"}, "dtype"),
        ({"format": "jax"}, "format"),
        ({"rank": 2, "world_size": 2}, "do not fit"),
        ({"rank": 1, "world_size": None}, "both or neither"),
        ({"shuffle": "pages"}, "unknown shuffle"),
        ({"epochs": 0}, "epochs=0"),
    ],
)
def test_arguments_are_checked_early(token_files, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make_loader(token_files, **options)
