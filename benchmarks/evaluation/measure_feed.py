"""Measure one loader in a process of its own: `measure_feed.py NAME PLACE.json PHASE`.

Phases: `convert` makes its own form of the data; `run` delivers for some seconds and
leaves its state, and what came after it; `resume` goes on from that state.
"""

import json
import pickle
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

begun = time.perf_counter()

from feeds import BATCH_SIZE, LENGTH, Candidate, Feed, Place  # noqa: E402
from feeds_converted import CONVERTED  # noqa: E402
from feeds_parquet import FROM_PARQUET  # noqa: E402

CANDIDATES = {each.name: each for each in (*FROM_PARQUET, *CONVERTED)}
WARM_BATCHES = 20
OWN_WORK = 0.02
"""Seconds of the consumer's own work a batch, where waits are measured."""
WAITS = 100
AFTER_STATE = 3


def main() -> None:
    """Run one phase, and print what was measured as JSON."""
    name, place_file, phase, seconds = sys.argv[1:]
    given = json.loads(Path(place_file).read_text())
    place = Place(
        parquet=tuple(given["parquet"]),
        flat=Path(given["flat"]),
        work=Path(given["work"]),
        num_steps=given["num_steps"],
    )
    candidate = CANDIDATES[name]
    phases = {"convert": _convert, "run": _run, "resume": _resume}
    print(json.dumps(phases[phase](candidate, place, float(seconds))), flush=True)


def _convert(candidate: Candidate, place: Place, _: float) -> dict[str, Any]:
    assert candidate.convert is not None
    candidate.convert(place)
    size = sum(file.stat().st_size for file in place.work.rglob("*") if file.is_file())
    return {"seconds": time.perf_counter() - begun, "bytes": size}


def _run(candidate: Candidate, place: Place, seconds: float) -> dict[str, Any]:
    feed = candidate.open(place)
    batches = feed.batches()
    _take(batches, 1)
    start = time.perf_counter() - begun
    _take(batches, WARM_BATCHES)
    cpu, wall = _cpu_seconds(), time.perf_counter()
    count = 0
    while time.perf_counter() - wall < seconds and count < place.num_steps // 2:
        count += len(_take(batches, 1))
    wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
    tokens = count * BATCH_SIZE * LENGTH
    found = {
        "start_seconds": start,
        "tokens_per_second": tokens / wall,
        "cpu_seconds_per_1e9": 1e9 * cpu / tokens,
        "waits": _waits(batches),
    }
    _leave_state(feed, batches, place)
    return found


def _waits(batches: Iterator[Any]) -> dict[str, float]:
    waits = []
    for _ in range(WAITS):
        time.sleep(OWN_WORK)
        begin = time.perf_counter()
        next(batches)
        waits.append(time.perf_counter() - begin)
    waits.sort()
    return {"p50": waits[WAITS // 2], "p99": waits[-(WAITS // 100) - 1]}


def _leave_state(feed: Feed, batches: Iterator[Any], place: Place) -> None:
    state = pickle.dumps(feed.state())
    next_ones = _take(batches, AFTER_STATE)
    (place.work / "state").write_bytes(pickle.dumps((state, next_ones)))


def _resume(candidate: Candidate, place: Place, _: float) -> dict[str, Any]:
    state, expected = pickle.loads((place.work / "state").read_bytes())  # noqa: S301
    loading = time.perf_counter()
    feed = candidate.open(place)
    feed.load(pickle.loads(state))  # noqa: S301 - its own
    batches = feed.batches()
    found = _take(batches, 1)
    resumed = time.perf_counter() - loading
    found += _take(batches, AFTER_STATE - 1)
    return {
        "resume_seconds": resumed,
        "same_batches": found == expected,
        "state_bytes": len(state),
    }


def _take(batches: Iterator[Any], count: int) -> list[bytes]:
    """Digests of the first token of each sample: enough to tell batches apart."""
    digests = []
    for _ in range(count):
        batch = next(batches)
        assert tuple(batch.shape) == (BATCH_SIZE, LENGTH), batch.shape
        digests.append(blake2b(batch[:, :64].numpy().tobytes(), digest_size=8).digest())
    return digests


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
