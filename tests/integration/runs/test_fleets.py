"""Any step of a fleet comes for any rank of any number, whenever it is asked for."""

import gc
import itertools
import json
import os
import random
import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from made.numbered import first_tokens, numbered_loader, rows_of
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError

SIZE = 24
IN_LANES = pf.Shuffle(window=480)
"""Small data is otherwise shuffled in full, and every rank reads every page."""


def fleet(folder, **options):
    options = {"batch_size": None, "global_batch_size": SIZE} | options
    return numbered_loader(folder, **options)


def steps_of(loader):
    """The first tokens of each step of an iteration, sorted."""
    return [sorted(first_tokens(batch)) for batch in loader]


def asked(loaders, step):
    """The same of a step as the members of a fleet are given it."""
    parts = [
        first_tokens(loader.at(step, rank=rank, world_size=len(loaders)))
        for rank, loader in enumerate(loaders)
    ]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    return sorted(token for part in parts for token in part)


SETTINGS: dict[str, dict[str, Any]] = {
    "windows": {},
    "packed": {"sequences": pf.Packed(64)},
    "documents": {"sequences": pf.Documents([], max_length=50)},
    "row": {"shuffle": "row"},
    "file order": {"shuffle": None},
    "two epochs": {"epochs": 2},
    "padded": {"drop_last": False},
    "stages": {"global_batch_size": [(0, 8), (5, 24), (9, 40)]},
    "parts": {"context_parallel": pf.ContextParallel(0, 2)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_any_step_comes_for_any_rank_in_any_order(folder, name):
    options = SETTINGS[name]
    whole = steps_of(fleet(folder, **options))
    assert len(whole) == len(fleet(folder, **options))
    if "stages" not in name:
        plain = {"global_batch_size": None, "batch_size": SIZE} | options
        assert whole == steps_of(numbered_loader(folder, **plain))
    draw, loader = random.Random(name), fleet(folder, **options)
    for _ in range(40):
        step, world_size = draw.randrange(len(whole)), draw.randint(1, 8)
        rank = draw.randrange(world_size)
        tokens = first_tokens(loader.at(step, rank=rank, world_size=world_size))
        assert not Counter(tokens) - Counter(whole[step])
        if "padded" not in name:
            weight = len(tokens) * world_size / len(whole[step])
            assert loader.weight == pytest.approx(weight)
        row = len(tokens) // 2
        if tokens[row] != -1 and "documents" not in name:
            alone = fleet(folder, rank=rank, world_size=world_size, **options)
            assert loader.locate(step, row) == alone.locate(step, row)
    members = [fleet(folder, **options) for _ in range(5)]
    for step in sorted(draw.sample(range(len(whole)), 6)):
        assert asked(members[: draw.randint(1, 5)], step) == whole[step]


def test_a_loop_is_the_same_walk_at_a_place(folder):
    for world_size in (1, 3, 5):
        whole = steps_of(fleet(folder))
        ranks = [
            [first_tokens(b) for b in fleet(folder, rank=r, world_size=world_size)]
            for r in range(world_size)
        ]
        steps = zip(*ranks, strict=True)
        assert [sorted(itertools.chain(*parts)) for parts in steps] == whole
        loader = fleet(folder)
        for step, batch in enumerate(ranks[1 % world_size]):
            place = {"rank": 1 % world_size, "world_size": world_size}
            assert first_tokens(loader.at(step, **place)) == batch


def test_a_loop_goes_on_at_the_step_that_was_asked_for(folder):
    whole = steps_of(fleet(folder))
    for steps in ([0], [0, 1], [5], [5, 6, 7], [7, 2], [3, 3]):
        loader = fleet(folder)
        for step in steps:
            loader.at(step, rank=1, world_size=3)
        assert steps_of(loader) == whole[steps[-1] :]
        assert loader.epoch == 1


def test_a_loop_goes_on_at_the_step_that_failed(folder):
    whole = steps_of(fleet(folder))
    for steps in ([5], [4, 5], [4, 7], [6, 2]):
        fails: list[str] = []

        def transform(batch, fails=fails):
            if fails:
                raise InterruptedError(fails.pop())
            return batch

        loader = fleet(folder, transform=transform)
        for step in steps[:-1]:
            loader.at(step, rank=1, world_size=3)
        fails.append("once")
        with pytest.raises(InterruptedError):
            loader.at(steps[-1], rank=1, world_size=3)
        assert loader.step == steps[-1]
        assert steps_of(loader) == whole[steps[-1] :]


def test_what_is_asked_again_is_held_and_nothing_is_read(folder):
    loader = fleet(folder)
    place = {"rank": 1, "world_size": 3}
    first = loader.at(4, **place)
    taken = loader.stats()["batches"]
    for _ in range(5):
        again = loader.at(4, **place)
        assert again["input_ids"] is first["input_ids"]
        again.pop("input_ids")
    assert loader.stats()["batches"] == taken
    following = loader.at(5, **place)
    assert loader.stats()["batches"] == taken + 1
    assert first_tokens(following) == first_tokens(fleet(folder).at(5, **place))


def test_one_that_waits_gets_nothing_and_reads_nothing(folder):
    loader = fleet(folder)
    for step in range(6):
        assert loader.at(step, rank=None, world_size=2) is None
        assert loader.step == step
        assert loader.weight == 0
    assert loader.stats()["pages_loaded"] == 0
    part = first_tokens(loader.at(6, rank=1, world_size=2))
    assert part == first_tokens(fleet(folder).at(6, rank=1, world_size=2))


def test_the_state_is_the_beginning_of_the_step_asked_for(folder):
    loader = fleet(folder)
    for step, world_size in [(0, 2), (1, 2), (2, 3), (2, 1), (7, 5), (3, 4)]:
        batch = loader.at(step, rank=0, world_size=world_size)
        state = json.loads(json.dumps(loader.state_dict()))
        assert (loader.step, state["step"]) == (step, step)
        other = fleet(folder)
        other.load_state_dict(state)
        assert other.step == step
        for place in [(0, world_size), (0, 1)]:
            rank, of = place
            again = first_tokens(other.at(step, rank=rank, world_size=of))
            assert set(first_tokens(batch)) <= set(again)
        left = steps_of(resumed(folder, state))
        assert left == steps_of(fleet(folder))[step:]


def resumed(folder, state):
    loader = fleet(folder)
    loader.load_state_dict(state)
    return loader


def test_the_kth_step_is_the_kth_that_is_not_skipped(folder):
    whole = steps_of(fleet(folder))
    loader = fleet(folder)
    loader.at(3, rank=0, world_size=2)
    loader.skip([3, 6, 7])
    left = [step for at, step in enumerate(whole) if at not in (3, 6, 7)]
    assert len(left) == loader.num_steps_left + 3
    state = loader.state_dict()
    for step in (3, 4, 5, 6, 2, 0):
        other = resumed(folder, state)
        assert asked([loader], step) == left[step]
        assert asked([other, resumed(folder, state)], step) == left[step]
    loader.at(8, rank=0, world_size=1)
    later = resumed(folder, loader.state_dict())
    assert asked([later] * 3, 8) == left[8]
    later.skip([10])
    assert steps_of(later) == [left[8], left[9], *left[11:]]


def test_steps_before_the_state_are_unknown_under_other_stages(folder):
    then, now = [(0, 8), (2, 24), (9, 40)], [(0, 8), (5, 24), (9, 40)]
    loader = fleet(folder, global_batch_size=then)
    loader.at(6, rank=0, world_size=1)
    state = loader.state_dict()
    for stages, is_known in [(then, True), (now, False), (8, False)]:
        other = fleet(folder, global_batch_size=stages)
        other.load_state_dict(state)
        if is_known:
            assert other.locate(4, 20) == loader.locate(4, 20)
            continue
        with pytest.raises(InvalidArgumentError, match="steps are at least 6"):
            other.locate(4, 20)


def test_wrong_use_is_refused_by_name(folder):
    loader = fleet(folder)
    steps = len(loader)
    with pytest.raises(InvalidArgumentError, match="rank=3 must lie below world_size"):
        loader.at(0, rank=3, world_size=3)
    with pytest.raises(InvalidArgumentError, match=f"below {steps}"):
        loader.at(steps, rank=0, world_size=1)
    with pytest.raises(InvalidArgumentError, match="cannot share a step of 24"):
        loader.at(0, rank=0, world_size=25)
    with pytest.raises(InvalidArgumentError, match="cannot share a step of 8"):
        fleet(folder, global_batch_size=[(0, 24), (2, 8)]).at(0, rank=0, world_size=9)
    for step in (-1, 1.5, "3"):
        with pytest.raises(InvalidArgumentError, match="step="):
            loader.at(step, rank=0, world_size=1)
    for rank, world_size in [("0", 2), (0.0, 2), (True, 2), (0, 1.0), (0, 0), (0, "2")]:
        loader.at(0, rank=0, world_size=2)
        with pytest.raises(InvalidArgumentError, match=r"(rank|world_size)="):
            loader.at(0, rank=rank, world_size=world_size)
    with pytest.raises(InvalidArgumentError, match="world_size=0"):
        loader.at(0, rank=None, world_size=0)
    with pytest.raises(InvalidArgumentError, match="takes global_batch_size=9999"):
        fleet(folder, global_batch_size=9999)
    with pytest.raises(
        InvalidArgumentError, match=f"only global_batch_size={SIZE * 28}"
    ):
        fleet(folder, batch_tokens=900)
    with pytest.raises(InvalidArgumentError, match="give the Loader global_batch_size"):
        numbered_loader(folder).at(0, rank=0, world_size=1)
    with pytest.raises(InvalidArgumentError, match="leave balance out"):
        fleet(folder, balance="tokens")
    with pytest.raises(InvalidArgumentError, match="Give exactly one of"):
        fleet(folder, batch_size=4)
    for stages in ([], [(1, 8)], [(0, 8), (0, 9)], [(0, 8, 1)], [(0, 0)], 0, "8"):
        with pytest.raises(InvalidArgumentError, match="global_batch_size"):
            fleet(folder, global_batch_size=stages)


def test_verbs_take_steps_of_a_fleet(folder, capsys):
    run = fleet(folder)
    words = [name_run(run), "--world-size", "5"]
    assert main(["plan", *words]) == 0
    assert f"{len(run):,} on every rank" in capsys.readouterr().out
    assert main(["verify", *words, "--resume", "4:3", "--resume", "2:7"]) == 0
    assert f"in {len(run)} steps" in capsys.readouterr().out
    words = [name_run(fleet(folder, global_batch_size=[(0, 8), (5, 24)]))]
    for verb in ("plan", "verify", "smoke"):
        assert main([verb, *words]) == 0
    words = [name_run(fleet(folder, global_batch_size=3)), "--world-size", "5"]
    assert main(["plan", *words]) == 2
    assert "cannot share a step of 3 sequences" in capsys.readouterr().err


def test_a_wrong_place_leaves_what_is_held(folder):
    loader = fleet(folder)
    batch = loader.at(2, rank=0, world_size=2)
    with pytest.raises(InvalidArgumentError):
        loader.at(999, rank=0, world_size=2)
    again = loader.at(2, rank=0, world_size=2)
    assert again["input_ids"] is batch["input_ids"]


def test_members_that_disagree_are_found(folder):
    def facts_of(loader, step, rank, world_size):
        loader.at(step, rank=rank, world_size=world_size)
        found: list[Any] = []

        def gather(facts):
            found.append(facts)
            raise InterruptedError

        with pytest.raises(InterruptedError):
            loader.check_ranks(gather)
        return found[0]

    def check(*places):
        members = [fleet(folder) for _ in places]
        facts = [
            facts_of(member, *place)
            for member, place in zip(members, places, strict=True)
        ]
        members[0].check_ranks(lambda _: facts)

    check((3, 0, 3), (3, 1, 3), (3, 2, 3))
    check((3, 0, 2), (3, None, 2), (3, 1, 2))
    with pytest.raises(InvalidArgumentError, match="no process has rank 0"):
        check((3, 1, 2), (3, 1, 2))
    with pytest.raises(InvalidArgumentError, match="process 1 3: give"):
        check((3, 0, 2), (3, 1, 3))
    with pytest.raises(InvalidArgumentError, match="position is"):
        check((3, 0, 2), (4, 1, 2))


def test_lanes_and_order_do_not_depend_on_the_number_of_ranks(folder):
    one, five = (fleet(folder, world_size=n).view().run for n in (1, 5))
    assert one.initial == five.initial
    plain = numbered_loader(folder, batch_size=SIZE)
    assert plain.view().run.initial == one.initial
    assert rows_of(fleet(folder)) == rows_of(plain)


@pytest.fixture(scope="module")
def long_pages(tmp_path_factory):
    """Pages whose sequences last for many steps."""
    path = tmp_path_factory.mktemp("long") / "0.parquet"
    rows = pa.array(np.arange(200 * 100 * 32).reshape(-1, 32).tolist())
    table = pa.table({"input_ids": rows.cast(pa.list_(pa.int32()))})
    pq.write_table(table, path, data_page_size=100 * 128, write_batch_size=10)
    return path


def test_a_change_of_place_keeps_the_pages_it_still_needs(long_pages):
    def pages_of(loader, step, rank, world_size):
        before = loader.stats()["pages_loaded"]
        loader.at(step, rank=rank, world_size=world_size)
        return loader.stats()["pages_loaded"] - before

    options = {"memory": "4MiB", "shuffle": IN_LANES, "global_batch_size": 96}
    loader = fleet(long_pages, **options)
    pages_of(loader, 20, 0, 1)
    moved, new = 0, 0
    for step in range(21, 31):
        for place in [(step % 5, 5), (0, 1)]:
            moved += pages_of(loader, step, *place)
            new += pages_of(fleet(long_pages, **options), step, *place)
    assert moved < new / 2


@pytest.fixture(scope="module")
def a_page_a_lane(tmp_path_factory):
    """As many pages of one size as there are lanes: these end together."""
    path = tmp_path_factory.mktemp("lanes") / "0.parquet"
    rows = pa.array(np.arange(48 * 400 * 32).reshape(-1, 32).tolist())
    table = pa.table({"input_ids": rows.cast(pa.list_(pa.int32()))})
    pq.write_table(table, path, row_group_size=400)
    return path


def test_a_change_of_place_reads_the_pages_of_new_lanes_alone(a_page_a_lane):
    loader = fleet(a_page_a_lane, shuffle=IN_LANES, global_batch_size=96)
    run, last = loader.view().run, len(loader)

    def needed(world_size, begin, end):
        """Pages of the first rank's part of some steps."""
        cursor = run.at(run.beginning(0), rank=0, world_size=world_size)
        sequences = cursor.sequences(begin, end - begin)
        return set(run.index.segments(sequences).page.tolist())

    def border(world_size, least):
        """A step at which all pages of the next steps are of use later, too."""
        return next(
            step
            for step in range(least, last)
            if needed(world_size, step, step + 20)
            <= needed(world_size, step + 20, last)
        )

    borders = [0, first := border(4, 20), border(2, first + 20), last]
    parts = [*zip((4, 2, 1), itertools.pairwise(borders), strict=True)]
    expected, held = 0, set[int]()
    for world_size, (begin, end) in parts:
        for step in range(begin, end):
            loader.at(step, rank=0, world_size=world_size)
        here = needed(world_size, begin, end)
        expected += len(here - held)
        held = (held | here) & needed(world_size, end, last)
        # All that is read ahead here is of use at the places that follow.
        assert needed(world_size, end, last) <= needed(1, end, last)
    assert loader.stats()["pages_loaded"] == expected
    assert expected < sum(len(needed(n, *ends)) for n, ends in parts)
    for _ in range(3):  # Asking again reads nothing.
        loader.at(last - 1, rank=0, world_size=1)
    assert loader.stats()["pages_loaded"] == expected


def test_after_a_change_of_place_little_is_planned_before_the_batch(long_pages):
    def planned(step, rank):
        loader.at(step, rank=rank, world_size=2)
        return loader.view()._feed.engine().plan_bytes

    loader = fleet(long_pages, shuffle=IN_LANES, global_batch_size=96)
    at_first = planned(0, 0)
    for step in range(1, 6):
        assert planned(step, step % 2) < at_first / 3


def test_five_and_seven_ranks_read_hardly_more_pages_than_four(long_pages):
    for size in (48, 64, 100):
        pages = {}
        for world_size in (4, 5, 7):
            pages[world_size] = 0
            for rank in range(world_size):
                place = {"rank": rank, "world_size": world_size}
                options = {"global_batch_size": size, "shuffle": IN_LANES}
                member = fleet(long_pages, **options, **place)
                assert sum(1 for _ in member) == len(member)
                pages[world_size] += member.stats()["pages_loaded"]
        assert max(pages.values()) <= 1.3 * pages[4]


def test_many_changes_leave_everything_as_it_was(folder):
    loader, draw = fleet(folder, epochs=None, memory="4MiB"), random.Random(3)

    def change(count):
        for _ in range(count):
            world_size = draw.randint(1, 7)
            loader.at(
                draw.randrange(60),
                rank=draw.choice([None, draw.randrange(world_size)]),
                world_size=world_size,
            )
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd")), resident()

    threads, descriptors, before = change(50)
    after = change(200)
    assert after[0] == threads
    assert after[1] <= descriptors + 2  # A file each.
    assert after[2] - before < 16 << 20


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_weights_add_up_to_the_step(folder):
    rows = []
    for world_size in (2, 5, 7):
        members = [fleet(folder, drop_last=False) for _ in range(world_size)]
        last = len(members[0]) - 1
        for step in (0, last):
            asked_rows = asked(members, step)
            assert sum(m.weight for m in members) == pytest.approx(world_size)
            rows.append(np.array(asked_rows))
    assert all(np.array_equal(rows[at], rows[at % 2]) for at in range(len(rows)))


def test_weights_of_a_loop_are_those_of_the_batches_taken(folder):
    members = [
        fleet(folder, drop_last=False, rank=rank, world_size=5) for rank in range(5)
    ]
    weights = set()
    for batches in zip(*members, strict=True):
        counts = [sum(token >= 0 for token in first_tokens(each)) for each in batches]
        expected = np.array(counts) * 5 / sum(counts)
        found = [member.weight for member in members]
        np.testing.assert_allclose(found, expected)
        weights.add(tuple(found))
    assert len(weights) > 1  # Of the last step they are others.
