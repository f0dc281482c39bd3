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


class EndedError(Exception):
    """The process ended, or did not answer in time."""

    def __init__(self, how: str, said: str) -> None:
        super().__init__(f"{how}: {said}")
        self.how, self.said = how, said


class Prober:
    """A process that reads broken files, started anew when one of them ends it.

    Args:
        script: What it runs, with `memory` as its argument: it prints a line when it is
            ready, and one of JSON for each line of JSON.
        memory: Bytes it may take.
    """

    def __init__(self, script: Path, memory: int) -> None:
        self.command = [sys.executable, str(script), str(memory)]
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
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(python_path)},
            )
            assert self.process.stdout is not None
            assert self.process.stdout.readline() == "\n", "it did not start"
        return self.process

    def ask(self, job: dict[str, Any], timeout: float) -> Any:
        """The answer to a job; a crash and a hang are raised as `EndedError`."""
        process = self.started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        waiting = select.poll()  # select() ends at 1,024 open files.
        waiting.register(process.stdout, select.POLLIN)
        ready = waiting.poll(1000 * timeout)
        if ready and (printed := process.stdout.readline()):
            return json.loads(printed)
        how = f"died ({process.wait()})" if ready else "hung"
        self.close()
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 400))
        raise EndedError(how, self.errors.read())

    def run(self, job: Job, timeout: float) -> Outcome:
        line = {
            "path": str(job.path),
            "column": job.column,
            "expected": job.expected and str(job.expected),
            "options": job.options,
        }
        try:
            return Outcome(job=job, **self.ask(line, timeout))
        except EndedError as end:
            return Outcome(job=job, outcome=end.how, message=end.said)


_prober = functools.cache(functools.partial(Prober, TESTS / "corrupt" / "probe.py"))


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
    assert outcomes, "nothing was probed"
    wrong = [
        str(one)
        for one in outcomes
        if not (one.outcome in allowed or one.typed)
        or (one.typed and not one.names_file)
    ]
    counts = Counter(one.outcome for one in outcomes)
    assert not wrong, f"{len(wrong)} of {dict(counts)}:\n" + "\n".join(wrong[:20])
