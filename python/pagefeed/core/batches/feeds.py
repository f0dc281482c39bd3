"""Feeds make a batch of the sequences of a step, with columns besides the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, check_vocab_size
from pagefeed.core.batches.engines import ProcessEngine
from pagefeed.core.batches.fields import Fields
from pagefeed.core.batches.formats import Batch, as_numpy, converted, make_converter
from pagefeed.core.batches.plan import BatchPlan, plan_batches
from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.dataset import Dataset, known_vocab_size
from pagefeed.core.run import Run, Sequences
from pagefeed.core.sequences import AnyIndex, SequenceLayout
from pagefeed.core.wiring import make_metadata
from pagefeed.errors import InvalidArgumentError


@dataclass(frozen=True)
class ColumnsBeside:
    """The aligned columns of a batch. This base class has none.

    Args:
        columns: The aligned columns in a batch.
    """

    columns: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return ()

    def check(self, fields: Fields) -> None:
        """Refuse settings of fields whose values are read from the files."""

    def check_eos(self, layout: SequenceLayout, datasets: Sequence[Dataset]) -> None:  # noqa: ARG002
        """Raise an error for ``learn_eos=False`` if labels are made from the tokens.

        Raises:
            InvalidArgumentError: Then.
        """
        if layout.learn_eos is False:
            raise InvalidArgumentError(
                "learn_eos=False needs data that have labels: leave it out"
            )

    def settings(self, fields: Fields, layout: SequenceLayout) -> _core.BesideConfig:  # noqa: ARG002
        """Return the engine's settings of these columns and of fields."""
        return {"fields": fields.settings}

    def arrays(self, memory: _core.Buffer, shape: tuple[int, ...]) -> Batch:  # noqa: ARG002
        """Return the columns of a batch by name, as views of its memory."""
        return {}

    def typed(self, batch: Batch) -> Batch:
        """View tensors of raw bits in the type that the bits encode."""
        return batch


BORDERS = "cu_seqlens_padded"


class BatchEngine(Protocol):
    """Executes plans in order, ahead of the consumer."""

    @property
    def submit(self) -> Callable[[BatchPlan], None]:
        """Append the batches of a plan; returns at once."""

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""

    def next_batch(self) -> Any:
        """Wait for the next batch and return it; Ctrl-C ends the wait."""

    def clear(self, *, keep_pages: bool = False) -> None:
        """Discard all batches that were submitted and not taken.

        With ``keep_pages`` their pages stay in memory as long as there is room.
        """

    def keep_pages(self) -> None:
        """Keep pages of rows after their last use, as long as there is room."""

    def stats(self) -> dict[str, Any]:
        """Return counters since the start."""

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for, see :meth:`AnyView.awaited`."""


class Feed(ABC):
    """Plans batches for an engine, and turns its output into batches."""

    _engine: ProcessEngine[Any]
    sources: Sequence[Any] = ()
    """The columns whose pages the engine numbers, all in turn."""

    def engine(self) -> BatchEngine:
        """Return this process's engine: threads do not survive a fork."""
        return self._engine.get()

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for; nothing before the engine started."""
        engine = self._engine.started
        return {} if engine is None else {**engine.awaited()}

    def close(self) -> None:
        """End this process's engine, and all threads."""
        self._engine.close()

    @abstractmethod
    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan whole batches of ``sequences``, in their order.

        Args:
            sequences: [batches, rows]; ``NO_SEQUENCE`` leaves a row of padding.
        """

    @abstractmethod
    def batch(self, delivered: Any) -> Batch:
        """Make a batch of what the engine delivered."""

    def dataset_ids(
        self,
        made: Batch,  # noqa: ARG002 - its rows are its sequences
        of_sequences: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.int32]:
        """Return the dataset of each row of a batch."""
        return of_sequences


class EngineFeed(Feed):
    """A feed with an engine of the data plane.

    Args:
        settings: The settings of the loader.
        run: The run to deliver.

    Raises:
        InvalidArgumentError: If batches cannot hold the tokens or fields that the
            settings ask for.
    """

    _engine: ProcessEngine[_core.Engine]

    def __init__(self, settings: LoaderSettings, run: Run) -> None:
        self._settings, fields = settings, settings.fields
        self._vocab_size = settings.vocab_size
        if self._vocab_size is None and settings.uses_recorded:
            self._vocab_size = known_vocab_size(run.datasets)
        aligned = [column for data in run.datasets for column in data.aligned]
        fill = settings.dataset.fill
        self._aligned: ColumnsBeside = (
            aligned[0].beside(run.datasets, fill) if aligned else ColumnsBeside()
        )
        self._aligned.check(fields)
        self._metadata = None
        if "metadata" in fields.names:
            self._metadata = make_metadata(run.datasets, fields)
        self._convert = make_converter(settings.format, pin_memory=settings.pin_memory)
        for infill in filter(None, (dataset.infilling for dataset in run.datasets)):
            check_vocab_size(settings.vocab_size, **infill.named_tokens)
            for name, token in infill.named_tokens.items():
                if token > np.iinfo(settings.dtype).max:
                    raise InvalidArgumentError(
                        f"{name}={token} does not fit tokens of dtype="
                        f"{settings.dtype!r}: ask for a wider one"
                    )
        if settings.context_parallel is not None:
            lengths = {run.index.length}
            if settings.lengths is not None:
                lengths |= {length for _, length in settings.lengths.stages}
            for length in sorted(lengths):
                settings.context_parallel.check(settings.sequences, length)

    def _handed_out(
        self, batch: Batch, length: int, borders: Int64Array | None = None
    ) -> Batch:
        """Return this process's share of a batch, converted."""
        group = self._settings.context_parallel
        if group is not None:
            batch = group.part(batch, length, borders)
        return converted(batch, self._convert)


