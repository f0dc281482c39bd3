"""One process of a machine does what the others wait for."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pagefeed.core._base.late import logger

_BEAT = 5.0
_SILENCE = 60.0
"""Seconds without a beat after which the others no longer wait."""
_PAUSE = 0.05

T = TypeVar("T")


class UnusableError(Exception):
    """A result of an earlier run cannot be used; the message says why."""


def made_once(
    path: Path, find: Callable[[], T | None], make: Callable[[str | None], T]
) -> T:
    """Return the result of ``find``; if there is none, one process makes it first.

    Other processes of the machine wait, and then find the result. The lock ends with
    the process that holds it. If that process is suspended for a minute, another one
    makes the result instead. So ``make`` must publish its result all at once.

    Args:
        path: The lock file, which exists while something is made.
        find: Returns an earlier result, or None; or raises an :class:`UnusableError`.
        make: Makes the result. Its argument says why the earlier result cannot be used;
            None if there is none.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made_once(Path(folder) / "lock", lambda: None, lambda _: 7)
        7
    """
    with suppress(UnusableError):
        kept = find()
        if kept is not None:
            return kept
    with _lease(path):
        why = None
        try:
            # Another process may have made it since, waited for or not.
            kept = find()
        except UnusableError as problem:
            kept, why = None, str(problem)
        return make(why) if kept is None else kept


@contextmanager
def _lease(path: Path) -> Iterator[None]:
    """Hold a lock, and keep it alive."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _taken(path)
    except OSError as problem:  # A folder that cannot be written has no locks.
        logger.debug("%s: no lock is held: %s", path, problem)
        lock = None
    if lock is None:
        yield
        return
    stop = threading.Event()
    beat = threading.Thread(
        target=_keep_alive, args=(path, stop), name="pagefeed-lease", daemon=True
    )
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        with suppress(OSError):
            path.unlink()
        os.close(lock)


def _taken(path: Path) -> int | None:
    """Take a lock, or wait for it; None if its holder has stopped."""
    has_waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if is_taken(path, descriptor):
            os.utime(descriptor)
            return descriptor
        silent = time.time() - os.fstat(descriptor).st_mtime
        os.close(descriptor)
        if not has_waited:
            logger.info("%s: another process makes this, and it is waited for", path)
            has_waited = True
        if silent > _SILENCE:
            logger.info(
                "%s: the process that makes this has not moved for %.0f s; this one "
                "goes on in its place",
                *(path, silent),
            )
            return None
        time.sleep(_PAUSE)


def _keep_alive(path: Path, stop: threading.Event) -> None:
    while not stop.wait(_BEAT):
        with suppress(OSError):
            os.utime(path)


def is_taken(path: str | Path, lock: int) -> bool:
    """Try to take a lock; return whether it was free and its file still exists.

    Args:
        path: The lock file.
        lock: Its descriptor, which keeps the lock until it is closed.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.stat(path), os.fstat(lock))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as problem:  # Some shared folders have no locks.
        logger.info("%s: no lock is held: %s", path, problem)
        return True
