"""Feeds: how the sequences of a step become a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pagefeed import _core
from pagefeed._base import Int64Array
from pagefeed.batches.engines import ProcessEngine
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import Batch, Converter
from pagefeed.dataset import Dataset
from pagefeed.run import BatchPlan, plan_batches
from pagefeed.sequences import AnyIndex, SequenceLayout

__all__ = ["Feed", "TokenFeed", "token_engine"]


class Feed(Protocol):
    """Plans batches for an engine, and makes batches of what it delivers."""

    def engine(self) -> _core.Engine:
        """Return this process's engine: threads do not survive a fork."""

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Return what the engine takes: whole batches of ``sequences``, in their order.

        Args:
            sequences: int64 [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of
                padding.
        """

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of what the engine delivered."""


class TokenFeed:
    """Feeds batches of tokens, all of one length.

    Args:
        index: What the sequences are.
        engine: Takes the plans.
        batch_size: Rows of a batch.
        dtype: Type of the tokens.
        fields: What a batch carries.
        convert: Makes arrays what is handed out.
    """

    def __init__(
        self,
        index: AnyIndex,
        engine: ProcessEngine,
        *,
        batch_size: int,
        dtype: str,
        fields: Fields,
        convert: Converter,
    ) -> None:
        self._index = index
        self._engine = engine
        self._shape = batch_size, index.length
        self._dtype = dtype
        self._fields = fields
        self._convert = convert

    def engine(self) -> _core.Engine:
        """Return this process's engine: threads do not survive a fork."""
        return self._engine.get()

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Return the token ranges of whole batches of ``sequences``, in their order."""
        return plan_batches(self._index, sequences, self._shape[0])

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of its memory."""
        made = self._fields.arrays(delivered, self._shape, self._dtype)
        return {
            name: self._convert(value) if isinstance(value, np.ndarray) else value
            for name, value in made.items()
        }


def token_engine(
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
) -> ProcessEngine:
    """Return the engine that makes batches of tokens.

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
    return ProcessEngine(
        lambda: _core.Engine(
            [dataset.index.handle for dataset in datasets],
            num_threads=num_threads,
            memory=memory,
            dtype=dtype,
            batch_rows=batch_rows,
            row_length=row_length,
            padding=padding,
            verify_checksums=[data.verify_checksums for data in datasets],
            bos=layout.bos,
            eos=layout.eos,
            packing=layout.packing,
            never_split=layout.never_split,
            **(fields or Fields()).settings,
            vocab_size=vocab_size,
        )
    )