class TokenFeed(EngineFeed):
    """Feeds batches of tokens, all of one length."""

    def __init__(self, settings: LoaderSettings, run: Run) -> None:
        super().__init__(settings, run)
        layout = run.index.layout
        self._aligned.check_eos(layout, run.datasets)
        check_vocab_size(settings.vocab_size, eos=layout.eos, bos=layout.bos)
        parts, self._fields = run.index.parts, settings.fields
        self._index: AnyIndex = parts[0] if len(parts) == 1 else run.index
        self._cuts_documents = layout.multiple_of > 1 and (
            settings.context_parallel is not None
        )
        if self._cuts_documents:
            self._fields = settings.fields.also(BORDERS)
        self._length = run.index.length
        self.sources = [data.index for data in run.datasets]
        # Most feeds are plain: then each batch takes a short path.
        self._is_plain = not (
            self._aligned.columns
            or settings.context_parallel
            or "metadata" in settings.fields.names
        )
        # Bound to nothing that knows this feed: an engine ends with the last use of its
        # feed.
        config: _core.EngineConfig = {
            "tokens": [dataset.index.handle for dataset in run.datasets],
            "verify_checksums": [data.verify_checksums for data in run.datasets],
            "bos": layout.bos,
            "eos": layout.eos,
            "packing": layout.packing_rule,
            **self._aligned.settings(self._fields, layout),
            "metadata": None if self._metadata is None else self._metadata.asked,
            "batch_rows": settings.batch_size,
            "row_length": run.index.length,
            "num_threads": settings.num_threads,
            "memory": settings.engine_bytes,
            "dtype": settings.dtype,
            "padding": settings.padding,
            "vocab_size": self._vocab_size,
            **settings.rehearsal,  # type: ignore[typeddict-item]
        }
        self._engine = ProcessEngine(partial(_core.Engine, config))

    def plan(self, sequences: Sequences) -> BatchPlan:
        """Plan the token ranges of whole batches of ``sequences``, in their order."""
        rows = sequences.numbers.shape[1]
        return plan_batches(self._index, sequences.reshape(-1), rows)

    def batch(self, delivered: _core.Buffer) -> Batch:
        """Make a batch of its memory."""
        [length] = delivered.row_lengths or [self._length]
        shape = delivered.num_rows, length
        if self._is_plain:
            arrays = self._fields.arrays(delivered, shape, self._settings.dtype)
            is_numpy = self._convert is as_numpy
            return arrays if is_numpy else converted(arrays, self._convert)
        fields = self._settings.fields
        given = self._aligned.arrays(delivered, shape)
        arrays = self._fields.arrays(delivered, shape, self._settings.dtype, given)
        borders = arrays[BORDERS] if self._cuts_documents else None
        if self._fields is not fields:
            del arrays[BORDERS]
        share = self._handed_out(arrays | given, length, borders)
        batch = self._aligned.typed(share)
        if "metadata" in fields.names:
            batch["metadata"] = delivered.take_metadata()
        return batch
