"""The engines of tokens and of images, one step after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pagefeed import _core
from pagefeed.contract import Batch, BatchPlan
from pagefeed.core._base import Int64Array

__all__ = ["Delivered", "Documents", "ImageEngine", "ImagePlan"]

BOTH = ("pages_loaded", "pages_reloaded", "bytes_read", "wait_seconds", "peak_bytes")
"""Counters that are summed over both engines."""


class Documents(NamedTuple):
    """Documents with images, in the order of their tokens; int64 [documents] each."""

    place: Int64Array
    """Which of the planned sequences each is in."""
    part: Int64Array
    """Number of its dataset."""
    row: Int64Array
    """Its row among all rows of the files."""
    page: Int64Array
    """The page of its images, numbered through."""
    of_page: Int64Array
    """Its row in that page."""


@dataclass(frozen=True, kw_only=True)
class ImagePlan(BatchPlan):
    """A plan of tokens, and one of the images of the same batches, a document each."""

    images: BatchPlan
    documents: list[Documents]
    """Of each batch."""


class Delivered(NamedTuple):
    """A batch whose images are not decoded, and its documents."""

    batch: Batch
    documents: Documents


class ImageEngine:
    """Executes plans of tokens and images in step.

    Args:
        tokens: The engine of tokens.
        images: The engine of images.
        make: Makes a batch of what both deliver, and of its documents.
    """

    def __init__(
        self,
        tokens: Any,
        images: _core.Engine,
        make: Callable[[Any, list[_core.Buffer], Documents], Batch],
    ) -> None:
        self._tokens, self._images, self._make = tokens, images, make
        self._documents = deque[Documents]()

    def submit(self, plan: ImagePlan) -> None:
        """Append the batches of a plan; returns at once."""
        self._tokens.submit(plan)
        if plan.images.num_batches:
            self._images.submit(plan.images)
        self._documents.extend(plan.documents)

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
        tokens, documents = self._tokens.next_batch(), self._documents.popleft()
        images = [self._images.next_batch() for _ in documents.row]
        return Delivered(self._make(tokens, images, documents), documents)

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget all batches that were submitted and not taken."""
        self._documents.clear()
        self._tokens.clear(keep_pages=keep_pages)
        self._images.clear(keep_pages=keep_pages)

    def stats(self) -> dict[str, Any]:
        """Return counters since the start; those of pages and bytes count both."""
        tokens, images = self._tokens.stats(), self._images.stats()
        return tokens | {name: tokens[name] + images[name] for name in BOTH}

    def close(self) -> None:
        """End all threads."""
        self._tokens.close()
        self._images.close()
