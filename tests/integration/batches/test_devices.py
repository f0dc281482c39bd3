"""Batches ahead on a device: the same ones, and the state of the consumed one."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from made.optional import torch
from pagefeed.errors import DataError, InvalidArgumentError

on_device = pytest.importorskip("pagefeed.torch").on_device
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def make(data: Any, **options: Any) -> pf.Loader:
    return numbered_loader(data, format="torch", **options)


def rows_of(batches: Any) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in batches]


def after(state: Any, data: Any, **options: Any) -> list[list[list[int]]]:
    """What a fresh loader delivers from a state on, which was JSON between."""
    loader = make(data, **options)
    loader.load_state_dict(json.loads(json.dumps(state)))
    return rows_of(loader)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ahead", [1, 5])
def test_the_state_is_that_of_the_consumed_batch_in_each_epoch(folder, device, ahead):
    loader, plain = make(folder), make(folder)
    batches = on_device(loader, device, ahead=ahead)
    for _ in range(2):
        want, got = rows_of(plain), []
        for step, batch in enumerate(batches):
            assert batch["input_ids"].device.type == device
            got.append(batch["input_ids"].tolist())
            if step in (0, 6, len(want) - 2):
                assert after(batches.state_dict(), folder) == want[step + 1 :]
        assert got == want
        assert batches.state_dict() == plain.state_dict()
    assert len(batches) == len(want)
    one = sum(tensor.nbytes for tensor in batch.values())
    assert one <= batches.peak_bytes <= (ahead + 1) * one


def test_a_loop_left_early_and_a_state_loaded_into_it(folder):
    loader = make(folder)
    batches = on_device(loader, "cpu", ahead=3)
    steps, want = iter(batches), rows_of(make(folder))
    for _ in range(4):
        next(steps)
    state = batches.state_dict()
    assert loader.step == 4 + 3
    assert rows_of(batches) == want  # As of a loader: it begins the epoch again.
    batches.load_state_dict(state)
    assert rows_of(batches) == want[4:]


def test_what_is_skipped_and_set_meanwhile_is_in_the_state(folder):
    data = pf.parquet(folder, column="input_ids")
    mixed = pf.mix({"a": (data, 1), "b": (data, 1)}, max_steps=30)
    loader = make(mixed)
    batches = on_device(loader, "cpu", ahead=2)
    steps = iter(batches)
    next(steps)
    loader.skip([3, 8])
    loader.set_weights({"a": 1, "b": 9})
    state = batches.state_dict()
    rest = rows_of(steps)
    assert after(state, mixed) == rest
    assert len(rest) == 30 - 1 - 2


def test_a_seek_forgets_the_batches_ahead(folder):
    loader, want = make(folder), rows_of(make(folder))
    steps = iter(on_device(loader, "cpu", ahead=3))
    for _ in range(5):
        next(steps)
    loader.seek(2)
    assert rows_of(steps) == want[2:]


def test_an_error_comes_at_its_own_step_and_is_passed_over(tmp_path):
    path = tmp_path / "a.parquet"
    tokens = pa.array([[n] * 32 for n in range(400)], pa.list_(pa.int32()))
    options: Any = {"write_page_index": True, "write_page_checksum": True}
    table = pa.table({"input_ids": tokens})
    pq.write_table(table, path, row_group_size=40, **options)
    want = rows_of(make(tmp_path, shuffle=None))
    page = pf.PageIndex.build(tmp_path, "input_ids").locate(4)
    stored = bytearray(path.read_bytes())
    stored[page.offset + page.compressed_size - 1] ^= 0xFF
    path.write_bytes(stored)
    loader = make(tmp_path, shuffle=None)
    batches, got = on_device(loader, "cpu", ahead=4), []
    steps = iter(batches)
    while True:
        try:
            got.append(next(steps)["input_ids"].tolist())
        except DataError as error:
            bad, before = error.steps, [*got]
            loader.skip(bad)
        except StopIteration:
            break
    assert before == want[: bad[0]]
    assert got == [rows for step, rows in enumerate(want) if step not in bad]


def test_fields_stay_on_the_host_and_others_are_named(folder):
    loader = make(folder, fields=("input_ids", "labels"))
    batch = next(iter(on_device(loader, "meta", host="labels")))
    assert batch["input_ids"].device.type == "meta"
    assert batch["labels"].device.type == "cpu"
    with pytest.raises(InvalidArgumentError, match=r"'label'.*'labels'"):
        next(iter(on_device(loader, "cpu", host=["label"])))


def test_a_batch_that_cannot_be_copied_is_not_lost(folder):
    class Drops:
        left = 3

        def __call__(self, batch: Any) -> Any:
            self.left -= 1
            if not self.left:
                del batch["labels"]
            return batch

    fields = ("input_ids", "labels")
    loader = make(folder, fields=fields, transform=Drops())
    steps, got = iter(on_device(loader, "cpu", host="labels", ahead=4)), []
    want = rows_of(make(folder))
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="'labels'"):
            got += rows_of(steps)
    assert loader.step == 3
    assert got == []
    steps = iter(on_device(loader, "cpu", host="labels", ahead=1))
    assert next(steps)["input_ids"].tolist() == want[0]


def test_texts_that_are_not_counted(tmp_path: Path):
    table = pa.table({"text": [f"{n} b c" for n in range(200)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)

    def texts() -> pf.TextLoader:
        return pf.TextLoader(
            pf.parquet(tmp_path, column="text"),
            pf.Tokenizer(lambda text: [*text.encode()], vocab_size=300),
            sequences=pf.Windows(8, eos=299),
            batch_size=2,
            format="torch",
        )

    want, loader = rows_of(texts()), texts()
    batches = on_device(loader, "cpu", ahead=2)
    steps = iter(batches)
    assert rows_of(next(steps) for _ in range(3)) == want[:3]
    again = texts()
    again.load_state_dict(batches.state_dict())
    assert rows_of(again) == want[3:]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"device": "cudda"}, "device='cudda' cannot hold"),
        ({"device": 1.5}, "device=1.5 cannot hold"),
        ({"ahead": 0}, "ahead=0"),
        ({"ahead": "2"}, "ahead='2'"),
    ],
)
def test_arguments_are_checked(folder, wrong, told):
    with pytest.raises(InvalidArgumentError, match=told):
        on_device(make(folder), **({"device": "cpu"} | wrong))
    with pytest.raises(InvalidArgumentError, match="format='torch'"):
        on_device(numbered_loader(folder), "cpu")
