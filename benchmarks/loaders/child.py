"""One phase of one loader, in a process of its own.

    python -m loaders.child ADAPTER.py NAME TASK.json convert|run|resume|orders

`convert` makes its own form of the data; `run` delivers for some seconds and leaves its
state, and what came after it; `resume` goes on from that state; `orders` delivers an
epoch under each of some seeds. What was measured is printed as JSON.
"""

import gc
import json
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

begun = time.perf_counter()

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

from loaders.adapters import load  # noqa: E402
from loaders.orders import SEEDS  # noqa: E402
from loaders.protocol import Adapter, Loader, Task  # noqa: E402

WARM_SHARE = 8
"""Fraction of an epoch before the rate counts. In it a loader fills what it shuffles
in, or delivers what it had read before its first batch: neither lasts."""
OWN_WORK = 0.02
"""Seconds of the consumer's own work a batch, where waits are measured."""
WAITS = 100
AFTER_STATE = 8
"""Batches that a resumed loader must repeat."""
LEAST_BATCHES = 3 * (1 + WAITS + AFTER_STATE)
"""Batches that the data must have: an eighth go before the rate, half into it."""


class Watched:
    """The batches of a loader, whose samples are noted by their numbers."""

    def __init__(self, loader: Loader, task: Task) -> None:
        self._batches = loader.batches()
        self._shape = (task.batch_size, task.length)
        self._flat = np.memmap(task.flat, np.uint16, "r").reshape(-1, task.length)
        self.numbers: list[npt.NDArray[np.int64]] = []

    def take(self) -> npt.NDArray[np.int64]:
        """Return the next batch, after a look at its shape and numbers."""
        array: npt.NDArray[np.int64] = np.asarray(next(self._batches))
        if array.shape != self._shape or array.dtype != np.int64:
            raise AssertionError(f"a batch is {array.dtype} {array.shape}")
        self.numbers.append(array[:, 0] + (array[:, 1] << 16))
        return array

    def take_whole(self) -> bytes:
        """Return a digest of the next batch, whose tokens are those of the data."""
        batch = self.take()
        expected = self._flat[self.numbers[-1]]
        if not np.array_equal(batch, expected):
            raise AssertionError("a batch differs from the data")
        return blake2b(batch.tobytes(), digest_size=16).digest()

    def seen(self) -> npt.NDArray[np.int64]:
        """Return the numbers of all samples so far, a row for each batch."""
        return np.stack(self.numbers)


def main() -> None:
    """Run one phase, and print what was measured."""
    file, name, task_file, phase = sys.argv[1:]
    given = json.loads(Path(task_file).read_text())
    seconds = given.pop("seconds")
    task = Task(
        **given
        | {
            "parquet": tuple(given["parquet"]),
            "flat": Path(given["flat"]),
            "work": Path(given["work"]),
        }
    )
    adapter = load(Path(file))[name]
    found = {
        "convert": lambda: _convert(adapter, task),
        "run": lambda: _run(adapter, task, seconds),
        "resume": lambda: _resume(adapter, task),
        "orders": lambda: _orders(adapter, task),
    }[phase]()
    print(json.dumps(found), flush=True)


def _convert(adapter: Adapter, task: Task) -> dict[str, Any]:
    assert adapter.convert is not None
    adapter.convert(task)
    size = sum(file.stat().st_size for file in task.work.rglob("*") if file.is_file())
    return {"seconds": time.perf_counter() - begun, "bytes": size}


def _run(adapter: Adapter, task: Task, seconds: float) -> dict[str, Any]:
    loader = adapter.open(task)
    watched = Watched(loader, task)
    watched.take()
    start = time.perf_counter() - begun
    whole = task.num_rows // task.batch_size
    _take(watched, whole // WARM_SHARE, seconds)
    cpu, wall = _cpu_seconds(), time.perf_counter()
    count = _take(watched, whole // 2, seconds)
    wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
    tokens = count * task.batch_size * task.length
    waits = sorted(_waits(watched))
    _leave_state(loader, watched, task)
    return {
        "start_seconds": start,
        "tokens_per_second": tokens / wall,
        "cpu_seconds_per_1e9": 1e9 * cpu / tokens,
        "wait_p50": waits[len(waits) // 2],
        "wait_p99": waits[-(len(waits) // 100) - 1],
    }


def _take(watched: Watched, most: int, seconds: float) -> int:
    """Take batches for so long, and return how many."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end and count < most:
        watched.take()
        count += 1
    return count


def _waits(watched: Watched) -> Iterator[float]:
    for _ in range(WAITS):
        time.sleep(OWN_WORK)
        begin = time.perf_counter()
        watched.take()
        yield time.perf_counter() - begin


def _leave_state(loader: Loader, watched: Watched, task: Task) -> None:
    state = pickle.dumps(loader.state())
    np.save(task.work / "numbers.npy", watched.seen())
    next_ones = [watched.take_whole() for _ in range(AFTER_STATE)]
    (task.work / "state").write_bytes(pickle.dumps((state, next_ones)))


def _resume(adapter: Adapter, task: Task) -> dict[str, Any]:
    state, expected = pickle.loads((task.work / "state").read_bytes())  # noqa: S301
    loading = time.perf_counter()
    loader = adapter.open(task)
    loader.load(pickle.loads(state))  # noqa: S301 - its own
    watched = Watched(loader, task)
    found = [watched.take_whole()]
    resumed = time.perf_counter() - loading
    found += [watched.take_whole() for _ in range(AFTER_STATE - 1)]
    before = np.load(task.work / "numbers.npy")
    return {
        "resume_seconds": resumed,
        "same_batches": found == expected,
        "seen_again": float(np.isin(watched.seen(), before).mean()),
        "state_bytes": len(state),
    }


def _orders(adapter: Adapter, task: Task) -> dict[str, Any]:
    whole = task.num_rows // task.batch_size
    found = np.full((SEEDS, whole, task.batch_size), -1)
    for seed in range(SEEDS):
        watched = Watched(adapter.open(replace(task, seed=seed)), task)
        for step in range(whole):
            try:
                watched.take()
            except StopIteration:
                break
            found[seed, step] = watched.numbers[-1]
        del watched
        gc.collect()  # What a loader shares with its next is let go of.
    np.save(task.work / "orders.npy", found)
    return {}


def _cpu_seconds() -> float:
    """CPU time of this process and all below it, so far."""
    import psutil

    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
