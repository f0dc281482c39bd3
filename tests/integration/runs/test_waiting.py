"""A batch that does not come is told while it does not come, whatever it waits for."""

import gc
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from made.optional import as_dataset, torch
from made.slow_disk import slow_disk
from pagefeed.errors import InvalidArgumentError
from pagefeed.metrics import WaitAlarm
from servers.web_servers import Handler, WebServer, running

AFTER, STALL = 0.04, 0.25
"""Seconds after which a wait is told, and of the one that is."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A file that all processes log to."""
    path = tmp_path / "log"
    handler = logging.FileHandler(path)
    logging.getLogger("pagefeed").addHandler(handler)
    yield path
    logging.getLogger("pagefeed").removeHandler(handler)
    handler.close()


Heard = list[tuple[float, str]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Times and texts of what the log tells."""
    told: Heard = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append((time.monotonic(), record.getMessage()))  # type: ignore[method-assign]
    logging.getLogger("pagefeed").addHandler(handler)
    yield told
    logging.getLogger("pagefeed").removeHandler(handler)


class StallsOnce:
    """What a user gives to a loader: it takes long at one call."""

    def __init__(self, call: int) -> None:
        self.left = call
        self.ended = 0.0

    def __call__(self, value: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            time.sleep(STALL)
            self.ended = time.monotonic()
        return value


def check_told(heard: Heard, begin: float, end: float, *parts: str) -> None:
    """Of one wait: while it lasts, at doubled times, with what is waited for."""
    assert heard
    assert all(when < end for when, _ in heard)
    passed = [when - begin for when, _ in heard]
    assert passed[0] >= AFTER
    assert 2 <= len(heard) <= 4, passed
    for part in parts:
        assert part in heard[0][1]


def test_a_transform_is_named_with_its_line_and_changes_no_batch(folder, heard):
    want = [batch["input_ids"].copy() for batch in numbered_loader(folder)]
    stalls = StallsOnce(3)
    loader = numbered_loader(folder, transform=stalls, warn_after=AFTER)
    got = [batch["input_ids"].copy() for batch in loader]
    begin = stalls.ended - STALL - 0.02
    here = f"{StallsOnce.__call__.__qualname__} ({__file__}:"
    check_told(heard, begin, stalls.ended, "at step 2 on rank 0 of 1", here)
    assert all(map(np.array_equal, got, want))
    assert len(got) == len(want)


@pytest.mark.parametrize("after", [None, 30.0])
def test_nothing_is_told_of_what_comes_in_time(folder, heard, after):
    for _ in numbered_loader(folder, transform=StallsOnce(3), warn_after=after):
        pass
    assert heard == []


def test_a_mixture_whose_ranks_come_and_go(folder, heard):
    data = pf.parquet(folder, column="input_ids")
    mixed = pf.mix({"a": (data, 1), "b": (data, 2)}, max_steps=9)
    stalls = StallsOnce(2)
    loader = numbered_loader(
        mixed,
        batch_size=None,
        global_batch_size=4,
        transform=stalls,
        warn_after=AFTER,
    )
    for step in range(3):
        loader.at(step, rank=1, world_size=2)
    check_told(
        heard, stalls.ended - STALL - 0.02, stalls.ended, "rank 1 of 2", "Stalls"
    )


def test_a_function_that_decodes(tmp_path, heard):
    table = pa.table({"text": [f"row {n}" for n in range(40)]})
    pq.write_table(table, tmp_path / "a.parquet")
    stalls = StallsOnce(11)
    loader = pf.Loader(
        pf.parquet(tmp_path, column="text"),
        sequences=pf.Documents(columns=["text"]),
        batch_size=4,
        decode={"text": stalls},
        warn_after=AFTER,
    )
    assert sum(len(batch["text"]) for batch in loader) == 40
    told = "StallsOnce.__call__", "value", "decoded"
    check_told(heard, stalls.ended - STALL - 0.02, stalls.ended, *told)


def test_a_tokenizer_of_texts_that_are_not_counted(tmp_path, heard):
    table = pa.table({"text": ["a b c"] * 60})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    stalls = StallsOnce(25)

    def tokens_of(text: str) -> list[int]:
        return [len(stalls(text))] * 8

    tokenizer = pf.Tokenizer(tokens_of, vocab_size=9)
    loader = pf.TextLoader(
        pf.parquet(tmp_path, column="text"),
        tokenizer,
        sequences=pf.Windows(8, eos=1),
        batch_size=4,
        warn_after=AFTER,
    )
    assert [*loader]
    told = "tokens_of (", "1 page, ", "a.parquet, row group", "column text, page 0"
    check_told(heard, stalls.ended - STALL - 0.02, stalls.ended, *told)


def test_a_store_that_does_not_answer(tmp_path, heard):
    rows = np.arange(24_000).reshape(-1, 40).tolist()
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, tmp_path / "far.parquet", data_page_size=2048)
    server = WebServer(tmp_path, Handler)

    def stall(_: Handler) -> bool:
        time.sleep(STALL)
        return False

    with running(server):
        data = pf.parquet(f"{server.url}/far.parquet", column="input_ids")
        loader = numbered_loader(data, warn_after=AFTER)
        server.fault = stall
        begin = time.monotonic()
        next(iter(loader))
        end = time.monotonic()
        loader.close()
    told = "far.parquet, row group 0, column input_ids", "requests", "KiB", "fetch"
    check_told(heard, begin, end, *told)


STALLED = """
import os, sys
import pagefeed as pf
data = pf.parquet(sys.argv[1], column="input_ids")
loader = pf.Loader(data, sequences=pf.Windows(32), batch_size=4, num_threads=2,
                   rank=0, world_size=1, warn_after=0.1)
data.index
os.environ["SLOW_READS"] = "500000"
next(iter(loader))
os._exit(0)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_disk_that_does_not_answer(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STALLED, str(folder)],
        env=os.environ | {"LD_PRELOAD": str(slow_disk(tmp_path))},
        capture_output=True,
        text=True,
        check=True,
    )
    first, *_ = done.stderr.splitlines()
    # Without any setting of logging.
    assert first.startswith("pagefeed: no batch for 0.1")
    for part in ("part-", "row group", "page ", " B: ", "of 2 threads work"):
        assert part in first
    assert "0 of 2 threads work" not in first


