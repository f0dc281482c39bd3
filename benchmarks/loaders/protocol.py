"""What a loader must do to be measured: give batches of the same data, and a state.

Each adapter uses its loader as the loader's own documentation says: samples of one
length, shuffled, in batches, as int64 tensors of torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Adapter", "Loader", "Replayed", "Stateful", "Task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """The data, where a loader may keep its own form of them, and what is asked."""

    parquet: tuple[str, ...]
    """Files with a column ``input_ids``, list<int32> of ``length`` each."""
    flat: Path
    """The same tokens in the same order, uint16, and nothing else."""
    work: Path
    """A folder of the loader's own: converted data, caches."""
    num_rows: int
    """Samples of an epoch."""
    length: int
    """Tokens of a sample."""
    batch_size: int
    seed: int
    workers: int
    """Processes or threads, where a loader asks for a number."""


class Loader(Protocol):
    """A loader at work."""

    def batches(self) -> Iterator[Any]:
        """Give the batches from here on: int64 [batch_size, length], on the CPU."""

    def state(self) -> object:
        """Return the position behind the last batch, as something that pickles."""

    def load(self, state: Any) -> None:
        """Go to a position, before batches are asked for."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A loader that can be measured."""

    name: str
    open: Callable[[Task], Loader]
    """Makes it. All its imports are inside: they count as time to the first batch."""
    needs: tuple[str, ...] = ()
    """Modules without which it is passed over."""
    convert: Callable[[Task], None] | None = None
    """Makes its own form of the data; None: it reads what is there."""
    limits: str = ""
    """What it cannot do, for the page of results."""


class Stateful:
    """A loader with ``state_dict``, whose batches are tensors or lie under one name."""

    def __init__(self, loader: Any, column: str | None = None) -> None:
        self.loader = loader
        self.column = column

    def batches(self) -> Iterator[Any]:
        """Give the batches as int64 tensors."""
        for batch in self.loader:
            yield (batch[self.column] if self.column else batch).long()

    def state(self) -> object:
        """Return the loader's own state."""
        return self.loader.state_dict()

    def load(self, state: Any) -> None:
        """Load the loader's own state."""
        self.loader.load_state_dict(state)


class Replayed:
    """A loader without a state: what was delivered is read again, and dropped."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._taken = 0

    def batches(self) -> Iterator[Any]:
        """Give the batches, and count them."""
        for batch in self._batches:
            self._taken += 1
            yield batch

    def state(self) -> object:
        """Return how many were taken."""
        return self._taken

    def load(self, state: Any) -> None:
        """Drop as many."""
        for _ in range(state):
            next(self._batches)
        self._taken = state
