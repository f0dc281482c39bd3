"""A state replays the iteration it was saved in, or the one that had ended before."""

import json
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import first_tokens, interleaved, numbered_loader, write_numbered
from pagefeed.errors import StateMismatchError

WEIGHTS = {"code": 0.2, "web": 0.8}
ROWS = {"code": 90, "web": 200}
SETTINGS: dict[str, dict[str, Any]] = {
    "one": {},
    "two epochs": {"epochs": 2},
    "balanced": {"balance": pf.Balance(attention=1, stretch=8)},
    "mixed": {"max_steps": 30},
    "mixed and balanced": {
        "max_steps": 30,
        "balance": pf.Balance(attention=1, stretch=8),
    },
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    found = {}
    for number, (name, rows) in enumerate(ROWS.items()):
        folder = tmp_path_factory.mktemp(name)
        write_numbered(folder, num_rows=rows, first_token=number * 10**6)
        found[name] = pf.parquet(folder, column="input_ids")
    return found


def loaders(datasets, world_size, batch_size, **options):
    """Loaders of all ranks, without a step that is not whole."""
    data = datasets["web"]
    if "max_steps" in options:
        parts = {name: (datasets[name], weight) for name, weight in WEIGHTS.items()}
        data = pf.mix(parts, unit="sequences", max_steps=options.pop("max_steps"))
    return [
        numbered_loader(
            data, rank=rank, world_size=world_size, batch_size=batch_size, **options
        )
        for rank in range(world_size)
    ]


def run(ranks, count=None):
    """Sequences of the next steps, or of all, in the order of positions."""
    parts = []
    for loader in ranks:
        iterator, batches = iter(loader), list[list[int]]()
        while count is None or len(batches) < count:
            batch = next(iterator, None)
            if batch is None:
                break
            batches.append(first_tokens(batch))
        parts.append(batches)
    return interleaved(parts)


def saved(ranks):
    states = [json.dumps(loader.state_dict()) for loader in ranks]
    assert states.count(states[0]) == len(states)
    return json.loads(states[0])


@pytest.mark.filterwarnings("ignore::pagefeed.errors.BalanceWarning")
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("world_size", [1, 5, 7])
def test_an_iteration_that_ended_is_replayed_at_any_size(datasets, name, world_size):
    options = SETTINGS[name]
    ranks = loaders(datasets, world_size, 2, **options)
    run(ranks)  # So that it is not the first one.
    whole = run(ranks, 9)
    if "max_steps" in options:
        for loader in ranks:
            loader.skip([11])
            loader.set_weights({"code": 0.7, "web": 0.3})
    within = saved(ranks)
    for loader in ranks:
        loader.load_state_dict(within)
    whole += run(ranks)
    state = saved(ranks)
    assert state["step"] == 0
    assert len(json.dumps(state)) < (1500 if "max_steps" in options else 1000)
    for size in (world_size, 3):
        again = loaders(datasets, size, 2, **options)
        for loader in again:
            loader.load_state_dict(state)
            loader.load_state_dict(loader.state_dict(), replay=True)
        repeated = run(again)
        common = min(len(repeated), len(whole))
        assert common > 30
        assert repeated[:common] == whole[:common]
        if size == world_size:
            assert len(repeated) == len(whole)
    # Without replay the next iteration begins, on any ranks.
    here = run(ranks, 4)
    after = loaders(datasets, world_size, 2, **options)
    for loader in after:
        loader.load_state_dict(state)
    assert run(after, 4) == here
    assert "ended" not in saved(after)


def test_a_beginning_that_follows_no_iteration_is_not_replayed(datasets):
    (loader,) = loaders(datasets, 1, 4)
    first = run([loader], 3)
    (other,) = loaders(datasets, 1, 4)
    other.load_state_dict(other.state_dict(), replay=True)
    assert run([other], 3) == first
    other.set_epoch(3)
    state = other.state_dict()
    with pytest.raises(StateMismatchError, match="start of epoch 3"):
        loader.load_state_dict(state, replay=True)


def test_ranks_that_came_by_other_ways_agree(datasets):
    (one,), (other,) = loaders(datasets, 1, 4), loaders(datasets, 1, 4)
    run([one])
    other.set_epoch(1)
    states = [each.view()._agreed() for each in (one, other)]
    assert states[0] == states[1]


def test_epochs_balanced_for_an_unknown_number_of_ranks_are_not_replayed(datasets):
    options = {"epochs": 2, "balance": pf.Balance(attention=1, stretch=8)}
    ranks = loaders(datasets, 2, 4, **options)
    run(ranks, 3)
    state = saved(ranks)
    (loader,) = loaders(datasets, 1, 4, **options)
    loader.load_state_dict(state)
    run([loader], 120)
    state = loader.state_dict()
    assert state["epoch"] == 1
    with pytest.raises(StateMismatchError, match="balanced for a number of ranks"):
        loader.load_state_dict(state, replay=True)


def test_an_iteration_in_which_data_were_added_is_not_replayed(tmp_path):
    write_numbered(tmp_path, num_files=1)
    loader = numbered_loader(tmp_path)
    run([loader], 3)
    state = loader.state_dict()
    other = tmp_path / "more"
    other.mkdir()
    write_numbered(other, num_files=1, first_token=10**6)
    (other / "part-0.parquet").rename(tmp_path / "part-1.parquet")
    loader = numbered_loader(tmp_path)
    loader.load_state_dict(state, grown="next-epoch")
    run([loader], 3)
    with pytest.raises(StateMismatchError, match="belongs to another run"):
        loader.load_state_dict(loader.state_dict(), replay=True)
