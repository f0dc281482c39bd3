"""Feeds: how the sequences of a step become a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from pagefeed import _core
from pagefeed._base import Int64Array
from pagefeed.batches.aligned import AlignedColumns
from pagefeed.batches.engines import ProcessEngine
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import Batch, Converter
from pagefeed.batches.metadata import Metadata
from pagefeed.dataset import Dataset
from pagefeed.run import BatchPlan, plan_batches
from pagefeed.sequences import AnyIndex, SequenceLayout

__all__ = ["BatchEngine", "Feed", "Out", "TokenFeed", "token_engine"]


Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)


class BatchEngine(Protocol[Out_co]):
    """What executes plans, in order and ahead of the consumer."""

    @property
    def submit(self) -> Callable[..., None]:
        """Append the batches of a plan; returns at once."""

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""

    def next_batch(self) -> Out_co:
        """Return the next batch; waits for it, serving Ctrl-C."""

    def clear(self) -> None:
        """Forget all batches that were submitted and not taken."""

    def stats(self) -> dict[str, Any]:
        """Return counters since the start."""


class Feed(Protocol[Out]):
    """Plans batches for an engine, and makes batches of what it delivers."""

    def engine(self) -> BatchEngine[Out]:
        """Return this process's engine: threads do not survive a fork."""

    def plan(self, sequences: Int64Array) -> tuple[Any, ...]:
        """Return what the engine takes: whole batches of ``sequences``, in their order.

        Args:
            sequences: int64 [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of
                padding.
        """

    def batch(self, delivered: Out) -> Batch:
        """Make a batch of what the engine delivered."""

    def close(self) -> None:
        """End this process's engine, and all threads."""


class TokenFeed:
    """Feeds batches of tokens, all of one length.

    Args:
        index: What the sequences are.
        engine: Takes the plans.
        batch_size: Rows of a batch.
        dtype: Type of the tokens.
        fields: What a batch carries.
        aligned: Columns that come with the tokens.
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
        aligned: AlignedColumns,
        convert: Converter,
    ) -> None:
        self._aligned = aligned
        self._index = index
        self._engine = engine
        self._shape = batch_size, index.length
        self._dtype = dtype
        self._fields = fields
        self._convert = convert

    def engine(self) -> _core.Engine:
        """Return this process's engine: threads do not survive a fork."""
        return self._engine.get()

    def close(self) -> None:
        """End this process's engine."""
        self._engine.close()

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Return the token ranges of whole batches of ``sequences``, in their order."""
        return plan_batches(self._index, sequences, self._shape[0])

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of its memory."""
        given = self._aligned.arrays(delivered, self._shape)
        made = self._fields.arrays(delivered, self._shape, self._dtype, given)
        made |= given
        batch = {
            name: self._convert(value) if isinstance(value, np.ndarray) else value
            for name, value in made.items()
        }
        if "metadata" in self._fields.names:
            batch["metadata"] = delivered.take_metadata()
        return batch


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
    aligned: AlignedColumns,
    fields: Fields | None = None,
    metadata: Metadata | None = None,
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
        aligned: Columns that come with the tokens.
        fields: What is made of the tokens.
        metadata: What is told of the documents.
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
            **aligned.settings(fields or Fields(), layout),
            vocab_size=vocab_size,
            metadata=None if metadata is None else metadata.asked,
        )
    )
