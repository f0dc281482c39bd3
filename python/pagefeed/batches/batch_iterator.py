"""What ``iter(loader)`` returns: batches, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic

from pagefeed.batches.engines import ProcessLock
from pagefeed.batches.formats import Batch
from pagefeed.batches.iteration import Iteration
from pagefeed.batches.token_batches import Out
from pagefeed.errors import CancelledError, InvalidArgumentError

__all__ = ["BatchIterator", "transformed"]


class BatchIterator(Iterator[Batch], Generic[Out]):
    """An iterator that begins with the first ``next`` and outlives exceptions.

    Until then nothing moves, so that it may be thrown away. A step whose batch could
    not be handed out, for whatever reason, was not taken: the next ``next`` tries it
    again, and ``Loader.skip`` passes over it. Several threads may share one: each batch
    is handed to exactly one of them.

    Args:
        lock: Held while a batch is taken; that of whatever else moves the iteration.
        begin: Starts an iteration.
        make: Makes what is handed out of what the engine delivered.
        end: Told when all steps of the iteration were taken.
        explain: Told of an error, before it is raised.
    """

    def __init__(
        self,
        *,
        lock: ProcessLock,
        begin: Callable[[], Iteration[Out]],
        make: Callable[[Out], Batch],
        end: Callable[[Iteration[Out]], None],
        explain: Callable[[Exception, Iteration[Out]], None],
    ) -> None:
        self._lock = lock
        self._begin = begin
        self._make = make
        self._end = end
        self._explain = explain
        self._iteration: Iteration[Out] | None = None

    def __next__(self) -> Batch:
        """Return the batch of the next step."""
        with self._lock:
            if self._iteration is None:
                self._iteration = self._begin()
            iteration = self._iteration
            try:
                batch = self._make(iteration.take())
            except StopIteration:
                self._end(iteration)
                raise
            except CancelledError:
                raise
            except Exception as error:
                self._explain(error, iteration)
                raise
            iteration.count()
            return batch

    def close(self) -> None:
        """Stop, as a generator would: what was planned and not taken is forgotten."""
        with self._lock:
            if self._iteration is not None:
                self._iteration.close()


def transformed(transform: Callable[[Batch], Any], batch: Batch) -> Any:  # noqa: ANN401 - whatever it returns
    """Return what a user's function makes of a batch.

    Raises:
        InvalidArgumentError: If that is nothing.
        RuntimeError: For a StopIteration, which would end the loop without a word.
    """
    try:
        made = transform(batch)
    except StopIteration as error:
        raise RuntimeError("transform raised StopIteration") from error
    if made is None:
        raise InvalidArgumentError(
            "transform returned None: it must return the batch, also where it changed "
            "it in place"
        )
    return made
