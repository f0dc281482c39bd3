"""Steps that are skipped: left out, remembered, and never guessed."""

import json

import pytest

from made.numbered import (
    first_tokens,
    interleaved,
    numbered_loader,
    rows_of,
    write_numbered,
)
from pagefeed.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered")
    write_numbered(path)
    return path


def batches_of(loader):
    return [first_tokens(batch) for batch in loader]


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


def test_too_many_skipped_ranges_are_refused_and_old_ones_make_room(folder):
    loader = numbered_loader(folder, batch_size=1)
    with pytest.raises(InvalidArgumentError, match="join some"):
        loader.skip(range(0, 40, 2))
    loader.skip(range(1, 31, 2))
    assert len(json.dumps(loader.state_dict())) < 1024
    loader.seek(40)
    loader.skip(range(50, 70, 2))
    assert loader.state_dict()["skipped"][0] == [50, 51]
    with pytest.raises(InvalidArgumentError, match="at least 40"):
        loader.locate(30, 0)


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
    with pytest.raises(InvalidArgumentError, match="seen before step 4"):
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
