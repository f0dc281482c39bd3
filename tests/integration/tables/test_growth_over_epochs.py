"""Data that grew in an iteration of several epochs."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from made.growing import add_file, folder_loader, rows_of_all, taken
from pagefeed.errors import StateMismatchError


def epochs_of(folder: Path, epochs: Iterable[int], **options) -> list[list[list[int]]]:
    """Rows of some epochs, each in its order."""
    loader, found = folder_loader(folder, **{**options, "batch_size": 1}), []
    for epoch in epochs:
        loader.set_epoch(epoch)
        found.append(rows_of_all([loader]))
    return found


@pytest.mark.parametrize("num_epochs", [2, 3, None])
@pytest.mark.parametrize("taken_before", [2, 8])
@pytest.mark.parametrize("shuffle", ["auto", "row"])
def test_data_grow_in_an_iteration_of_epochs(
    tmp_path, shuffle, taken_before, num_epochs
):
    """Epochs behind the growth are of all data; steps go on over the borders."""
    add_file(tmp_path, "a.parquet", 0)
    options = {"batch_size": 3, "shuffle": shuffle, "epochs": num_epochs}
    one = {"shuffle": shuffle}
    old = epochs_of(tmp_path, range(3), **one)
    begun = folder_loader(tmp_path, **options)
    head = [row for batch in taken(begun, taken_before) for row in batch]
    assert head == [*itertools.chain(*old)][: len(head)]
    state = begun.state_dict()
    add_file(tmp_path, "b.parquet", 900, rows=40)
    new = epochs_of(tmp_path, range(5), **one)
    current, place = state["epoch"], state["position"]
    now = folder_loader(tmp_path, **options)
    now.load_state_dict(state, grown="next-epoch")
    states, rows = [], []
    for batch in now:
        rows += batch["input_ids"].tolist()
        states.append((len(rows), now.state_dict()))
        if len(rows) > 60:
            break
    rest = old[current][place:]
    epochs = new[current + 1 : num_epochs]
    expected = [*rest, *itertools.chain(*epochs)]
    assert rows == expected[: len(rows)]
    if len(rows) < 60:
        assert len(expected) - len(rows) < 3
    for count, saved in states[:-1:3]:
        is_of_before = saved["epoch"] == current
        for batch_size in (3, 2):
            again = folder_loader(tmp_path, **options | {"batch_size": batch_size})
            if is_of_before:
                with pytest.raises(StateMismatchError, match="load with grown="):
                    again.load_state_dict(saved)
            again.load_state_dict(saved, grown="next-epoch" if is_of_before else None)
            assert again.state_dict() == saved
            rows = rows_of_all([again], 2)
            assert rows == expected[count : count + 2 * batch_size][: len(rows)]


def test_steps_that_are_skipped_behind_the_growth_stay_skipped(tmp_path):
    """In whichever epoch they lie, and also in states of later epochs."""
    add_file(tmp_path, "a.parquet", 0)
    options = {"batch_size": 1, "epochs": 3}
    begun = folder_loader(tmp_path, **options)
    taken(begun, 4)
    size = begun.num_sequences
    state = begun.state_dict()
    add_file(tmp_path, "b.parquet", 900, rows=40)
    plain = folder_loader(tmp_path, **options)
    plain.load_state_dict(state, grown="next-epoch")
    expected = dict(enumerate(rows_of_all([plain]), 4))
    now = folder_loader(tmp_path, **options)
    now.load_state_dict(state, grown="next-epoch")
    skipped = [6, size + 12, 2 * size, 2 * size + 1, 55]
    now.skip(skipped)
    left = [row for step, row in expected.items() if step not in skipped]
    iterator, found = iter(now), []
    for batch in iterator:
        found += batch["input_ids"].tolist()
        saved = now.state_dict()
        if len(found) % 17 == 0:
            again = folder_loader(tmp_path, **options)
            is_of_before = saved["epoch"] == 0
            again.load_state_dict(saved, grown="next-epoch" if is_of_before else None)
            assert (again.step, rows_of_all([again])) == (now.step, left[len(found) :])
    assert found == left
