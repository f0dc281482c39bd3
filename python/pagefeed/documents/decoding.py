"""Columns that functions of the user's decode, row by row, ahead of the consumer."""

from __future__ import annotations

from typing import Any

from pagefeed.core._base import Int64Array
from pagefeed.core.batches import Batch, BatchPlan, Feed, LoaderSettings, ProcessEngine
from pagefeed.core.run import Run
from pagefeed.documents.ahead import AheadEngine, Decode, Decoding
from pagefeed.documents.document_feed import DocumentFeed
from pagefeed.errors import DataError, InvalidArgumentError

__all__ = ["DecodingFeed"]


class DecodingFeed(Feed):
    """A feed of documents whose columns are decoded.

    Args:
        settings: Of the loader.
        run: What it delivers.
        decode: The functions.

    Raises:
        InvalidArgumentError: If a column is not there.
    """

    def __init__(self, settings: LoaderSettings, run: Run, decode: Decode) -> None:
        self._feed = DocumentFeed(settings, run)
        unknown = [name for name in decode.functions if name not in self._feed.names]
        if unknown:
            raise InvalidArgumentError(
                f"decode names {unknown[0]!r}, and a batch has {list(self._feed.names)}"
                ": name columns of Documents(columns=[...])"
            )
        self._engine = ProcessEngine(
            lambda: AheadEngine(
                self._feed.engine(), decode, self._begun, settings.num_threads
            )
        )

    def close(self) -> None:
        """End this process's engines, and all threads."""
        super().close()
        self._feed.close()

    def plan(self, sequences: Int64Array) -> BatchPlan:
        """Plan batches in the order of ``sequences``."""
        return self._feed.plan(sequences)

    def batch(self, delivered: Decoding) -> Batch:
        """Return a batch, decoded.

        Raises:
            DataError: If a function raised; it names the row.
        """
        return delivered.finished(_failed)

    def _begun(self, delivered: Any) -> tuple[Batch, Batch, tuple[int, int]]:
        batch = self._feed.batch(delivered)
        return batch, batch, (0, 0)


def _failed(name: str, row: int, cause: Exception) -> DataError:
    error = DataError(
        f"decode of column {name!r} failed in row {row} of a batch: "
        f"{type(cause).__name__}: {cause}"
    )
    error.column, error.batch_row = name, row
    return error
