"""Steps that are skipped: left out, remembered, and never guessed."""

import json
from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made.numbered import (
    batches_of,
    first_tokens,
    interleaved,
    numbered_loader,
    rows_of,
)
from pagefeed.core.run import MOST_RANGES
from pagefeed.core.run.state_parts import packed_ranges, ranges_fit, unpacked_ranges
from pagefeed.errors import InvalidArgumentError
from pagefeed.run import LoaderState
from scaled import scaled


def test_skipped_steps_are_left_out_and_the_others_keep_their_numbers(folder):
    whole = batches_of(numbered_loader(folder))
    expected = whole[:5] + whole[8:20] + whole[21:]
    loader = numbered_loader(folder)
    loader.skip(steps=range(5, 8))
    loader.skip([20, 6])  # Some of them again.
    assert len(loader) == len(whole)
    assert loader.locate(4, 1)
    assert loader.locate(8, 1)
    with pytest.raises(InvalidArgumentError, match="step=6 is skipped"):
        loader.locate(6, 1)
    assert batches_of(loader) == expected
    assert loader.state_dict()["skipped"] == []

    loader = numbered_loader(folder)
    seen = []
    for batch in loader:
        seen.append(first_tokens(batch))
        if len(seen) == 2:
            loader.skip([*range(5, 8), 20])
        if len(seen) == 6:
            assert loader.state_dict()["step"] == 9
            with pytest.raises(InvalidArgumentError, match="the next step is 9"):
                loader.skip([8])
    assert seen == expected


def test_skips_survive_a_resume_on_other_sizes_and_an_early_end(folder):
    whole = rows_of(numbered_loader(folder, batch_size=1))
    loader = numbered_loader(folder)
    loader.skip(range(10, 13))
    state = loader.state_dict()
    expected = whole[:40] + whole[52:]
    next(iter(loader))
    assert rows_of(loader) == expected[: len(expected) // 4 * 4]
    parts = []
    for rank in range(3):
        resumed = numbered_loader(folder, rank=rank, world_size=3, batch_size=3)
        resumed.load_state_dict(state)
        parts.append(batches_of(resumed))
    found = interleaved(parts)
    assert found == expected[: len(found)]
    assert len(expected) - len(found) < 9 + 4


def test_too_many_skipped_ranges_are_refused_and_old_ones_make_room(
    folder, monkeypatch
):
    monkeypatch.setattr("pagefeed.core.run.state_parts.MOST_RANGES", 64)
    loader = numbered_loader(folder, batch_size=1)
    with pytest.raises(InvalidArgumentError, match="join some"):
        loader.skip(range(0, 160, 2))
    loader.skip(range(1, 121, 2))
    assert len(json.dumps(loader.state_dict())) < 1024
    loader.seek(140)
    loader.skip(range(150, 180, 2))
    assert loader.state_dict()["skipped"] == [150, 1, 1, *[1, 1] * 14]
    with pytest.raises(InvalidArgumentError, match="at least 140"):
        loader.locate(130, 0)


@given(
    begin=st.integers(0, 1 << 50),
    lengths=st.lists(st.integers(1, 1 << 30), min_size=1, max_size=9),
    unit=st.integers(1, 1 << 12),
)
def test_ranges_are_unpacked_as_they_were_packed(begin, lengths, unit):
    borders = [*accumulate([begin, *(unit * length for length in lengths)])]
    ranges = tuple(zip(borders[::2], borders[1::2], strict=False))
    assert unpacked_ranges(json.loads(json.dumps(packed_ranges(ranges)))) == ranges


@settings(max_examples=scaled(9))
@given(seed=st.integers(0, 1000), apart=st.integers(2, 200))
def test_a_state_of_a_long_run_that_skips_as_much_as_it_may_is_small(
    folder, seed, apart
):
    """4,096 ranks that balance, far into a run, at steps of all ranks."""
    loader = numbered_loader(folder, batch_size=8, world_size=4096, epochs=None)
    state = LoaderState.from_dict(loader.state_dict())
    state = replace(state, epoch=117, position=10**11, step=10**7, num_lanes=4096)
    state = replace(state, balance="attention, exact", ranks=4096, seed=2**63)
    state = replace(state, dataset=f"{'a1b2c3d4e5f6'} {10**5} {10**9} {10**12} " * 2)
    sizes, random = 8 * 4096, Random(seed)
    begin, ranges = 10**11, list[tuple[int, int]]()
    while ranges_fit(ranges):
        ranges.append((begin, begin + sizes))
        begin += sizes * random.randint(2, apart + 1)
    assert len(ranges) == MOST_RANGES + 1
    state = replace(state, skipped=tuple(ranges[:-1]))
    assert len(json.dumps(state.to_dict())) < 1024 + 8 * MOST_RANGES
    assert LoaderState.from_dict(state.to_dict()) == state


def test_what_lies_before_a_resume_with_other_sizes_is_not_guessed(folder):
    first = numbered_loader(folder, world_size=2, batch_size=6)
    first.seek(4)
    # As many sequences a step, but dealt to the ranks otherwise.
    loader = numbered_loader(folder, world_size=3, batch_size=4)
    loader.load_state_dict(first.state_dict())
    assert loader.locate(4, 0)
    for look_back in (loader.seek, lambda step: loader.locate(step, 0)):
        with pytest.raises(InvalidArgumentError, match="at least 4"):
            look_back(3)
    [source, *_] = first.locate(1, 0)
    with pytest.raises(InvalidArgumentError, match="delivered before step 4"):
        loader.steps_of(source.file, source.row)
    loader.seek(6)
    again = numbered_loader(folder, world_size=3, batch_size=4)
    again.load_state_dict(loader.state_dict())
    with pytest.raises(InvalidArgumentError, match="at least 6"):
        again.locate(5, 0)


def test_lanes_of_an_earlier_epoch_are_not_guessed_either(folder):
    loader = numbered_loader(folder, epochs=2)
    loader.load_state_dict(numbered_loader(folder, world_size=64).state_dict())
    before = loader.locate(1, 0)
    loader.seek(3)
    assert loader.locate(1, 0) == before
    loader.seek(150)
    with pytest.raises(InvalidArgumentError, match="at least 150"):
        loader.locate(1, 0)


def test_the_epoch_that_is_begun_again_after_a_seek_keeps_its_skips(folder):
    whole = batches_of(numbered_loader(folder))
    loader = numbered_loader(folder)
    loader.seek(1)
    loader.skip(range(5, 6))
    assert first_tokens(next(iter(loader))) == whole[1]
    assert batches_of(loader) == whole[:5] + whole[6:]
