"""An adapter: a trainer that asks for batches by calling, and saves with a model."""

from collections.abc import Callable
from typing import Any

import pagefeed as pf
from pagefeed.contract import Batch, LoaderState


class StepTrainer:
    """Calls ``step(batch)`` for so many steps, over the ends of epochs."""

    def __init__(self, loader: pf.Loader, step: Callable[[Batch], Any]) -> None:
        self._view, self._step = loader.view(), step
        self._batches = self._view.iterate()

    def train(self, num_steps: int) -> None:
        for _ in range(num_steps):
            batch = next(self._batches, None)
            if batch is None:  # The next epoch begins.
                self._batches = self._view.iterate()
                batch = next(self._batches)
            self._step(batch)

    def checkpoint(self) -> dict[str, Any]:
        return self._view.position.now.to_dict()

    def resume(self, checkpoint: dict[str, Any]) -> None:
        self._view.resume(LoaderState.from_dict(checkpoint))
        self._batches = self._view.iterate()
