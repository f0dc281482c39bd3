"""What a run delivers: sequences by position, from a state on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset
from pagefeed.errors import PagefeedError
from pagefeed.order import Costs
from pagefeed.run.provenance import Origin
from pagefeed.run.state import LoaderState
from pagefeed.sequences import AnyIndex

__all__ = ["MAX_HORIZON", "Held", "Positions", "SequenceSource", "Track"]

Held: TypeAlias = Sequence[tuple[int, Int64Array]]
"""Sequences of datasets: the number of each dataset, and those of its sequences."""

Positions: TypeAlias = range | Int64Array
"""Rising positions; a range where they are one, which is found faster."""

MAX_HORIZON = 1 << 17
"""Sequences planned ahead at most where there are no blocks."""


class Track(Protocol):
    """Positions to sequences, from a state on, the same at any number of ranks."""

    @property
    def begin(self) -> LoaderState:
        """The state from which it goes on."""

    @property
    def start(self) -> int:
        """The position of that state."""

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""

    def state_at(self, position: int) -> LoaderState:
        """Return the state at a position."""

    def sequences(self, positions: Positions) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts, and None after other work.

        No step takes more than a few milliseconds.
        """

    def begin_next_epoch(self, position: int) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""

    def positions(self, held: Held, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""

    def horizon(self, memory: int) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well."""

    @property
    def epoch_positions(self) -> float:
        """Positions after which another epoch of some dataset begins, at the least."""

    @property
    def num_tokens_before(self) -> int:
        """Tokens delivered before its begin, of all epochs and ranks, by the mean."""

    def stats(self) -> dict[str, float]:
        """Return counters of what was delivered before its begin."""


class SequenceSource(Protocol):
    """What a run delivers: one dataset, epoch after epoch, or a mixture of several.

    Positions are counted as the source likes; where an iteration begins and ends is
    told by the state from which it iterates.
    """

    @property
    def index(self) -> AnyIndex:
        """What the sequences are."""

    @property
    def datasets(self) -> Sequence[Dataset]:
        """What they are cut from, in the order in which pages are numbered through."""

    @property
    def plan(self) -> LoaderState:
        """The beginning of epoch 0."""

    @property
    def costs(self) -> Costs:
        """Gives what sequences cost, where ranks are balanced."""

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""

    def at(self, begin: LoaderState) -> Track:
        """Return the way on from a state."""

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document."""

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""

    def accept(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it.

        Raises:
            StateMismatchError: If it belongs to another run.
        """
