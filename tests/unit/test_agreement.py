"""Ranks from meshes, and the proof that all processes are fed what they must be."""

from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import (
    Ranks,
    check_agreement,
    from_deepspeed,
    from_jax,
    from_mesh,
    gather_from,
)


class Device(NamedTuple):
    process_index: int


def mesh_of(shape, names, coordinate):
    return SimpleNamespace(
        shape=shape, mesh_dim_names=names, get_coordinate=lambda: coordinate
    )


def agree(feeds, same=None, parts=None):
    """Check as process 0 of these would, with its groups of the same batches."""
    groups, parts = same or [None] * len(feeds), parts or [(0, 1)] * len(feeds)
    facts = [
        (tuple(ranks), plan, group, part)
        for (ranks, plan), group, part in zip(feeds, groups, parts, strict=True)
    ]
    check_agreement(
        *(Ranks(*feeds[0][0]), feeds[0][1], Ranks(*parts[0])),
        gather=lambda _: facts,
        same=groups[0],
    )


def feeds(*ranks, world_size, **plan):
    return [((rank, world_size), {"seed": 1} | plan) for rank in ranks]


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), data=st.data()
)
def test_ranks_of_a_mesh_count_the_processes_that_differ(shape, data):
    names = tuple(f"dim{axis}" for axis in range(len(shape)))
    dims = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    coordinate = [data.draw(st.integers(0, size - 1)) for size in shape]
    ranks = from_mesh(mesh_of(shape, names, coordinate), dims)
    sizes = [shape[names.index(name)] for name in dims]
    places = [coordinate[names.index(name)] for name in dims]
    expected = 0
    for size, place in zip(sizes, places, strict=True):
        expected = expected * size + place
    assert ranks.rank == expected < ranks.world_size
    assert from_mesh(mesh_of(shape[:1], None, coordinate[:1])).rank == coordinate[0]


@pytest.mark.parametrize(
    ("dims", "coordinate", "match"),
    [
        (None, [0, 0], "2 dimensions, 'dp', 'tp'"),
        ("data", [0, 0], r"it has 'dp', 'tp'"),
        ([], [0, 0], "each once"),
        (["dp", "dp"], [0, 0], "each once"),
        ("dp", None, "not in the mesh"),
    ],
)
def test_what_is_no_rank_of_a_mesh_is_refused(dims, coordinate, match):
    with pytest.raises(InvalidArgumentError, match=match):
        from_mesh(mesh_of((2, 2), ("dp", "tp"), coordinate), dims)


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (feeds(0, world_size=1), None),
        (feeds(0, 1, 2, world_size=3), None),
        (feeds(0, 0, 1, 1, world_size=2), [[0, 1], [0, 1], [2, 3], [2, 3]]),
        (feeds(0, 1, 0, 1, world_size=2), [[0, 2], [1, 3], [0, 2], [1, 3]]),
        (feeds(0, 1, world_size=2), [[0], [1]]),
    ],
)
def test_right_ranks_agree(made, same):
    agree(made, same)


