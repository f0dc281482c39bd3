"""One process of a machine does what the others wait for."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pagefeed.core._base import logger
from pagefeed.errors import InvalidArgumentError

SHARED_VARIABLE = "PAGEFEED_SHARED_CACHE"
"""Environment variable: 1 trusts all users who may write a cache folder."""
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
    check_owned(path.parent)
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


def check_owned(*paths: Path) -> None:
    """Refuse what another user owns or may write; root is trusted.

    Raises:
        InvalidArgumentError: Naming the path, and what to do.
    """
    if os.environ.get(SHARED_VARIABLE) == "1":
        return
    for path in paths:
        with suppress(OSError):
            state, others = os.stat(path), stat.S_IWOTH
            if state.st_gid != state.st_uid:  # No group of this user alone.
                others |= stat.S_IWGRP
            if state.st_uid in {os.geteuid(), 0} and not state.st_mode & others:
                continue
            raise InvalidArgumentError(
                f"{path} holds what is cached, and other users own or may write it, so "
                f"that they decide what is delivered: chmod go-w {path}, give a folder "
                f"of your own, or trust them all by {SHARED_VARIABLE}=1"
            )


def open_lock(path: str | Path) -> int:
    """Open a lock file, which is made if there is none; links are not followed.

    Raises:
        OSError: If it is a link, a pipe or anything else than a file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    lock = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return lock


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
        target=_keep_alive, args=(lock, stop), name="pagefeed-lease", daemon=True
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
    last_beat, heard = None, time.monotonic()
    while True:
        descriptor = open_lock(path)
        if is_taken(path, descriptor):
            os.utime(descriptor)
            return descriptor
        beat = os.fstat(descriptor).st_mtime_ns
        os.close(descriptor)
        if last_beat is None:
            logger.info("%s: this process waits for another one, which makes it", path)
        if beat != last_beat:
            last_beat, heard = beat, time.monotonic()
        silent = time.monotonic() - heard
        if silent > _SILENCE:
            logger.info(
                "%s: the process that makes this has not moved for %.0f s; this one "
                "continues in its place",
                *(path, silent),
            )
            return None
        time.sleep(_PAUSE)


def _keep_alive(lock: int, stop: threading.Event) -> None:
    while not stop.wait(_BEAT):
        with suppress(OSError):
            os.utime(lock)


def is_taken(path: str | Path, lock: int) -> bool:
    """Try to take a lock; return whether it was free and its file still exists.

    Args:
        path: The lock file.
        lock: Its descriptor, which keeps the lock until it is closed.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.lstat(path), os.fstat(lock))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as problem:  # Some shared folders have no locks.
        logger.info("%s: no lock is held: %s", path, problem)
        return True
