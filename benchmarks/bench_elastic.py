"""What a fleet of torchft trains on while a replica dies: its sampler beside our feed.

    .venv/trainers/torchft/bin/python benchmarks/bench_elastic.py
    ... --keep benchmarks/elastic.json  # of which the picture of the docs is drawn

Three replicas on gloo train on 3,000 numbered sequences, 30 a step. One is killed at
step 30, and in another run started again at step 45. Each writes down which sequences
it trains on before gradients are added up. Those of commits are counted.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

SEQUENCES, STEP, LENGTH, REPLICAS = 3000, 30, 8, 3
KILL_AT, START_AT, VICTIM = 30, 45, 1
PAUSE = 0.1
"""Seconds of a step."""
CASES = {
    "nobody dies": (None, None),
    "one is killed at step 30": (KILL_AT, None),
    "killed, and started again at step 45": (KILL_AT, START_AT),
}


class Given(NamedTuple):
    """What a replica had in a step."""

    step: int
    quorum: int
    rank: int | None
    ids: list[int]
    counts: bool
    """Whether its gradients were not left out."""


def write_data(folder: Path) -> None:
    """Write sequences whose tokens are their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [[number] * LENGTH for number in range(SEQUENCES)]
    column = pa.array(rows, pa.list_(pa.int32()))
    path = folder / "0.parquet"
    pq.write_table(pa.table({"input_ids": column}), path, row_group_size=100)


# A replica.


def from_sampler(manager: Any, replica: int) -> Iterator[list[int]]:
    """Give the numbers of torchft's sampler, as its example does: fixed shares."""
    from torch.utils.data import DataLoader
    from torchft import DistributedSampler

    numbers: Any = range(SEQUENCES)
    sampler = DistributedSampler(
        numbers,
        replica_rank=replica,
        num_replica_groups=REPLICAS,
        group_rank=0,
        num_replicas=1,
        shuffle=True,
    )
    for batch in DataLoader(numbers, sampler=sampler, batch_size=STEP // REPLICAS):
        manager.start_quorum()
        yield batch.tolist()


def from_feed(manager: Any, folder: Path) -> Iterator[list[int]]:
    """Give the numbers of the steps of the quorum."""
    import pagefeed as pf
    from pagefeed.integrations.torchft import QuorumFeed

    loader = pf.Loader(
        pf.parquet(folder / "data", column="input_ids"),
        sequences=pf.Windows(LENGTH),
        fields=("input_ids",),
        global_batch_size=STEP,
        seed=1,
        rank=0,
        world_size=1,
        num_threads=1,
    )
    feed = QuorumFeed(manager, loader)
    while manager.current_step() < SEQUENCES // STEP:
        manager.start_quorum()
        batch = feed.batch()
        yield [] if batch is None else batch["input_ids"][:, 0].tolist()


def replica(folder: Path, kind: str, number: int, start: str) -> None:
    """Train when the file ``start`` is there, until the data are at an end."""
    import torch
    from torchft import Manager, ProcessGroupGloo

    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / start).exists():
        time.sleep(0.02)
    weights = torch.zeros(4)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=4)),
        min_replica_size=2,
        init_sync=kind == "sampler",  # Its default; a QuorumFeed asks for the other.
        load_state_dict=lambda state: weights.copy_(state["weights"]),
        state_dict=lambda: {"weights": weights.clone()},
        replica_id=f"replica{number}",
        timeout=timedelta(seconds=4),
        quorum_timeout=timedelta(seconds=20),
    )
    given = (
        from_sampler(manager, number)
        if kind == "sampler"
        else from_feed(manager, folder)
    )
    log = (folder / f"{number}-{os.getpid()}.jsonl").open("a")
    for ids in given:
        rank = manager.participating_rank()  # Waits for the quorum.
        step, quorum = manager.current_step(), manager._quorum_id  # noqa: SLF001
        line = Given(step, quorum, rank, ids, manager.is_participating())
        print(json.dumps(line._asdict()), file=log, flush=True)
        time.sleep(PAUSE)
        manager.allreduce(torch.ones(4)).wait()
        if manager.should_commit():
            line_done = {"committed": [step, quorum]}
            print(json.dumps(line_done), file=log, flush=True)
    (folder / f"end-{os.getpid()}").touch()
    manager.shutdown(wait=False)
    os._exit(0)  # The lighthouse may be gone.


