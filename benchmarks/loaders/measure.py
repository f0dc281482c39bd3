"""Run all loaders on the same tokens, each in processes of its own, in turn.

Memory is what the machine cannot reclaim: anonymous and shared pages of the process and
all below it, shared ones by their share. Medians of the rounds are given.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import data
from loaders.orders import LENGTH, TOKENS, statistics_of
from loaders.protocol import Adapter
from loaders.quality import meetings, repeated

__all__ = ["Settings", "measure", "measure_orders"]

HOME = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is asked of every loader."""

    num_tokens: int
    length: int = 2048
    batch_size: int = 64
    workers: int = 2
    seed: int = 0
    rounds: int = 3
    seconds: float = 5
    """Longest time in which a rate is measured, at most half an epoch."""
    patience: float = 600
    """Seconds after which a loader has failed."""


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    file: Path
    adapter: Adapter
    work: Path


def measure(
    adapters: Mapping[Path, Mapping[str, Adapter]], settings: Settings
) -> list[dict[str, Any]]:
    """Measure the adapters of each file: a dict each, of medians."""
    made = data.make(
        num_tokens=settings.num_tokens, row_length=settings.length, numbered=True
    )
    groups = _groups(made)
    with tempfile.TemporaryDirectory(dir=data.CACHE) as folder:
        found: dict[str, list[dict[str, Any]]] = {}
        candidates: list[_Candidate] = []
        for file, named in adapters.items():
            for name, adapter in named.items():
                missing = [module for module in adapter.needs if not _is_here(module)]
                if missing:
                    failed = {"failed": f"not installed: {', '.join(missing)}"}
                    found[name] = [failed]
                    continue
                work = Path(folder) / str(len(candidates))
                candidate = _Candidate(file=file, adapter=adapter, work=work)
                candidates.append(candidate)
                found[name] = _prepare(candidate, made, settings)
        for number in range(settings.rounds):
            for each in candidates:
                name = each.adapter.name
                _say(f"round {number + 1} of {settings.rounds}: {name}")
                row = _phase(each, "run", settings)
                if "failed" not in row:
                    seen = np.load(each.work / "numbers.npy")
                    row |= {k: meetings(seen, group) for k, group in groups.items()}
                    row["repeated"] = repeated(seen)
                    row |= _phase(each, "resume", settings)
                found[name].append(row)
    limits = {n: a.limits for named in adapters.values() for n, a in named.items()}
    return [
        {"loader": name, "limits": limits[name]} | _summary(rows)
        for name, rows in found.items()
    ]


def measure_orders(
    adapters: Mapping[Path, Mapping[str, Adapter]], settings: Settings
) -> dict[str, dict[str, Any]]:
    """Hold the orders of the adapters of each file against random ones, by name."""
    made = data.make(num_tokens=TOKENS, row_length=LENGTH, numbered=True)
    groups, found = _groups(made), dict[str, dict[str, Any]]()
    settings = replace(settings, length=LENGTH)
    with tempfile.TemporaryDirectory(dir=data.CACHE) as folder:
        for file, named in adapters.items():
            for name, adapter in named.items():
                if not all(map(_is_here, adapter.needs)):
                    continue
                _say(f"orders: {name}")
                work = Path(folder) / str(len(found))
                candidate = _Candidate(file=file, adapter=adapter, work=work)
                _prepare(candidate, made, settings)
                found[name] = _phase(candidate, "orders", settings)
                if "failed" not in found[name]:
                    found[name] = statistics_of(work / "orders.npy", groups)
    return found


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _groups(made: data.Data) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """The page and the file of every sample."""
    import pagefeed as pf

    index = pf.PageIndex.build(list(map(str, made.parquet)), "input_ids")
    rows = np.arange(made.num_rows)
    return {
        "same_page": index.pages_of_rows(rows).astype(np.int64),
        "same_file": index.files_of_rows(rows).astype(np.int64),
    }


def _prepare(
    candidate: _Candidate, made: data.Data, settings: Settings
) -> list[dict[str, Any]]:
    candidate.work.mkdir()
    task = {
        "parquet": list(map(str, made.parquet)),
        "flat": str(made.flat),
        "work": str(candidate.work),
        "num_rows": made.num_rows,
        "length": settings.length,
        "batch_size": settings.batch_size,
        "seed": settings.seed,
        "workers": settings.workers,
        "seconds": settings.seconds,
    }
    (candidate.work / "task.json").write_text(json.dumps(task))
    if candidate.adapter.convert is None:
        return []
    _say(f"converting: {candidate.adapter.name}")
    long = replace(settings, patience=10 * settings.patience)
    return [{"convert": _phase(candidate, "convert", long)}]


def _phase(candidate: _Candidate, phase: str, settings: Settings) -> dict[str, Any]:
    """Run a phase in its own process, and watch the memory of all below it."""
    work = candidate.work
    command = [sys.executable, "-m", "loaders.child", str(candidate.file)]
    command += [candidate.adapter.name, str(work / "task.json"), phase]
    paths = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    log = work / f"{phase}.log"
    with log.open("w") as errors:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=work,
            env=environment,
        )
        peak, begin = 0, time.monotonic()
        while child.poll() is None and time.monotonic() - begin < settings.patience:
            peak = max(peak, sum(_resident(child.pid)))
            time.sleep(0.2)
        is_late = child.poll() is None
        child.kill()
        output, _ = child.communicate()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        last = log.read_text().strip().splitlines()[-1:]
        why = f"not done after {settings.patience:.0f} s" if is_late else "".join(last)
        return {"failed": f"{phase}: {why}"}
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


MEDIANS = (
    "start_seconds",
    "tokens_per_second",
    "cpu_seconds_per_1e9",
    "wait_p50",
    "wait_p99",
    "run_peak_bytes",
    "same_page",
    "same_file",
    "repeated",
    "resume_seconds",
    "seen_again",
    "state_bytes",
)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    runs = [row for row in rows if "tokens_per_second" in row]
    summary: dict[str, Any] = {
        "convert": next((row["convert"] for row in rows if "convert" in row), None),
        "failed": [row["failed"] for row in rows if "failed" in row],
        "rounds": len(runs),
    }
    if runs:
        for key in MEDIANS:
            values = [row[key] for row in runs if key in row]
            summary[key] = statistics.median(values) if values else None
        summary["same_batches"] = all(row.get("same_batches") for row in runs)
    return summary
