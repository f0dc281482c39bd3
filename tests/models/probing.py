"""Broken files are read in a process of their own, under limits of memory and time."""

import atexit
import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagefeed import errors

TESTS = Path(__file__).resolve().parents[1]
MEMORY = 3 << 30
TYPED = frozenset(
    name
    for name in errors.__all__
    if issubclass(getattr(errors, name), errors.PagefeedError)
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A column of a file to read, and the sound file that holds the right values."""

    path: Path
    column: str
    expected: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a job: an error's name, or "same", "different", "wrong length"..."""

    job: Job
    outcome: str
    message: str
    names_file: bool = True

    @property
    def typed(self) -> bool:
        return self.outcome in TYPED

    def __str__(self) -> str:
        job = f"{self.job.path.name}:{self.job.column[:50]!r} {self.job.options or ''}"
        return f"{job}: {self.outcome} {self.message}"


class Prober:
    """A process that reads broken files, started anew when one of them ends it."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  kept open
        atexit.register(self.close)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def started(self) -> "subprocess.Popen[str]":
        if self.process is None:
            python_path = filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])
            script = str(TESTS / "corrupt" / "probe.py")
            self.process = subprocess.Popen(
                [sys.executable, script, str(self.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(python_path)},
            )
        return self.process

    def run(self, job: Job, timeout: float) -> Outcome:
        process = self.started()
        assert process.stdin is not None
        assert process.stdout is not None
        line = {
            "path": str(job.path),
            "column": job.column,
            "expected": job.expected and str(job.expected),
            "options": job.options,
        }
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        printed = process.stdout.readline() if ready else ""
        if printed:
            return Outcome(job=job, **json.loads(printed))
        end = f"died ({process.wait()})" if ready else "hung"
        self.close()
        self.errors.seek(max(0, self.errors.tell() - 400))
        return Outcome(job=job, outcome=end, message=self.errors.read())


_prober = functools.cache(Prober)


def probe(
    jobs: list[Job], *, memory: int = MEMORY, timeout: float = 60
) -> list[Outcome]:
    """The outcome of each job; a crash and a hang are outcomes too.

    Args:
        jobs: What to read.
        memory: Bytes that reading may allocate beyond what an idle process holds.
        timeout: Seconds for each job.
    """
    return [_prober(memory).run(job, timeout) for job in jobs]


def assert_all(outcomes: list[Outcome], allowed: set[str] | frozenset[str]) -> None:
    """Each outcome is one of these, or a typed error that names its file."""
    wrong = [
        str(one)
        for one in outcomes
        if not (one.outcome in allowed or one.typed)
        or (one.typed and not one.names_file)
    ]
    counts = Counter(one.outcome for one in outcomes)
    assert not wrong, f"{len(wrong)} of {dict(counts)}:\n" + "\n".join(wrong[:20])
