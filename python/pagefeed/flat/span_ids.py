"""The span of each token of a batch, as a number, and the payloads of spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pagefeed.core._base import check_callable, check_column, require
from pagefeed.errors import InvalidArgumentError


class SpanIds:
    """Adds the span of each token to batches; an argument ``transform`` of a loader.

    A batch gets two entries. ``span_ids``, int32 ``[batch_size, length]``, has the
    number of the span that each token is in, and -1 where it is in none. ``spans`` is a
    list with the payload of each span of the batch, by number. Where spans overlap, a
    token has the last of them. A span that two sequences share has a number in each.

    Args:
        column: Name of the spans, as ``spans=`` of the dataset has it.
        unpack: Makes an object of a payload, such as ``msgpack.unpackb``. Without it,
            payloads are as they come: bytes of a stream, dicts of fields of Parquet.

    Raises:
        InvalidArgumentError: If ``unpack`` cannot be called, or raises; if batches have
            no such spans, as they need ``fields=(..., "metadata")``.
        MissingDependencyError: If pyarrow is missing.

    Example:
        >>> loader = Loader(  # doctest: +SKIP
        ...     dataset,
        ...     sequences=Windows(2048),
        ...     batch_size=8,
        ...     fields=("input_ids", "metadata"),
        ...     transform=SpanIds(),
        ... )
    """

    def __init__(
        self, column: str = "spans", *, unpack: Callable[[Any], Any] | None = None
    ) -> None:
        self.column = check_column(column, "column")
        self.unpack = check_callable(unpack, "unpack")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with both entries."""
        arrow = require("pyarrow", extra="pyarrow", purpose="numbers of spans")
        table = batch.get("metadata")
        table = None if table is None else arrow.table(table)
        if table is None or self.column not in table.column_names:
            found = "no metadata" if table is None else f"{table.column_names}"
            raise InvalidArgumentError(
                f"SpanIds({self.column!r}) finds {found} in batches: name the spans of "
                "the dataset, and ask for fields=(..., 'metadata')"
            )
        tokens, lists = batch["input_ids"], table[self.column].combine_chunks()
        spans = lists.flatten()
        sequences = np.repeat(
            table["sequence"].to_numpy(), lists.value_lengths().fill_null(0).to_numpy()
        )
        names = [kind.name for kind in spans.type]
        start, end = (spans.flatten()[names.index(n)].to_numpy() for n in _PLACES)
        ids = np.full(tuple(tokens.shape), -1, dtype=np.int32)
        if len(spans) and end.max() > ids.shape[1]:
            raise InvalidArgumentError(
                "SpanIds needs whole sequences, and context_parallel= gives parts"
            )
        counts = end - start
        first = sequences * ids.shape[1] + start - (np.cumsum(counts) - counts)
        places = np.repeat(first, counts) + np.arange(counts.sum())
        ids.reshape(-1)[places] = np.repeat(np.arange(len(counts)), counts)
        payloads = (
            spans.flatten()[names.index("payload")] if "payload" in names else spans
        )
        if not isinstance(tokens, np.ndarray):
            ids = require(
                "torch", extra="torch", purpose="batches of torch"
            ).from_numpy(ids)
        objects = [self._object(n, one) for n, one in enumerate(payloads.to_pylist())]
        return {**batch, "span_ids": ids, "spans": objects}

    def _object(self, number: int, payload: Any) -> Any:
        if self.unpack is None:
            return payload
        try:
            return self.unpack(payload)
        except Exception as error:
            raise InvalidArgumentError(
                f"unpack raised {type(error).__name__} for span {number} of the batch: "
                "it takes what serialize= of the writer made"
            ) from error


_PLACES = ("start", "end")
