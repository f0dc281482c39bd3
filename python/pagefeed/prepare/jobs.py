"""Folders of jobs: the record of an unfinished job, and the manifest of a finished one.

A job writes what it needs to continue below ``_unfinished``, and the manifest last.
Until then readers of folders refuse the files that are there.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import count, takewhile
from typing import Any

from pagefeed.core._base import Work
from pagefeed.core.storage import MANIFEST, UNFINISHED
from pagefeed.errors import InvalidArgumentError
from pagefeed.parsing import json_value, parsing
from pagefeed.remote import OutputFolder

SECONDS_BETWEEN = 0.1
"""Seconds between two reports of progress."""
JOB = f"{UNFINISHED}/job.json"
"""File with the settings and the progress of an unfinished job."""


@contextmanager
def reading_job(folder: OutputFolder) -> Iterator[None]:
    """Turn errors in the records of a job into errors that name its folder.

    Raises:
        CorruptFileError: If the records are damaged.
    """
    what = f"no records of a job; remove {folder.path}, and start the job again"
    with parsing(folder.path_of(UNFINISHED), what):
        yield


def read_record(folder: OutputFolder, name: str) -> Any:
    """Return the record in a file of the folder; None if there is no file.

    Raises:
        CorruptFileError: If the file holds no record.
    """
    data = folder.read(name)
    if data is None:
        return None
    with reading_job(folder):
        return dict(json_value(data, folder.path_of(name)))


def write_record(folder: OutputFolder, name: str, content: object) -> None:
    """Write a file of a folder, for people to read too."""
    folder.write(name, _as_json(content))


def _as_json(content: object) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def note_job(folder: OutputFolder, job: Mapping[str, Any]) -> None:
    """Note that a job begins, unless it began before.

    If two jobs begin at the same time, the second is refused before it claims the
    folder, so that the first continues.

    Args:
        folder: The folder of the job.
        job: Its ``"settings"``, and what it must remember.

    Raises:
        InvalidArgumentError: If another job began there.
    """
    if not folder.replace(JOB, _as_json(job), None):
        noted = read_record(folder, JOB) or {}
        check_same_job(folder.path, noted.get("settings", {}), job["settings"])


def begun_job(folder: OutputFolder, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Check that a folder belongs to a job with these settings; change nothing.

    Returns:
        Its manifest, and what was noted when the job began; None if there is none.

    Raises:
        InvalidArgumentError: If the folder has another job or other files.
    """
    manifest, begun = read_record(folder, MANIFEST), read_record(folder, JOB)
    noted = (manifest or begun or {}).get("settings")
    if noted is not None:
        check_same_job(folder.path, noted, settings)
    others = {name for name in folder.names() if not name.startswith(".")}
    if noted is None and others - {UNFINISHED, MANIFEST}:
        raise InvalidArgumentError(
            f"{folder.path} holds other files: give an empty folder, or none yet"
        )
    return manifest, begun


