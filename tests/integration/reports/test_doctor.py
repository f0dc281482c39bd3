"""The doctor names what is slow, each thing made slow for real."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import pagefeed as pf
from made.slow_disk import slow_disk
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.diagnosis import cause_of_data
from pagefeed.reports.gpu_copies import Copy, copy_of

SECONDS = 0.4
NUM_PROCESSORS = len(os.sched_getaffinity(0))

PROGRAM = """
import json, os, sys
from dataclasses import asdict
import pagefeed as pf
data = pf.parquet(sys.argv[1], column="input_ids")
loader = pf.Loader(data, sequences=pf.Windows(512), batch_size=2, num_threads=2,
                   rank=0, world_size=1)
os.environ["SLOW_READS"] = "200000"
print(json.dumps(asdict(pf.doctor(loader, lambda _: None, seconds=2.0))))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pages that take work to decode."""
    path = tmp_path_factory.mktemp("doctor")
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.3, 3_000_000) % 30_000).astype(np.int32)
    rows = pa.ListArray.from_arrays(np.arange(0, len(tokens) + 1, 500), tokens)
    pq.write_table(
        pa.table({"input_ids": rows}),
        path / "a.parquet",
        compression="zstd",
        use_dictionary=False,
        data_page_size=1 << 17,
        write_batch_size=16,
        write_page_index=True,
    )
    return path


def make(folder, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Windows(512),
        "batch_size": 64,
        "num_threads": 2,
        "rank": 0,
        "world_size": 1,
        "seed": 1,
    }
    data = pf.parquet(folder, column="input_ids")
    return pf.Loader(data, **settings | options)


def fast(_batch: Any) -> None:
    """A model that takes no time."""


def test_a_slow_model(folder):
    found = pf.doctor(make(folder), lambda _: time.sleep(0.05), seconds=SECONDS)
    assert (found.limit, found.cause) == ("compute", None)
    assert found.step_seconds["compute"] > 0.05
    assert "compute limits" in str(found)


def test_a_slow_transform(folder):
    def slow(batch):
        time.sleep(0.05)
        return batch

    loader = make(folder, transform=slow)
    found = pf.doctor(loader, lambda _: time.sleep(0.02), seconds=SECONDS)
    assert (found.limit, found.cause, found.setting) == (
        *("data", "transform", "transform"),
    )
    assert loader.transform is slow
    # A faster one than the model is not hidden either: it is no part of the overlap.
    found = pf.doctor(loader, lambda _: time.sleep(0.15), seconds=SECONDS)
    assert (found.limit, found.cause) == ("overlap", "transform")


def test_threads_that_idle_between_epochs_do_not_wait_for_storage(tmp_path):
    rows = [[*range(500)]] * 8
    for name in "ab":
        pq.write_table(pa.table({"input_ids": rows}), tmp_path / f"{name}.parquet")
    loader = make(tmp_path, batch_size=15)
    assert len(loader) == 1
    seen = pf.doctor(loader, seconds=SECONDS).evidence
    assert seen is not None
    assert seen.start_seconds > 0.3 * seen.seconds
    # As of many processors; here the threads would wait for theirs.
    idle: dict[str, Any] = {
        "num_threads": 16,
        "busy_threads": 0.1,
        "wait_seconds": 0.6 * seen.seconds,
    }
    of_many = replace(seen, **idle)
    assert cause_of_data(of_many, loader)[:2] == ("overhead", "epochs")
    joined = replace(of_many, start_seconds=0.0)
    assert cause_of_data(joined, loader).name == "storage"


def test_without_a_step_nothing_is_said_to_limit(folder):
    found = pf.doctor(make(folder), seconds=SECONDS)
    assert found.limit is None
    assert found.setting
    assert "limits:" not in str(found)
    assert "--step-seconds" in str(found)


def test_busy_processors_want_no_more_threads(folder):
    loader = make(folder)
    seen = pf.doctor(loader, seconds=SECONDS).evidence
    assert seen is not None
    busy: dict[str, Any] = {
        "num_threads": 16 * NUM_PROCESSORS,
        "busy_threads": float(NUM_PROCESSORS),
        "wait_seconds": 0.6 * seen.seconds,
        "pages_reloaded": 0,
        "start_seconds": 0.0,
    }
    assert cause_of_data(replace(seen, **busy), loader).name == "processors"


def test_too_few_threads(folder):
    found = pf.doctor(make(folder, num_threads=1), fast, seconds=SECONDS)
    assert found.limit == "data"
    assert found.cause == ("threads" if NUM_PROCESSORS > 1 else "processors")
    assert found.setting == "num_threads"
    assert found.evidence is not None
    assert (found.evidence.busy_threads or 1) > 0.5


def test_too_few_processors(folder):
    loader = make(folder, num_threads=NUM_PROCESSORS)
    assert pf.doctor(loader, fast, seconds=SECONDS).cause == "processors"


def test_too_many_passes(folder):
    loader = make(folder, shuffle=pf.Shuffle(passes=16), num_threads=1)
    assert pf.doctor(loader, fast, seconds=SECONDS).setting == "passes"


def test_too_little_memory(folder):
    shuffle = pf.Shuffle(window=5000)
    loader = make(folder, shuffle=shuffle, memory="2MiB", batch_size=16)
    found = pf.doctor(loader, fast, seconds=SECONDS)
    assert (found.limit, found.cause, found.setting) == ("data", "memory", "memory")
    scattered = make(folder, shuffle="row", memory="2MiB", batch_size=16)
    assert pf.doctor(scattered, fast, seconds=SECONDS).setting == "shuffle"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_slow_disk(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env=os.environ | {"LD_PRELOAD": str(slow_disk(tmp_path))},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["limit"], found["cause"]) == ("data", "storage"), found


@pytest.mark.parametrize(
    ("seconds", "limit", "cause"), [(0.1, "compute", None), (0, "data", "transform")]
)
def test_a_script_is_watched(folder, seconds, limit, cause):
    def slow(batch):
        time.sleep(0.01)
        return batch

    loader = make(folder, transform=None if seconds else slow)
    batches = iter(loader)
    next(batches)  # What the start takes is no step's.
    with pf.diagnose(loader) as found:
        assert found.limit is None
        for _ in islice(batches, 12):
            time.sleep(seconds)
    assert (found.limit, found.cause) == (limit, cause)
    assert found.evidence is not None
    assert found.evidence.steps == 12
    assert loader.transform is (None if seconds else slow)


def test_the_command_line(folder, tmp_path, capsys, monkeypatch):
    run = ["doctor", str(folder), "--column", "input_ids", "--length", "512"]
    run += ["--seconds", "0.2"]
    assert main([*run, "--step-seconds", "0.05"]) == 0
    assert "compute limits" in capsys.readouterr().out
    (tmp_path / "my_training.py").write_text("def step(batch):\n    assert batch\n")
    monkeypatch.chdir(tmp_path)
    assert main([*run, "--train", "my_training:step", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["limit"] == "data"
    assert main([*run, "--train", "my_training:nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_what_a_device_has_yet_to_do_is_waited_for(folder):
    matrix = torch.randn(4096, 4096, device="cuda")

    def train(_):
        for _ in range(20):
            torch.mm(matrix, matrix)  # Returns at once.

    train(None)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    train(None)
    torch.cuda.synchronize()
    expected = time.perf_counter() - begin
    found = pf.doctor(make(folder), train, seconds=SECONDS)
    assert found.limit == "compute"
    assert 0.5 * expected < found.step_seconds["compute"] < 2 * expected
    assert found.step_seconds["both"] > 0.5 * expected


@pytest.mark.parametrize("watched", [True, False])
def test_ctrl_c_at_the_start_of_a_measurement(folder, monkeypatch, watched):
    loader = make(folder)
    batches = iter(loader)
    next(batches)

    def interrupted(_thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)

    def measure() -> None:
        if not watched:
            pf.doctor(loader, seconds=SECONDS)
            return
        with pf.diagnose(loader):
            next(batches)

    with pytest.raises(KeyboardInterrupt):
        measure()
    assert loader.transform is None


def test_hours_are_those_of_all_accelerators_while_they_wait(folder):
    def slow(batch):
        time.sleep(0.02)
        return batch

    def hours(world_size: int, **options: Any) -> Any:
        loader = make(folder, world_size=world_size, transform=slow, batch_size=2)
        step: Any = {"train": lambda _: time.sleep(0.02), "seconds": 0.2}
        return pf.doctor(loader, **(step | options))

    tokens = 10**9
    found = hours(1, accelerators=16, tokens=tokens)
    # Steps of 1,024 tokens wait some 20 ms each, on all accelerators.
    waited = found.step_seconds["both"] - found.step_seconds["compute"]
    assert waited > 0.015
    want = tokens / 1024 * waited * 16 / 3600
    assert found.cause == "transform"
    assert found.wait_hours["now"] == pytest.approx(want, rel=0.01)
    assert found.wait_hours["after the change"] < 0.2 * want
    assert "accelerator hours now" in str(found)
    shared = hours(4, accelerators=16, tokens=tokens)
    assert shared.wait_hours["now"] == pytest.approx(want / 4, rel=0.8)
    assert pf.doctor(make(folder), fast, seconds=0.1).wait_hours == {}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"accelerators": 8}, "tokens .which goes with accelerators.=None"),
        ({"tokens": 10}, "accelerators .which goes with tokens.=None"),
        ({"tokens": 10, "accelerators": 0}, "accelerators .*=0"),
        ({"tokens": 10, "accelerators": 1, "train": None}, "give train"),
    ],
)
def test_the_size_of_a_training_is_checked(folder, wrong, told):
    asked: Any = {"train": fast, "seconds": 0.1} | wrong
    with pytest.raises(InvalidArgumentError, match=told):
        pf.doctor(make(folder), **asked)


def test_a_slow_copy_to_the_accelerator(folder, monkeypatch):
    # As measured where there is CUDA; here there may be none.
    copied = Copy(seconds=0.008, is_pinned=False)
    monkeypatch.setattr("pagefeed.reports.diagnosis.copy_of", lambda _: copied)
    step: Any = {"train": lambda _: time.sleep(0.02), "seconds": 0.2}
    found = pf.doctor(make(folder, batch_size=1), **step, accelerators=2, tokens=10**9)
    assert (found.limit, found.cause, found.setting) == ("overlap", "copy", "on_device")
    assert found.lost_share == 0.008 / found.step_seconds["both"]
    assert "8.0 ms a step, from pageable memory" in found.advice
    assert found.wait_hours["after the change"] == 0
    monkeypatch.setattr(
        "pagefeed.reports.diagnosis.copy_of", lambda _: Copy(0.001, is_pinned=True)
    )
    assert pf.doctor(make(folder, batch_size=1), **step).cause is None


def test_a_copy_is_measured_where_cuda_is_used():
    batch: Any = {"input_ids": torch.zeros(8, 64, dtype=torch.int64), "texts": ["a"]}
    if not torch.cuda.is_available():
        assert copy_of(batch) is None
        return
    torch.zeros(1, device="cuda")
    pageable, pinned = copy_of(batch), copy_of({"a": batch["input_ids"].pin_memory()})
    assert pageable is not None
    assert pinned is not None
    assert (pageable.is_pinned, pinned.is_pinned) == (False, True)
    assert 0 < pinned.seconds < 1
