"""Sequences of a dataset by number, for samplers and other loaders."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, check_vocab_size, require
from pagefeed.core.batches import (
    Batch,
    DType,
    Fields,
    Format,
    check_infills,
    check_padding,
    columns_beside,
    make_converter,
    parse_dtype,
    plan_batches,
    token_engine,
)
from pagefeed.core.dataset import Dataset, check_dataset, known_vocab_size
from pagefeed.core.ranks import resolve_memory, resolve_threads
from pagefeed.core.run import Sequences
from pagefeed.core.sequences import Cut, SequenceIndex, check_sequences
from pagefeed.core.wiring import make_metadata
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
        self.dataset = dataset
        self.sequences = sequences
        self.memory = resolve_memory(memory)
        self.format = format
        self.dtype = parse_dtype(dtype)
        self.padding = check_padding(padding, self.dtype, sequences)
        self.num_threads = resolve_threads(num_threads)
        self._convert = make_converter(format, pin_memory=False)
        if sequences.delivers != "tokens":
            raise InvalidArgumentError(
                "a SequenceView gives sequences of tokens: for documents use a Loader, "
                "or Windows or Packed here"
            )
        self._sequences: SequenceIndex = sequences.index(dataset.spans)
        layout = self._sequences.layout
        self.vocab_size = check_vocab_size(
            vocab_size, padding=self.padding, eos=layout.eos, bos=layout.bos
        )
        check_infills([dataset], self.dtype, self.vocab_size)
        self._aligned = columns_beside([dataset])
        told: dict[str, Any] = {}
        if dataset.span_columns:
            names = Fields(names=("input_ids", "metadata"))
            metadata = make_metadata([dataset], names)
            told["metadata"] = metadata and metadata.asked
        self._engine = token_engine(
            [dataset],
            layout,
            self._aligned,
            **told,
            batch_rows=1,
            row_length=self._sequences.length,
            num_threads=self.num_threads,
            memory=self.memory,
            dtype=self.dtype,
            padding=self.padding,
            vocab_size=self.vocab_size or known_vocab_size([dataset]),
        )

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self._sequences.num_sequences

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
        sequences = Sequences(self._checked(numbers))
        plan = plan_batches(self._sequences, sequences, 1)
        with self._engine.alone() as engine:
            engine.submit(plan)
            try:
                # Copied: a caller may keep more of them than fit in the memory.
                rows = [self._copy(engine.next_batch()) for _ in numbers]
            finally:
                engine.clear()
        return [
            self._aligned.typed(
                {name: self._convert(values) for name, values in row.items()}
            )
            | spans
            for row, spans in rows
        ]

    def stats(self) -> dict[str, float]:
        """Return the counters of this process, see :meth:`Loader.stats`."""
        return self._engine.get().stats()

    def __reduce__(self) -> tuple[Callable[[], SequenceView], tuple[()]]:
        """Pickle as configuration: threads and files stay here."""
        names = ("memory", "format", "dtype", "padding", "vocab_size", "num_threads")
        settings = {name: getattr(self, name) for name in names}
        return partial(SequenceView, self.dataset, self.sequences, **settings), ()

    def _copy(
        self, buffer: _core.Buffer
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, list[Any]]]:
        """Return the arrays of a sequence, and its spans by column."""
        length = self._sequences.length
        tokens = np.frombuffer(memoryview(buffer), dtype=self.dtype, count=length)
        row = {"input_ids": tokens} | self._aligned.arrays(buffer, (length,))
        spans: dict[str, list[Any]] = {}
        if self.dataset.span_columns:
            arrow = require("pyarrow", extra="pyarrow", purpose="spans")
            table = arrow.table(buffer.take_metadata())
            for name in self.dataset.span_columns:
                parts = table.column(name).to_pylist()
                spans[name] = [span for part in parts for span in part or ()]
        return {name: values.copy() for name, values in row.items()}, spans

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
