"""An engine that delivers tokens and images of the same batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagefeed import _core
from pagefeed.contract import Batch, BatchPlan
from pagefeed.core._base import Int64Array
from pagefeed.documents import KeyedPlan

BOTH = ("pages_loaded", "pages_reloaded", "bytes_read", "wait_seconds", "peak_bytes")
"""Counters that `stats` sums over both engines."""


Delivered = tuple[Batch, Int64Array]
"""A batch whose images are not decoded, and its documents as in :class:`ImagePlan`."""


@dataclass(frozen=True, kw_only=True)
class ImagePlan(KeyedPlan):
    """A plan of tokens, and one of the images in the same batches."""

    images: BatchPlan
    """One batch for each document with images."""
    documents: list[Int64Array]
    """For each batch, its documents with images in the order of their tokens: dataset,
    and row among all rows of its files: int64 [documents, 2]."""
    sequences: Int64Array
    """Numbers of the sequences, int64 [batches, rows]."""


class ImageEngine:
    """Runs an engine of tokens and one of images, and joins what they deliver.

    Args:
        tokens: The engine of tokens.
        images: The engine of images.
        make: Makes a batch of its tokens, the images of each document, the documents
            and the numbers of its sequences.
    """

    def __init__(
        self,
        tokens: Any,
        images: _core.Engine,
        make: Callable[[Any, list[_core.Buffer], Int64Array, Int64Array], Batch],
    ) -> None:
        self._tokens, self._images, self._make = tokens, images, make
        self._documents = deque[tuple[Int64Array, Int64Array]]()

    def submit(self, plan: ImagePlan) -> None:
        """Append the batches of a plan; returns at once."""
        self._tokens.submit(plan)
        if plan.images.num_batches:
            self._images.submit(plan.images)
        self._documents.extend(zip(plan.documents, plan.sequences, strict=True))

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""
        return int(self._tokens.plan_bytes + self._images.plan_bytes)

    @property
    def num_pending(self) -> int:
        """Batches that were submitted and not taken."""
        return len(self._documents)

    def next_batch(self) -> Delivered:
        """Return the next batch."""
        tokens = self._tokens.next_batch()
        documents, sequences = self._documents.popleft()
        images = [self._images.next_batch() for _ in documents]
        return self._make(tokens, images, documents, sequences), documents

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget all batches that were submitted and not taken."""
        self._documents.clear()
        self._tokens.clear(keep_pages=keep_pages)
        self._images.clear(keep_pages=keep_pages)

    def stats(self) -> dict[str, Any]:
        """Return counters since the start.

        Counters of pages and bytes are sums over both engines.
        """
        tokens, images = self._tokens.stats(), self._images.stats()
        return tokens | {name: tokens[name] + images[name] for name in BOTH}

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for, see :meth:`AnyView.awaited`."""
        tokens: dict[str, Any] = self._tokens.awaited()
        return tokens if tokens["num_pages"] else {**self._images.awaited()}

    def close(self) -> None:
        """End all threads."""
        self._tokens.close()
        self._images.close()
