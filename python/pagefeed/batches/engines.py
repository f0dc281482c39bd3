"""One engine per process, started when it is first needed."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pagefeed import _core
from pagefeed.batches.fields import Fields
from pagefeed.dataset import Dataset
from pagefeed.errors import ReloadWarning
from pagefeed.sequences import SequenceLayout

__all__ = ["ProcessEngine", "ReloadWatch"]

MIN_RELOADS = 256
"""Fewer are not worth a word."""

RELOAD_SHARE = 0.1
"""Share of all reads from which on there is a warning."""


class ProcessEngine:
    """The engine of whichever process asks: threads do not survive a fork.

    Args:
        datasets: What it reads: the pages of each are numbered on after the last's.
        batch_rows: Rows of a batch.
        row_length: Tokens of a row.
        num_threads: Its threads.
        memory: Bytes it may hold.
        dtype: Type of the tokens.
        padding: Token where no segment writes.
        layout: How rows become tokens of a batch.
        fields: What is made of the tokens.
        vocab_size: Token ids are below it; None for all that are not negative.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        *,
        batch_rows: int,
        row_length: int,
        num_threads: int,
        memory: int,
        dtype: str,
        padding: int,
        layout: SequenceLayout,
        fields: Fields | None = None,
        vocab_size: int | None = None,
    ) -> None:
        self._datasets = datasets
        self._batch_rows = batch_rows
        self._row_length = row_length
        self._num_threads = num_threads
        self._memory = memory
        self._dtype = dtype
        self._padding = padding
        self._layout = layout
        self._fields = fields or Fields()
        self._vocab_size = vocab_size
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

    def _here(self) -> tuple[int, _core.Engine, threading.Lock]:
        # The lock, too: a fork does not take along the thread that may hold it.
        if self._started is None or self._started[0] != os.getpid():
            self._started = os.getpid(), self._start(), threading.Lock()
        return self._started

    def _start(self) -> _core.Engine:
        return _core.Engine(
            [dataset.index.handle for dataset in self._datasets],
            num_threads=self._num_threads,
            memory=self._memory,
            dtype=self._dtype,
            batch_rows=self._batch_rows,
            row_length=self._row_length,
            padding=self._padding,
            verify_checksums=all(data.verify_checksums for data in self._datasets),
            bos=self._layout.bos,
            eos=self._layout.eos,
            packing=self._layout.packing,
            never_split=self._layout.never_split,
            **self._fields.settings,
            vocab_size=self._vocab_size,
        )


class ReloadWatch:
    """Warns, once, if memory is so short that many pages are read again.

    Args:
        memory: Bytes the engine may hold.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._has_warned = False

    def look(self, stats: Mapping[str, float], stacklevel: int) -> None:
        """Look at the engine's counters."""
        again, loads = stats["pages_reloaded"], stats["pages_loaded"]
        if self._has_warned or again < max(MIN_RELOADS, RELOAD_SHARE * loads):
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
