"""pagefeed beside other loaders on the same tokens, each as its documentation says.

Every loader runs in processes of its own, in turn, for some rounds; medians are given.
Memory is what the machine cannot reclaim: anonymous and shared pages of the process
and all below it, shared ones by their share.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import data
import psutil
from feeds import BATCH_SIZE, LENGTH
from measure_feed import CANDIDATES

HERE = Path(__file__).resolve().parent
PATIENCE = 600


def measure(
    num_tokens: int, rounds: int, seconds: float, only: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Measure all loaders, or those with one of the words: a dict each, of medians."""
    names = [
        name for name in CANDIDATES if not only or any(word in name for word in only)
    ]
    made = data.make(num_tokens=num_tokens)
    with tempfile.TemporaryDirectory(dir=data.CACHE) as folder:
        works = {name: Path(folder) / str(at) for at, name in enumerate(names)}
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for name, work in works.items():
            work.mkdir()
            place = {
                "parquet": list(map(str, made.parquet)),
                "flat": str(made.flat),
                "work": str(work),
                "num_steps": made.num_tokens // (BATCH_SIZE * LENGTH),
            }
            (work / "place.json").write_text(json.dumps(place))
            if CANDIDATES[name].convert is not None:
                found[name].append({"convert": _phase(name, work, "convert", 0)})
        for number in range(rounds):
            for name, work in works.items():
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
                row = _phase(name, work, "run", seconds)
                row |= {} if "failed" in row else _phase(name, work, "resume", 0)
                found[name].append(row)
    return [_summary(name, rows) for name, rows in found.items()]


def _phase(name: str, work: Path, phase: str, seconds: float) -> dict[str, Any]:
    """Run a phase in its own process, and watch the memory of all below it."""
    command = [sys.executable, str(HERE / "measure_feed.py"), name]
    command += [str(work / "place.json"), phase, str(seconds)]
    log = work / f"{phase}.log"
    with log.open("w") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=work
        )
        peak, begin = 0, time.monotonic()
        while child.poll() is None and time.monotonic() - begin < PATIENCE:
            peak = max(peak, sum(_resident(child.pid)))
            time.sleep(0.2)
        child.kill()
        output, _ = child.communicate()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        last = log.read_text().strip().splitlines()[-1:]
        return {"failed": f"{phase}: {last[0] if last else 'no word'}"}
    return {**json.loads(lines[-1]), f"{phase}_peak_bytes": peak}


def _resident(pid: int) -> Iterator[int]:
    """Bytes of anonymous and shared memory of a process and all below it."""
    try:
        process = psutil.Process(pid)
        processes = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in processes:
        try:
            lines = Path(f"/proc/{one.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kept = [line for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem"))]
        yield sum(int(line.split()[1]) for line in kept) << 10


def _summary(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    converted = next((row["convert"] for row in rows if "convert" in row), None)
    runs = [row for row in rows if "tokens_per_second" in row]
    failed = [row["failed"] for row in rows if "failed" in row]
    summary: dict[str, Any] = {
        "loader": name,
        "cannot": CANDIDATES[name].cannot,
        "convert": converted,
        "failed": failed,
        "rounds": len(runs),
    }
    if not runs:
        return summary
    for key in (
        "start_seconds",
        "tokens_per_second",
        "cpu_seconds_per_1e9",
        "run_peak_bytes",
        "resume_seconds",
        "state_bytes",
    ):
        values = [row[key] for row in runs if key in row]
        summary[key] = statistics.median(values) if values else None
    for key in ("p50", "p99"):
        summary[f"wait_{key}"] = statistics.median(row["waits"][key] for row in runs)
    summary["same_batches"] = all(row.get("same_batches") for row in runs)
    return summary


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of a table in Markdown."""
    yield (
        "| loader | converted in | first batch | Mtok/s | CPU s / 1e9 | wait p50 / p99 "
        "| memory | resumed in | same batches |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        convert = row["convert"]
        made = (
            "-"
            if not convert or "seconds" not in convert
            else (f"{convert['seconds']:.0f} s, {convert['bytes'] / 1e9:.2f} GB")
        )
        if not row["rounds"]:
            yield f"| {row['loader']} | {made} | failed: {row['failed'][0]} |||||||"
            continue
        resumed = row["resume_seconds"]
        yield (
            f"| {row['loader']} | {made} | {row['start_seconds']:.2f} s "
            f"| {row['tokens_per_second'] / 1e6:.0f} "
            f"| {row['cpu_seconds_per_1e9']:.2f} "
            f"| {1e3 * row['wait_p50']:.1f} / {1e3 * row['wait_p99']:.1f} ms "
            f"| {row['run_peak_bytes'] / 2**20:.0f} MiB "
            f"| {'failed' if resumed is None else f'{resumed:.2f} s'} "
            f"| {'yes' if row['same_batches'] else 'no'} |"
        )
