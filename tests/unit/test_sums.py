"""Sums over the blocks of an epoch: made in steps, left for others, removed."""

import os
import re
import shutil
import time
from typing import Any

import numpy as np
import pytest

from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.core.order import starts as starts_module
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.errors import InternalError


def make_order(blocks, *, begins=True, **options):
    settings: dict[str, Any] = {
        "seed": 1,
        "epoch": 0,
        "name": "web",
        "shuffle": Shuffle(),
    }
    options = {"num_lanes": 3, "window": 20} | options
    order = EpochOrder(blocks, **(settings | options))
    for _ in order.begin() if begins else ():
        pass
    return order


def random_blocks(num_blocks, seed=0):
    sizes = np.random.default_rng(seed).integers(0, 6, num_blocks)
    return ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)]))


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch):
    monkeypatch.setattr(starts_module, "PIECE", 640)


def test_sums_are_left_for_other_processes(tmp_path, monkeypatch, caplog):
    blocks = random_blocks(5000)
    options = {"cache_dir": tmp_path / "new", "fingerprint": "corpus"}
    sequences = make_order(blocks).at(range(blocks.num_sequences))
    first = make_order(blocks, **options)
    [path] = (tmp_path / "new").iterdir()
    assert re.fullmatch(r"order-[0-9a-f]{32}\.starts", path.name)
    monkeypatch.setattr(starts_module, "sum_sizes", None)  # no second pass
    second = make_order(blocks, **options)
    for order in (first, second):
        assert np.array_equal(order.at(range(blocks.num_sequences)), sequences)
    for other in ({"epoch": 1}, {"seed": 2}, {"name": "code"}, {"fingerprint": "x"}):
        with pytest.raises(TypeError):
            make_order(blocks, **(options | other))
    assert not caplog.records


def test_sums_are_made_in_steps_ahead_of_their_use(tmp_path):
    blocks = random_blocks(5000)
    sequences = make_order(blocks).at(range(blocks.num_sequences))
    options = {"cache_dir": tmp_path, "fingerprint": "corpus", "begins": False}
    for num_steps in (0, 3, 1000):  # what is left is made when it is needed
        order = make_order(blocks, **options)
        assert not list(tmp_path.iterdir())
        steps = sum(1 for _, _ in zip(range(num_steps), order.begin(), strict=False))
        assert steps == min(num_steps, 9)
        assert bool(list(tmp_path.iterdir())) == (num_steps == 1000)
        assert np.array_equal(order.at(range(blocks.num_sequences)), sequences)
        [path] = tmp_path.iterdir()
        shutil.rmtree(path)


@pytest.mark.parametrize("place", [3, 20, 60, -1])
def test_broken_sums_are_made_anew(tmp_path, place):
    blocks = random_blocks(5000)
    options = {"cache_dir": tmp_path, "fingerprint": "corpus"}
    make_order(blocks, **options)
    [path] = tmp_path.glob("*/numbers")
    good = path.read_bytes()
    broken = bytearray(good)
    broken[place] ^= 1
    for content in (bytes(broken), good[:place], b""):
        path.write_bytes(content)
        sequences = make_order(blocks, **options).at(range(blocks.num_sequences))
        assert np.array_equal(np.sort(sequences), np.arange(blocks.num_sequences))
        assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path.parent]


def test_sums_of_other_blocks_are_found_out(tmp_path):
    options = {"cache_dir": tmp_path, "fingerprint": "the same, wrongly"}
    sizes = np.random.default_rng(0).permutation(np.arange(5000) % 7)
    make_order(ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)])), **options)
    other = ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes[::-1])]))
    order = make_order(other, **options)
    with pytest.raises(InternalError, match="delete the order-\\*"):
        order.at(range(other.num_sequences))


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path, caplog):
    caplog.set_level("INFO", logger="pagefeed")
    blocks = random_blocks(5000)
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    order = make_order(blocks, cache_dir=folder, fingerprint="corpus")
    sequences = order.at(range(blocks.num_sequences))
    assert np.array_equal(np.sort(sequences), np.arange(blocks.num_sequences))
    assert "sums of an epoch are not shared" in caplog.text


def test_drafts_of_sums_do_not_stay(tmp_path, caplog):
    caplog.set_level("INFO", logger="pagefeed")
    blocks = random_blocks(5000)
    options = {"cache_dir": tmp_path, "fingerprint": "corpus"}
    make_order(blocks, **options)
    [path] = tmp_path.iterdir()
    shutil.rmtree(path)
    path.touch()  # a folder cannot take its place
    make_order(blocks, **options)
    assert list(tmp_path.iterdir()) == [path]
    assert "sums of an epoch are not shared" in caplog.text


def test_sums_of_a_single_step_are_not_left(tmp_path):
    make_order(random_blocks(600), cache_dir=tmp_path, fingerprint="corpus")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("num_steps", [0, 1, 4, 8])
def test_an_interrupted_pass_begins_again(monkeypatch, num_steps):
    blocks = random_blocks(5000)
    sequences = make_order(blocks).at(range(blocks.num_sequences))
    order = make_order(blocks, begins=False)
    make = starts_module.sum_sizes

    def interrupted(items):
        for step, sums in enumerate(make(items)):
            if step == num_steps:
                raise KeyboardInterrupt
            yield sums

    monkeypatch.setattr(starts_module, "sum_sizes", interrupted)
    for begin in (lambda: list(order.begin()), lambda: order.at([0])):
        with pytest.raises(KeyboardInterrupt):
            begin()
    monkeypatch.setattr(starts_module, "sum_sizes", make)
    assert np.array_equal(order.at(range(blocks.num_sequences)), sequences)


def test_sums_that_nobody_uses_are_removed(tmp_path):
    options = {"cache_dir": tmp_path, "fingerprint": "corpus"}
    blocks = random_blocks(5000)
    make_order(blocks, **options)
    [used] = tmp_path.iterdir()
    old = time.time() - starts_module.STALE_SECONDS - 60
    names = ["order-0.starts", "order-1.starts.17.abc", "other.starts", used.name]
    for name in names:
        (tmp_path / name).mkdir(exist_ok=True)
        os.utime(tmp_path / name, (old, old))
    make_order(blocks, **options)  # That is a use.
    make_order(blocks, epoch=1, **options)
    left = {path.name for path in tmp_path.iterdir()}
    assert {"other.starts", used.name} < left
    assert len(left) == 3
