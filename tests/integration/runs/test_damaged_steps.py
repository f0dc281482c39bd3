"""Steps that need a page that cannot be read, and loops that pass over them."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import (
    LENGTH,
    batches_of,
    first_tokens,
    numbered_loader,
    write_numbered,
)
from pagefeed.core.run import MOST_RANGES
from pagefeed.errors import CorruptFileError


def mixture_loader(folder, *, max_steps, **options: Any):
    dataset = pf.parquet(folder, column="input_ids")
    mixed = pf.mix({"a": (dataset, 0.5), "b": (dataset, 0.5)}, max_steps=max_steps)
    return numbered_loader(mixed, **options)


def damaged_copy(folder, target, *, page):
    """The same files, one byte of a page of the first one wrong."""
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        if path.name == "part-0.parquet":
            where = pf.PageIndex.build(folder, "input_ids").locate(page)
            data[where.offset + where.compressed_size - 1] ^= 0xFF
        (target / path.name).write_bytes(data)
    return target


@pytest.mark.parametrize("page", [3, 40])
@pytest.mark.parametrize("as_mixture", [False, True])
@pytest.mark.parametrize(
    "sequences",
    [pf.Windows(LENGTH), pf.Packed(LENGTH), pf.Documents(max_length=LENGTH)],
)
def test_a_damaged_page_is_passed_over_by_the_steps_of_its_error(
    tmp_path, sequences, page, as_mixture
):
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    checked = {"write_page_checksum": True, "write_page_index": True}
    # A packed block is of 200 sequences: a page takes all of them along.
    num_rows = 900 if isinstance(sequences, pf.Packed) else 300
    write_numbered(sound, num_rows=num_rows, **checked)
    damaged_copy(sound, broken, page=page)
    make = mixture_loader if as_mixture else numbered_loader
    options = {"sequences": sequences, "shuffle": pf.Shuffle(window=8)}
    if as_mixture:
        options["max_steps"] = 280
    whole = batches_of(make(sound, **options))

    loader = make(broken, **options)
    iterator = iter(loader)
    seen: list[list[int]] = []
    skipped: list[int] = []
    notes: list[str] = []
    while True:
        try:
            seen.append(first_tokens(next(iterator)))
        except StopIteration:
            break
        except CorruptFileError as error:
            with pytest.raises(CorruptFileError):
                next(iterator)  # It stays at this step.
            notes += error.__notes__
            skipped += error.steps
            loader.skip(error.steps)
    assert skipped
    assert all("loader.skip(" in note for note in notes)
    assert len(skipped) < len(whole)
    assert seen == [rows for step, rows in enumerate(whole) if step not in skipped]


@pytest.mark.parametrize("as_mixture", [False, True])
@pytest.mark.parametrize("sequences", [pf.Windows(LENGTH), pf.Documents(max_length=64)])
def test_steps_of_an_error_are_exact_on_small_data(tmp_path, sequences, as_mixture):
    make = mixture_loader if as_mixture else numbered_loader
    more = {"max_steps": 150} if as_mixture else {}
    loader = make(of_eight_pages(tmp_path, 16_000), sequences=sequences, **more)
    iterator, named, needed = iter(loader), list[tuple[int, ...]](), list[int]()
    while True:
        try:
            next(iterator)
        except StopIteration:
            break
        except CorruptFileError as error:
            named.append(error.steps)
            needed.append(error.steps[0])
            loader.skip(needed[-1:])  # This step alone.
    assert num_runs_of(needed) > 16
    assert list(named[0]) == needed


def test_an_error_names_the_steps_that_need_its_page_alone(tmp_path):
    broken = of_eight_pages(tmp_path, 80_000)
    with pytest.raises(CorruptFileError) as found:
        list(numbered_loader(broken))
    loader, needed = numbered_loader(broken), list[int]()
    batches = iter(loader)
    while True:
        try:
            next(batches)
        except StopIteration:
            break
        except CorruptFileError as error:
            needed.append(error.steps[0])
            loader.skip(needed[-1:])
    assert [*found.value.steps] == needed
    assert 100 < num_runs_of(needed) < MOST_RANGES
    [note] = found.value.__notes__
    assert note.count(",") < 40
    assert "more ranges" in note
    skipping = numbered_loader(broken)
    skipping.skip(found.value.steps)
    state = json.loads(json.dumps(skipping.state_dict()))
    assert len(json.dumps(state)) < 1024 + 8 * num_runs_of(needed)
    again = numbered_loader(broken)
    again.load_state_dict(state)
    assert sum(1 for _ in again) == len(again) - len(needed)


def test_steps_of_an_error_are_joined_to_what_a_state_holds(tmp_path, monkeypatch):
    broken = of_eight_pages(tmp_path, 80_000)
    with pytest.raises(CorruptFileError) as found:
        list(numbered_loader(broken))
    needed = found.value.steps
    for module in ("pagefeed.checks.failures", "pagefeed.core.run.state_parts"):
        monkeypatch.setattr(f"{module}.MOST_RANGES", 20)
    loader = numbered_loader(broken)
    with pytest.raises(CorruptFileError) as found:
        list(loader)
    steps = found.value.steps
    assert {*steps} > {*needed}
    assert num_runs_of(steps) == 20  # The nearest ones are joined.
    told = f"{len(steps)} steps, though {len(needed)} would do"
    assert told in found.value.__notes__[0]
    loader.skip(steps)
    assert sum(1 for _ in loader) == len(loader) - len(steps) > 100


def num_runs_of(steps):
    return sum(after != step + 1 for step, after in pairwise(steps)) + 1


def of_eight_pages(folder, num_tokens):
    """The folder of a file of rows of 20 tokens; one of its pages cannot be read."""
    sound, broken = folder / "sound", folder / "broken"
    sound.mkdir()
    broken.mkdir()
    rows = np.arange(num_tokens, dtype=np.int32).reshape(-1, 20)
    pq.write_table(
        pa.table({"input_ids": list(rows)}),
        sound / "part-0.parquet",
        use_dictionary=False,
        data_page_size=num_tokens // 2,
        write_page_index=True,
        write_batch_size=50,
        write_page_checksum=True,
    )
    assert len(pf.PageIndex.build(sound, "input_ids")) == 8
    damaged_copy(sound, broken, page=3)
    return broken
