"""Images that a function of the user's decodes ahead of the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

__all__ = ["Decoder"]

IMAGES_AHEAD = 4
"""Images for every worker that are being decoded ahead of the consumer, about."""


class Decoder:
    """Runs a function of images on threads, or in processes.

    Args:
        decode: A ``Decode`` with one function.
        workers: How many run it, if that is not said.
    """

    def __init__(self, decode: Any, workers: int) -> None:
        [self._function] = decode.functions.values()
        self._processes = decode.processes
        self.workers: int = decode.workers or workers
        self._pool: Executor
        if decode.processes:
            # Imported where it is asked for: importing pagefeed leaves it alone.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context)
        else:
            self._pool = ThreadPoolExecutor(self.workers, "pagefeed-images")

    def begin(self, images: Sequence[memoryview]) -> list[Future[Any]]:
        """Begin to decode images."""
        given: Sequence[Any] = images
        if self._processes:
            given = [bytes(image) for image in images]  # A view cannot be sent.
        return [self._pool.submit(self._function, image) for image in given]

    @staticmethod
    def finish(
        begun: Sequence[Future[Any]], refuse: Callable[[int, Exception], Any]
    ) -> list[Any]:
        """Wait for images, in order; ``refuse`` the first that failed."""
        found = []
        for number, image in enumerate(begun):
            try:
                found.append(image.result())
            except Exception as problem:
                raise refuse(number, problem) from problem
        return found

    def close(self) -> None:
        """End the workers; what they have not begun is forgotten."""
        self._pool.shutdown(cancel_futures=True)