def test_workers_of_a_data_loader_tell_their_own(folder, log):
    loader = numbered_loader(
        folder, transform=StallsOnce(3), warn_after=AFTER, format="torch"
    )
    workers = torch.utils.data.DataLoader(
        as_dataset(loader), batch_size=None, num_workers=1
    )
    assert [*workers]
    assert "StallsOnce.__call__" in log.read_text()


def test_an_alarm_rings_while_it_waits_and_what_it_raises_is_told(folder, heard):
    rung = list[float]()

    def ring(seconds: float) -> None:
        rung.append(seconds)
        raise LookupError("nobody answers")

    loader = numbered_loader(folder, transform=StallsOnce(2), warn_after=None)
    with WaitAlarm(seconds=AFTER, call=ring):
        assert [*loader]
    assert 2 <= len(rung) <= 3
    assert AFTER <= rung[0] < 2 * AFTER + 0.05 < STALL
    assert "LookupError: nobody answers" in heard[0][1]
    assert "test_waiting.py" in heard[0][1]
    rung.clear()
    loader = numbered_loader(folder, transform=StallsOnce(2), warn_after=None)
    assert [*loader]
    assert rung == []
    with WaitAlarm(seconds=AFTER):
        loader = numbered_loader(folder, transform=StallsOnce(2), warn_after=None)
        assert [*loader]
    assert "StallsOnce" in heard[-1][1]


def test_the_thread_ends_with_the_last_loader(folder):
    def watchers() -> int:
        return sum(thread.name == "waits" for thread in threading.enumerate())

    loader = numbered_loader(folder, warn_after=0.05)
    next(iter(loader))
    assert watchers() == 1
    del loader
    gc.collect()
    end = time.monotonic() + 20
    while watchers() and time.monotonic() < end:
        time.sleep(0.01)
    assert watchers() == 0


def test_a_forked_process_watches_its_own_loops_alone(folder, log):
    stalls = StallsOnce(2)
    loader = numbered_loader(folder, transform=stalls, warn_after=AFTER)
    next(iter(numbered_loader(folder, warn_after=AFTER)))
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if [*loader] else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert log.read_text().count("StallsOnce") >= 2


@pytest.mark.parametrize("after", [0, -1, "30", True, float("nan"), float("inf")])
def test_a_wait_is_some_seconds(folder, after):
    with pytest.raises(InvalidArgumentError, match=r"warn_after=.* seconds above 0"):
        numbered_loader(folder, warn_after=after)
    with pytest.raises(InvalidArgumentError, match="seconds"):
        WaitAlarm(seconds=after)