def test_many_processes_are_compared_at_once():
    """Each with its own group alone: pairs of ten thousand would be fifty million."""
    number, size = 16_384, 8
    ranks = [process // size for process in range(number)]
    groups = [list(range(rank * size, (rank + 1) * size)) for rank in ranks]
    made = feeds(*ranks, world_size=number // size)
    agree(made, groups)
    groups[-1] = [number - 1]
    with pytest.raises(InvalidArgumentError, match="16383 and 16376 need different"):
        agree(made, groups)
    made[-size:] = made[:size]
    with pytest.raises(
        InvalidArgumentError, match="no process has rank 2047 "
    ) as raised:
        agree(made, groups)
    assert len(str(raised.value)) < 400


def test_what_is_not_proved_is_said():
    """With peers in tensor parallelism, whose group nobody has named."""
    with pytest.warns(UserWarning, match="2 processes. It could not prove"):
        agree(feeds(0, 0, 1, 1, world_size=2))


@pytest.mark.parametrize(
    ("made", "same", "match"),
    [
        (feeds(0, 0, world_size=1), [[0], [1]], "0 and 1 need different batches"),
        (feeds(0, 0, world_size=2), None, "no process has rank 1 .* train on the same"),
        (
            feeds(0, 2, 2, world_size=3),
            None,
            r"rank 1 .* so \[1, 2\] train on the same",
        ),
        (feeds(0, 1, 1, world_size=2), None, "2 processes have rank 1, 1 have rank 0"),
        (
            feeds(0, 1, 0, 1, world_size=2),
            [[0, 1], [0, 1], [2, 3], [2, 3]],
            "processes 0 and 1 need the same batches, and have ranks 0 and 1 of 2",
        ),
        (
            [*feeds(0, world_size=1), *feeds(0, world_size=2)],
            None,
            "process 0 has world_size=1, process 1 2",
        ),
        (
            [*feeds(0, world_size=2), *feeds(1, world_size=2, seed=7)],
            None,
            "seed is 1 in process 0 and 7 in process 1",
        ),
    ],
)
def test_wrong_ranks_are_named(made, same, match):
    with pytest.raises(InvalidArgumentError, match=match):
        agree(made, same)


def test_those_that_wait_get_the_same_batches_as_their_group_alone():
    """Of a fleet, whose members that wait have no rank."""
    pairs = [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5], [6, 7], [6, 7]]
    agree(feeds(0, 0, None, None, 1, 1, None, None, world_size=2), pairs)
    apart = feeds(0, 0, None, 1, 1, None, world_size=2)
    with pytest.raises(InvalidArgumentError, match="2 processes have rank 0, 1 have"):
        agree(apart, pairs[:6])
    torn = feeds(0, None, None, 0, 1, 1, world_size=2)
    torn[2] = torn[1]
    with pytest.raises(InvalidArgumentError, match=r"0 and none \(with process 0"):
        agree(torn, [[0, 1], [0, 1], [0, 3], [0, 3], [4, 5], [4, 5]])


@pytest.mark.parametrize(
    ("spans", "rank"),
    [
        ([(0, 3), (3, 6)], 1),
        ([(3, 6), (0, 3)], 0),
        ([(0, 6), (0, 6)], 0),
        ([(0, 4), (2, 6)], None),
        ([(0, 2), (2, 4)], None),
    ],
)
def test_ranks_of_a_sharding_share_all_rows(monkeypatch, spans, rank):
    jax = SimpleNamespace(process_index=lambda: 1)
    monkeypatch.setitem(__import__("sys").modules, "jax", jax)
    devices = [Device(process) for process in range(len(spans))]
    indices = {
        device: (slice(*span),) for device, span in zip(devices, spans, strict=True)
    }
    sharding = SimpleNamespace(devices_indices_map=lambda _: indices)
    if rank is not None:
        assert from_jax(sharding, rows=6) == Ranks(rank, len(set(spans)))
        return
    with pytest.raises(InvalidArgumentError, match="not equal shares"):
        from_jax(sharding, rows=6)


def test_rows_of_a_sharding_may_be_another_axis(monkeypatch):
    jax = SimpleNamespace(process_index=lambda: 1)
    monkeypatch.setitem(__import__("sys").modules, "jax", jax)
    indices = {
        Device(process): (slice(0, 1), slice(3 * process, 3 * process + 3))
        for process in range(2)
    }
    sharding = SimpleNamespace(devices_indices_map=lambda _: indices)
    assert from_jax(sharding, rows=6, axis=1) == Ranks(1, 2)


def test_ranks_of_a_sequence_get_other_batches_only_for_its_adapter(monkeypatch):
    groups = SimpleNamespace()
    monkeypatch.setitem(__import__("sys").modules, "deepspeed.utils.groups", groups)
    fed, apart = [], []
    for rank, sequence_rank in product(range(3), range(2)):
        groups._get_data_parallel_rank = lambda rank=rank: rank
        groups._get_data_parallel_world_size = lambda: 3
        groups._get_sequence_parallel_rank = lambda rank=sequence_rank: rank
        groups._get_sequence_parallel_world_size = lambda: 2
        fed.append(from_deepspeed())
        apart.append(from_deepspeed(ulysses_adapter=True))
    assert fed == [Ranks(rank, 3) for rank in (0, 0, 1, 1, 2, 2)]
    assert apart == [Ranks(rank, 6) for rank in range(6)]


def test_jax_needs_jax(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'pagefeed\[jax\]'"):
        from_jax(None, rows=8)


def test_without_processes_that_were_joined_there_is_this_one():
    pytest.importorskip("torch")
    assert gather_from()({"seed": 1}) == [{"seed": 1}]


def test_a_group_has_every_part_of_its_sequences():
    group, halves = feeds(0, 0, 1, 1, world_size=2), [(0, 2), (1, 2)] * 2
    same = [[0, 1], [0, 1], [2, 3], [2, 3]]
    agree(group, same, halves)
    for wrong in ([(0, 2)] * 4, [(0, 2), (1, 2), (1, 2), (1, 2)]):
        with pytest.raises(InvalidArgumentError, match=r"part . of 2"):
            agree(group, same, wrong)
    with pytest.raises(InvalidArgumentError, match="1 processes get part 1 of 2"):
        agree(
            feeds(0, 0, 0, 1, 1, 1, world_size=2),
            [[0, 1, 2]] * 3 + [[3, 4, 5]] * 3,
            [(0, 2), (0, 2), (1, 2), (0, 2), (1, 2), (1, 2)],
        )
    with pytest.raises(InvalidArgumentError, match="no processes get part 1 of 2"):
        agree(feeds(0, world_size=1), parts=[(0, 2)])
