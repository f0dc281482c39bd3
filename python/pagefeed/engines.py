"""One engine per process, started when it is first needed."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pagefeed import _core
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import ReloadWarning

__all__ = ["ProcessEngine"]

MIN_RELOADS = 256
"""Fewer are not worth a word."""

RELOAD_SHARE = 0.1
"""Share of all reads from which on there is a warning."""


class ProcessEngine:
    """The engine of whichever process asks: threads do not survive a fork.

    Args:
        dataset: What it reads.
        batch_rows: Rows of a batch.
        row_length: Tokens of a row.
        num_threads: Its threads.
        memory: Bytes it may hold.
        dtype: Type of the tokens.
        padding: Token where no segment writes.
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        *,
        batch_rows: int,
        row_length: int,
        num_threads: int,
        memory: int,
        dtype: str,
        padding: int,
    ) -> None:
        self._dataset = dataset
        self._batch_rows = batch_rows
        self._row_length = row_length
        self._num_threads = num_threads
        self._memory = memory
        self._dtype = dtype
        self._padding = padding
        self._has_warned = False
        self._started: tuple[int, _core.Engine, threading.Lock] | None = None

    def get(self) -> _core.Engine:
        """Return this process's engine."""
        return self._here()[1]

    @contextmanager
    def alone(self) -> Iterator[_core.Engine]:
        """Have this process's engine to one thread, for a plan and its batches."""
        _, engine, lock = self._here()
        with lock:
            yield engine

    def warn_of_reloads(self, stacklevel: int) -> None:
        """Warn, once, if memory is so short that many pages are read again."""
        if self._has_warned:
            return
        stats = self.get().stats()
        again, loads = stats["pages_reloaded"], stats["pages_loaded"]
        if again < MIN_RELOADS or again < RELOAD_SHARE * loads:
            return
        self._has_warned = True
        warnings.warn(
            f"{again:.0f} of {loads:.0f} reads of pages so far were of pages given up "
            f"for lack of memory: memory={self._memory} bytes is too little for this "
            "order; give more, or shuffle with a smaller window (`pagefeed plan` says "
            "how much is needed, and how often pages are read)",
            ReloadWarning,
            stacklevel=stacklevel + 1,
        )

    def _here(self) -> tuple[int, _core.Engine, threading.Lock]:
        # The lock, too: a fork does not take along the thread that may hold it.
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start(), threading.Lock()
        return self._started

    def _start(self) -> _core.Engine:
        return _core.Engine(
            [self._dataset.index.core],
            num_threads=self._num_threads,
            memory=self._memory,
            dtype=self._dtype,
            batch_rows=self._batch_rows,
            row_length=self._row_length,
            padding=self._padding,
            verify_checksums=self._dataset.verify_checksums,
        )
