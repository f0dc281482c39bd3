"""The engines of tokens and of images, one step after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from pagefeed import _core
from pagefeed.contract import Batch, BatchPlan
from pagefeed.core._base import Int64Array
from pagefeed.images.decoding import IMAGES_AHEAD, Decoder

__all__ = ["Begun", "Documents", "ImageEngine", "ImagePlan"]

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


class ImagePlan(NamedTuple):
    """Plans of the same batches: of tokens, and of images, a document each."""

    tokens: BatchPlan
    images: BatchPlan
    documents: list[Documents]
    """Of each batch."""


class Begun(NamedTuple):
    """A batch, of which images may still be decoded."""

    batch: Batch
    decoding: list[Future[Any]] | None


class ImageEngine:
    """Executes plans of tokens and images in step; begins to decode ahead.

    Args:
        tokens: The engine of tokens.
        images: The engine of images.
        make: Makes a batch of what both deliver, and of its documents.
        decoder: What decodes images.
    """

    def __init__(
        self,
        tokens: _core.Engine,
        images: _core.Engine,
        make: Callable[[Any, list[_core.Buffer], Documents], Batch],
        decoder: Decoder | None,
    ) -> None:
        self._tokens, self._images = tokens, images
        self._make, self._decoder = make, decoder
        self._documents = deque[Documents]()
        self._begun = deque[Begun | Exception]()

    def submit(
        self, tokens: BatchPlan, images: BatchPlan, documents: list[Documents]
    ) -> None:
        """Append the batches of a plan; returns at once."""
        self._tokens.submit(*tokens)
        if images.num_batches:
            self._images.submit(*images)
        self._documents.extend(documents)

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plans that were submitted, while their batches are not taken."""
        return self._tokens.plan_bytes + self._images.plan_bytes

    def next_batch(self) -> Begun:
        """Return the next batch, and begin to decode those behind it."""
        begun = self._begun
        while not begun or self._is_short():
            try:
                begun.append(self._begin())
            except Exception as error:
                if not begun:
                    raise
                begun.append(error)
                break
        first = begun.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    def _is_short(self) -> bool:
        """Whether too few images are decoded ahead, and more are planned."""
        if self._decoder is None or not self._documents:
            return False
        ahead = [each for each in self._begun if isinstance(each, Begun)][1:]
        images = sum(len(each.decoding or ()) for each in ahead)
        # A batch without images is one, too.
        return images + len(ahead) < IMAGES_AHEAD * self._decoder.workers

    def _begin(self) -> Begun:
        tokens, documents = self._tokens.next_batch(), self._documents.popleft()
        images = [self._images.next_batch() for _ in documents.row]
        batch = self._make(tokens, images, documents)
        if self._decoder is None:
            return Begun(batch, None)
        return Begun(batch, self._decoder.begin(batch["images"]["data"]))

    def clear(self, *, keep_pages: bool = False) -> None:
        """Forget all batches that were submitted and not taken."""
        for one in self._begun:
            if isinstance(one, Begun):
                for image in one.decoding or ():
                    image.cancel()
        self._begun.clear()
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
        self.clear()
        if self._decoder is not None:
            self._decoder.close()