def check_same_job(
    path: str, noted: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Check that a job was begun with the same settings.

    Args:
        path: The folder of the job.
        noted: Settings that the folder records.
        settings: Settings of this job.

    Raises:
        InvalidArgumentError: If they differ; the message lists the differences.
    """
    if not isinstance(noted, dict):
        noted = {}
    differing = [
        f"{name}: {noted.get(name)!r} there, {value!r} now"
        for name, value in settings.items()
        if noted.get(name) != value
    ]
    if differing:
        raise InvalidArgumentError(
            f"{path} is of another job ({'; '.join(differing)}): give another "
            "folder, or remove this one"
        )


def remove_drafts(folder: OutputFolder, names: str, *more: str) -> None:
    """Remove unfinished files of killed processes of this machine.

    Args:
        folder: The folder.
        names: Names of files of the job, as a regular expression.
        more: Folders inside it to clean, besides the one of unfinished work.
    """
    draft = re.compile(rf"\.({names})\..+")
    for below in ("", UNFINISHED, *more):
        folder.remove(filter(draft.fullmatch, folder.names(below)), below)


def finish_job(folder: OutputFolder, manifest: object) -> None:
    """Write the manifest of a job, and remove the records of its progress.

    Raises:
        FileAccessError: If another process took the folder over.
    """
    folder.check_claim()
    write_record(folder, MANIFEST, manifest)
    folder.remove(folder.names(UNFINISHED), UNFINISHED)


class ShardFolder:
    """The folder of a job that writes numbered shards; a killed job is continued.

    Args:
        folder: Where.
        settings: What must be the same when the job is continued.
        names: Names of the files of the job, as a regular expression.
    """

    def __init__(
        self, folder: OutputFolder, settings: Mapping[str, Any], names: str
    ) -> None:
        self.folder, self.settings, self._names = folder, dict(settings), names

    @contextmanager
    def claimed(self, lock: str) -> Iterator[None]:
        """Hold the folder for this job: note its settings, and remove old drafts.

        Raises:
            InvalidArgumentError: If another job began there.
            FileAccessError: If another process holds it.
        """
        note_job(self.folder, {"settings": self.settings})
        with self.folder.claimed(lock):
            remove_drafts(self.folder, self._names)
            yield

    def finished(self) -> dict[int, list[Any]]:
        """Return the records of the files of finished shards, by number."""
        sizes, done = self.folder.sizes(), {}
        for name in self.folder.names(UNFINISHED):
            if match := re.fullmatch(r"part-(\d+)\.json", name):
                record = read_record(self.folder, f"{UNFINISHED}/{name}")
                with reading_job(self.folder):
                    files = [*record["files"]]
                    if all(sizes.get(file["file"]) == file["bytes"] for file in files):
                        done[int(match[1])] = files  # Else something else wrote there.
        return done

    def finished_first(self) -> list[Any]:
        """Return the records of shards of one file, up to the first that is missing."""
        done = self.finished()
        return [done[shard][0] for shard in takewhile(done.get, count())]

    def finish_shard(self, shard: int, files: list[dict[str, Any]]) -> None:
        """Record a shard as finished; its files are complete."""
        name = f"{UNFINISHED}/part-{shard:05}.json"
        write_record(self.folder, name, {"files": files})

    def finish(self, kind: str, shards: list[Any], **about: Any) -> dict[str, Any]:
        """Write the manifest, and return it."""
        begin = {"format": kind, "settings": self.settings}
        manifest = begin | about | {"shards": shards}
        finish_job(self.folder, manifest)
        return manifest


class ThreadedWork(Work):
    """Work that many threads count, and the one that began it reports."""

    def __init__(self, what: str, *, total: int, unit: str) -> None:
        super().__init__(what, total=total, unit=unit)
        self._lock = threading.Lock()
        self.counted = 0
        """Units that were counted."""

    def __exit__(self, *error: object) -> None:
        """Report for the last time."""
        self.tell()
        super().__exit__(*error)

    def count(self, amount: int) -> None:
        """Count what was done; any thread may call it."""
        with self._lock:
            self.counted += amount

    def tell(self) -> None:
        """Report what was counted; only the thread that began the work calls it."""
        self.advance(self.counted - self._progress.done)


def run_threads(
    tasks: Iterable[Callable[[], object]],
    num_threads: int,
    stop: threading.Event,
    tick: Callable[[], object],
) -> None:
    """Run tasks on threads of this process, until all have ended.

    Args:
        tasks: The tasks.
        num_threads: Most that run at the same time.
        stop: Set after an error, so that the other tasks end.
        tick: Called ten times a second, by the calling thread.
    """
    pool = ThreadPoolExecutor(max(1, num_threads), "pagefeed-job")
    try:
        waiting = {pool.submit(task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, SECONDS_BETWEEN, FIRST_EXCEPTION)
            tick()
            for future in done:
                future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
