"""What a loader is made of: its settings, checked, and what they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pagefeed._base import check_vocab_size
from pagefeed.batches.aligned import AlignedColumns
from pagefeed.batches.context_parallel import ContextParallel
from pagefeed.batches.documents import Decode, DecodingFeed, DocumentFeed
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import Batch, make_converter
from pagefeed.batches.metadata import Metadata
from pagefeed.batches.token_batches import Feed, TokenFeed, token_engine
from pagefeed.dataset import Dataset, known_vocab_size
from pagefeed.mixture import Mixture
from pagefeed.order import Balance, Shuffle
from pagefeed.run import EpochSource, MixtureSource, Run, SequenceSource
from pagefeed.sequences import Documents, SequenceSetting

__all__ = ["LoaderSettings"]

PLAN_SHARE = 8
"""Plans take at most this part of the memory."""

ORDER_SHARE = 16
"""What orders read ahead takes at most this part of it."""

MAX_ORDER_BYTES = 32 << 20
"""And no more than is of any use."""


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """The arguments of a loader, each checked and of its final type."""

    dataset: Dataset | Mixture
    sequences: SequenceSetting
    batch_size: int
    seed: int
    shuffle: Shuffle
    balance: Balance | None
    context_parallel: ContextParallel | None
    memory: int
    format: Literal["numpy", "torch"]
    dtype: str
    padding: int
    vocab_size: int | None
    fields: Fields
    transform: Callable[[Batch], Any] | None
    decode: Decode | None
    pin_memory: bool
    epochs: int | None
    drop_last: bool
    rank: int
    world_size: int
    num_threads: int
    uses_recorded: bool = True
    """Whether ids are held against the vocabulary that files record."""

    def share(self, num_shares: int) -> LoaderSettings:
        """Return settings with a part of the memory and threads, without pinning."""
        return replace(
            self,
            pin_memory=False,
            memory=max(1, self.memory // num_shares),
            num_threads=max(1, self.num_threads // num_shares),
        )

    @property
    def plan_bytes(self) -> int:
        """Bytes that plans may take."""
        return self.memory // PLAN_SHARE

    @property
    def _order_bytes(self) -> int:
        return min(MAX_ORDER_BYTES, self.memory // ORDER_SHARE)

    def make_run(self) -> Run:
        """Return the run on this rank, see :meth:`make_source`."""
        return Run(
            source=self.make_source(),
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            epochs=self.epochs,
            drop_last=self.drop_last,
        )

    def make_source(self) -> SequenceSource:
        """Return what is delivered.

        Raises:
            InvalidArgumentError: If it holds no sequence.
        """
        if not isinstance(self.dataset, Mixture):
            return EpochSource(
                self.dataset,
                sequences=self.sequences,
                seed=self.seed,
                shuffle=self.shuffle,
                epochs=self.epochs,
                world_size=self.world_size,
                memory=self._order_bytes,
                balance=self.balance,
            )
        return MixtureSource(
            self.dataset,
            sequences=self.sequences,
            seed=self.seed,
            shuffle=self.shuffle,
            world_size=self.world_size,
            step_sequences=self.batch_size * self.world_size,
            memory=self._order_bytes,
            balance=self.balance,
        )

    def make_feed(self, source: SequenceSource) -> Feed[Any]:
        """Return what makes batches of the sequences of a source.

        Raises:
            InvalidArgumentError: If its batches cannot hold what is asked for.
        """
        vocab_size = self.vocab_size
        if vocab_size is None and self.uses_recorded:
            vocab_size = known_vocab_size(source.datasets)
        aligned = AlignedColumns.of(source.datasets)
        aligned.check(self.fields)
        metadata = Metadata.of(source.datasets, self.fields)
        convert = make_converter(self.format, pin_memory=self.pin_memory)
        memory = self.memory - self._order_bytes
        if isinstance(self.sequences, Documents):
            feed = DocumentFeed(
                source.datasets,
                source.index,
                self.sequences,
                batch_rows=self.batch_size,
                num_threads=self.num_threads,
                memory=memory,
                dtype=self.dtype,
                padding=self.padding,
                fields=self.fields,
                aligned=aligned,
                metadata=metadata,
                has_padding=not self.drop_last,
                convert=convert,
                vocab_size=vocab_size,
            )
            if self.decode is None:
                return feed
            return DecodingFeed(
                feed,
                self.decode,
                batch_rows=self.batch_size,
                workers=self.num_threads,
            )
        layout = source.index.layout
        aligned.check_eos(layout, source.datasets)
        check_vocab_size(self.vocab_size, eos=layout.eos, bos=layout.bos)
        engine = token_engine(
            source.datasets,
            batch_rows=self.batch_size,
            row_length=source.index.length,
            num_threads=self.num_threads,
            memory=memory,
            dtype=self.dtype,
            padding=self.padding,
            layout=layout,
            aligned=aligned,
            fields=self.fields,
            metadata=metadata,
            vocab_size=vocab_size,
        )
        return TokenFeed(
            source.index,
            engine,
            batch_size=self.batch_size,
            dtype=self.dtype,
            fields=self.fields,
            aligned=aligned,
            convert=convert,
        )
