"""Sequences of a dataset by number, for samplers and other loaders."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.core.batches import Batch, DType, Format
from pagefeed.core.dataset import Dataset, check_dataset
from pagefeed.core.loader import Loader
from pagefeed.core.run import Sequences
from pagefeed.core.sequences import Cut, check_sequences
from pagefeed.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["SequenceView"]


class SequenceView:
    """The sequences of a dataset in file order, as a map-style dataset.

    Use it where something else decides the order, such as a sampler of
    ``torch.utils.data.DataLoader`` or Grain, or to look at single sequences.
    ``__getitems__``, which batch samplers call, reads each page once for all its
    sequences. A :class:`Loader` is far faster, as it knows which sequences come next.

    Threads may share a view. It can be pickled, and used after a fork.

    Args:
        dataset: A dataset, such as :func:`pagefeed.parquet` returns.
        sequences: How to cut it, such as ``Windows(2048)``.
        memory: Bytes that the view may hold while it reads.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``.
        padding: Token that fills up short sequences.
        vocab_size: Rows of the embedding. A page with a token id that is not below this
            number is refused. By default the size that files of
            :func:`pagefeed.tokenize` record.
        num_threads: Threads that read. By default this rank's share of the CPUs.

    Raises:
        InvalidArgumentError: If an argument cannot be right.
        MissingDependencyError: If ``format="torch"`` and torch is not installed.

    Example:
        >>> view = SequenceView(dataset, Windows(2048))  # doctest: +SKIP
        >>> view[0]["input_ids"]  # doctest: +SKIP
        >>> torch.utils.data.DataLoader(  # doctest: +SKIP
        ...     view, batch_size=8, shuffle=True, num_workers=2
        ... )
    """

    def __init__(
        self,
        dataset: Dataset,
        sequences: Cut,
        *,
        memory: int | str = "256MiB",
        format: Format = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        check_dataset(dataset, "dataset")
        check_sequences(sequences)
        if sequences.delivers != "tokens":
            raise InvalidArgumentError(
                "a SequenceView gives sequences of tokens: for documents use a Loader, "
                "or Windows or Packed here"
            )
        self.dataset = dataset
        self.sequences = sequences
        loader = Loader(
            dataset,
            sequences=sequences,
            batch_size=1,
            shuffle=None,
            memory=memory,
            format=format,
            dtype=dtype,
            padding=padding,
            vocab_size=vocab_size,
            fields=("input_ids", "metadata")
            if dataset.span_columns
            else ("input_ids",),
            rank=0,
            world_size=1,
            num_threads=num_threads,
        )
        self._loader = loader

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self._loader.num_sequences

    def __getitem__(self, index: SupportsIndex) -> Batch:
        """Return one sequence: ``{"input_ids": [length]}``, aligned columns, and spans.

        Each column of spans is a list of dicts with ``start`` and ``end`` in the
        sequence, as in a document of the dataset.
        """
        return self.__getitems__([index])[0]

    def __getitems__(self, numbers: Sequence[SupportsIndex]) -> list[Batch]:
        """Return several sequences. Each of their pages is read once.

        Args:
            numbers: Their numbers in file order. Negative ones count from the end.

        Raises:
            OutOfRangeError: If there is no such sequence.
        """
        sequences = Sequences(self._checked(numbers)).reshape(-1, 1)
        batches = self._loader.view().rows(sequences)
        return [self._copy(batch) for batch in batches]

    def stats(self) -> dict[str, float]:
        """Return the counters of this process, see :meth:`Loader.stats`."""
        return self._loader.stats()

    def _copy(self, batch: Batch) -> Batch:
        """Return the arrays of a batch's one sequence, and its spans by column."""
        spans: dict[str, list[Any]] = {}
        if self.dataset.span_columns:
            arrow = require("pyarrow", extra="pyarrow", purpose="spans")
            table = arrow.table(batch.pop("metadata"))
            for name in self.dataset.span_columns:
                parts = table.column(name).to_pylist()
                spans[name] = [span for part in parts for span in part or ()]
        # Copied, since callers may keep more sequences than `memory` holds.
        return {n: copy.deepcopy(row) for n, [row] in batch.items()} | spans

    def _checked(self, numbers: Sequence[SupportsIndex]) -> Int64Array:
        sequences = np.array(
            [operator.index(index) for index in numbers], dtype=np.int64
        )
        wrong = sequences[(sequences < -len(self)) | (sequences >= len(self))]
        if len(wrong):
            raise OutOfRangeError(
                f"sequence {wrong[0]} is out of range: there are {len(self)}"
            )
        return np.where(sequences < 0, sequences + len(self), sequences)