# The fleet.


def fleet(folder: Path, kind: str, kill_at: int | None, start_at: int | None) -> None:
    """Let replicas train, kill one of them, and start it again."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(
        bind="[::]:0", min_replicas=2, join_timeout_ms=2000, heartbeat_timeout_ms=1500
    )
    stores, environment = list[Any](), dict(os.environ)
    environment |= {"TORCHFT_LIGHTHOUSE": lighthouse.address(), "OMP_NUM_THREADS": "1"}
    environment |= {"MASTER_ADDR": "localhost", "RANK": "0", "WORLD_SIZE": "1"}
    output = (folder / "output.txt").open("a")

    def start(number: int, when: str) -> subprocess.Popen[bytes]:
        stores.append(TCPStore("localhost", 0, is_master=True))
        argv = [sys.executable, __file__, "--replica", kind, str(number), when]
        return subprocess.Popen(
            [*argv, str(folder)],
            env=environment | {"MASTER_PORT": str(stores[-1].port)},
            stdout=output,
            stderr=output,
        )

    running = [start(number, "begin") for number in range(REPLICAS)]
    if start_at is not None:
        running.append(start(VICTIM, "again"))
    try:
        wait(folder, lambda: len(list(folder.glob("ready-*"))) == len(running))
        (folder / "begin").touch()
        if kill_at is not None:
            wait(folder, lambda: last_step(folder) >= kill_at)
            running[VICTIM].send_signal(signal.SIGKILL)
        if start_at is not None:
            wait(folder, lambda: last_step(folder) >= start_at)
            (folder / "again").touch()
        # With the sampler the last one waits for a quorum that never comes.
        wait(folder, lambda: any(folder.glob("end-*")))
        time.sleep(3)
    finally:
        for process in running:
            process.kill()
            process.wait()
        lighthouse.shutdown()
        output.close()


def wait(folder: Path, until: Any) -> None:
    """Wait for what a fleet does."""
    end = time.monotonic() + 240
    while not until():
        if time.monotonic() > end:
            raise TimeoutError((folder / "output.txt").read_text()[-3000:])
        time.sleep(0.02)


def lines(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what replicas wrote down, each with the number of its replica."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            if line.endswith("}"):
                yield int(path.name.partition("-")[0]), json.loads(line)


def last_step(folder: Path) -> int:
    """Return the last step that was committed."""
    done = [line["committed"][0] for _, line in lines(folder) if "committed" in line]
    return max(done, default=-1)


def trained(folder: Path) -> dict[int, dict[int, list[int]]]:
    """Return the sequences of each committed step, by replica."""
    told = list(lines(folder))
    done = {tuple(line["committed"]) for _, line in told if "committed" in line}
    found: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for number, line in told:
        if "committed" in line:
            continue
        given = Given(**line)
        if given.counts and (given.step, given.quorum) in done:
            found[given.step][number] = given.ids
    return dict(sorted(found.items()))


def run(kind: str, case: str) -> tuple[dict[int, dict[int, list[int]]], int, int]:
    """Return what a fleet trained on; how much it never did, and how much again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        write_data(folder / "data")
        fleet(folder, kind, *CASES[case])
        found = trained(folder)
    counts = Counter(
        i for parts in found.values() for ids in parts.values() for i in ids
    )
    return found, SEQUENCES - len(counts), counts.total() - len(counts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--keep", type=Path, help="write what the last fleet trained on"
    )
    parser.add_argument("--replica", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replica:
        kind, number, start, folder = options.replica
        replica(Path(folder), kind, int(number), start)
        return
    print("| of 3,000 sequences | sampler: never | twice | QuorumFeed: never | twice |")
    print("| --- | --- | --- | --- | --- |")
    for case in CASES:
        figures = []
        for kind in ("sampler", "feed"):
            found, never, twice = run(kind, case)
            figures += [f"{never:,}", f"{twice:,}"]
        print(f"| {case} | {' | '.join(figures)} |", flush=True)
    if options.keep:
        options.keep.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
