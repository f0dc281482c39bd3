"""One face for all loaders that are compared: batches, and a state.

Each is used as its own documentation says, on the same tokens: samples of 2048,
shuffled, in batches of 64, as int64 tensors of torch; two workers where workers are
processes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

LENGTH = 2048
BATCH_SIZE = 64
SEED = 0
WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where data lie, and where a loader may leave its own form of them."""

    parquet: tuple[str, ...]
    """Files with a column ``input_ids``, list<int32> of 2048 each."""
    flat: Path
    """The same tokens, uint16."""
    work: Path
    """A folder of the loader's own: converted data, caches."""
    num_steps: int
    """Batches of an epoch."""


class Feed(Protocol):
    """A loader at work."""

    def batches(self) -> Iterator[Any]:
        """Give the batches of an epoch, from where it stands: [64, 2048] int64."""

    def state(self) -> object:
        """Return the position, as something that pickles."""

    def load(self, state: Any) -> None:  # noqa: ANN401 - each its own
        """Go to a position, before batches are asked for."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loader that is compared."""

    name: str
    open: Callable[[Place], Feed]
    """Makes it; all imports are inside, since they count as start."""
    convert: Callable[[Place], None] | None = None
    """Makes its own form of the data; None: it reads Parquet."""
    cannot: str = ""
    """What it cannot do, beside the others."""


class Resumable:
    """A loader with ``state_dict``, whose batches lie under one name or are tensors."""

    def __init__(self, loader: Any, column: str | None = None) -> None:  # noqa: ANN401
        self.loader = loader
        self.column = column

    def batches(self) -> Iterator[Any]:
        """Give the batches as int64 tensors."""
        for batch in self.loader:
            yield (batch[self.column] if self.column else batch).long()

    def state(self) -> object:
        """Return the loader's own state."""
        return self.loader.state_dict()

    def load(self, state: Any) -> None:  # noqa: ANN401 - each its own
        """Load the loader's own state."""
        self.loader.load_state_dict(state)


class Counted:
    """A loader without a state: what was seen is read again, and dropped."""

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

    def load(self, state: Any) -> None:  # noqa: ANN401 - a number
        """Drop as many."""
        for _ in range(state):
            next(self._batches)
        self._taken = state
