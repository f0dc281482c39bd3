"""How a loader is delivered to a loop that counts for itself.

Trainers count steps and epochs, probe iterators and throw them away. These go on where
the last batch was taken, and never begin anything again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pagefeed.batches import Batch
from pagefeed.errors import StateMismatchError
from pagefeed.integrations.checks import check_loader
from pagefeed.loader import Loader

__all__ = ["KEY", "Convert", "Delivery", "Leaf", "steps_per_epoch"]

KEY = "pagefeed"
"""Name of the state in checkpoints."""

Convert = Callable[[Batch], Any]
"""From a batch of a loader to that of a framework."""


def steps_per_epoch(loader: Loader) -> int:
    """Return the steps of an iteration, or of an epoch if it never ends."""
    try:
        return len(loader)
    except TypeError:
        step = loader.batch_size * loader.world_size
        return max(1, loader.num_sequences // step)


class Delivery:
    """Batches of a loader, each iteration from where the last one stopped.

    Args:
        loader: Where they come from.
        convert: Makes each what the framework wants.
        endless: Go on with the next epoch; the framework stops by counting.
    """

    def __init__(
        self, loader: Loader, *, convert: Convert | None = None, endless: bool
    ) -> None:
        self.loader = loader
        self.convert = convert
        self.endless = endless

    def __len__(self) -> int:
        """Return the steps of a whole epoch; never less after a resume."""
        return steps_per_epoch(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """Go on; nothing moves before the first batch is asked for."""
        return _Batches(self)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position."""
        self.loader.load_state_dict(state)


class _Batches(Iterator[Any]):
    """Begins with the first ``next``, and outlives exceptions as a loader's does."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._batches: Iterator[Batch] | None = None

    def __next__(self) -> Any:  # noqa: ANN401 - whatever the framework wants
        delivery = self._delivery
        if self._batches is None:
            delivery.loader.load_state_dict(delivery.loader.state_dict())
            self._batches = iter(delivery.loader)
        try:
            batch = next(self._batches)
        except StopIteration:
            if not delivery.endless:
                raise
            self._batches = iter(delivery.loader)
            batch = next(self._batches)
        return batch if delivery.convert is None else delivery.convert(batch)


class Leaf:
    """The state of a loader as one string under one name.

    Distributed checkpoints want the same names on all ranks and at all times, drop
    empty dicts, and refuse or forget keys that come later. Any number of ranks reads
    what any other wrote.

    Args:
        loader: Whose state it is.

    For example, with ``torch.distributed.checkpoint``::

        dcp.save({"model": model, "data": Leaf(loader)}, checkpoint_id=folder)
    """

    def __init__(self, loader: Loader) -> None:
        check_loader(loader, "Leaf")
        self.loader = loader

    def state_dict(self) -> dict[str, str]:
        """Return the consumed position, as JSON."""
        return {KEY: json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position; an empty state changes nothing.

        Raises:
            StateMismatchError: If it belongs to another run, or is no such state.
        """
        if not state:
            return
        try:
            loaded = json.loads(state[KEY])
        except (KeyError, TypeError, ValueError):
            raise StateMismatchError(
                f"the checkpoint holds no state of pagefeed: expected {{{KEY!r}: "
                f"text}}, found {dict(state)!r:.80}"
            ) from None
        self.loader.load_state_dict(loaded)
