"""A dataset of a mixture, as its schedule knows it: its epochs, by local position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import (
    MOST,
    Int64Array,
    check_positive,
    check_text,
    check_whole,
    sorted_with_places,
)
from pagefeed.core.run import MIXED
from pagefeed.errors import StateMismatchError


class Former(NamedTuple):
    """Earlier epochs of a dataset, before data were added."""

    end: int
    """One past the last of these epochs."""
    data: str
    """Record of what they hold, see :attr:`Component.data`."""
    num_sequences: int
    """Sequences in each of these epochs."""
    num_tokens: int
    """Tokens in each of these epochs."""


class _Epochs(NamedTuple):
    """Epochs of the same size."""

    first: int
    begin: int
    """Local position of the first."""
    num_sequences: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """A dataset of a mixture, as its schedule knows it."""

    name: str
    data: str
    """Fingerprint of the dataset, and its description for people."""
    num_sequences: int
    """Sequences of an epoch."""
    num_tokens: int
    """Tokens in them, as delivered; 0 if they are not counted."""
    max_epochs: int | None = None
    """Epochs after which it is left out."""
    before: tuple[Former, ...] = ()
    """Earlier epochs, if data were added since."""

    @property
    def sequence_tokens(self) -> float:
        """Mean tokens of a sequence when the run began; 1 if they are not counted."""
        counted = (tokens / size for size, tokens in self._sizes if tokens)
        return next(counted, 1.0)

    @property
    def _sizes(self) -> list[tuple[int, int]]:
        """Sequences and tokens of an epoch, from the first ones on."""
        before = [(former.num_sequences, former.num_tokens) for former in self.before]
        return [*before, (self.num_sequences, self.num_tokens)]

    def former(self, epoch: int) -> Former | None:
        """Return the earlier data that an epoch has; None if it has all data."""
        return next((former for former in self.before if epoch < former.end), None)

    def begin_of(self, epoch: int) -> int:
        """Return the local position at which an epoch begins."""
        same = [epochs for epochs in self._epochs if epochs.first <= epoch][-1]
        return same.begin + (epoch - same.first) * same.num_sequences

    def size_of(self, epoch: int) -> int:
        """Return the sequences of an epoch."""
        former = self.former(epoch)
        return self.num_sequences if former is None else former.num_sequences

    def epochs_of(self, local: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the epochs of local positions, and the positions in them: int64."""
        epoch, offset = np.divmod(local, self._epochs[0].num_sequences)
        for same in self._epochs[1:]:
            is_later = local >= same.begin
            later, later_offset = np.divmod(local - same.begin, same.num_sequences)
            epoch = np.where(is_later, same.first + later, epoch)
            offset = np.where(is_later, later_offset, offset)
        return epoch, offset

    def by_epoch(
        self, local: Int64Array
    ) -> Iterator[tuple[int, Int64Array, Int64Array]]:
        """Yield each epoch of local positions: which are in it, and where."""
        epoch, offset = self.epochs_of(local)
        rising, which = sorted_with_places(epoch)
        borders = np.flatnonzero(np.diff(rising, prepend=-1))
        ends = np.append(borders[1:], len(which))[: len(borders)].tolist()
        # Within one epoch the offsets stay in order.
        for first, end in zip(borders.tolist(), ends, strict=True):
            now = which[first:end]
            yield int(rising[first]), now, offset[now]

    def num_epochs(self, count: int) -> float:
        """Return how many epochs the first ``count`` sequences fill."""
        [epoch], [offset] = self.epochs_of(np.array([count]))
        return float(epoch + offset / self.size_of(int(epoch)))

    @property
    def _epochs(self) -> list[_Epochs]:
        epochs, first, begin = [], 0, 0
        for former in (*self.before, None):
            size = self.num_sequences if former is None else former.num_sequences
            epochs.append(_Epochs(first, begin, size))
            if former is not None:
                begin += (former.end - first) * size
                first = former.end
        return epochs

    def check(self) -> None:
        """Raise an error for values that no run has.

        Raises:
            InvalidArgumentError: If a value is out of its bounds.
        """
        for text in (self.name, self.data, *(former.data for former in self.before)):
            check_text(text, "the name and the data of a dataset")
        for size, tokens in self._sizes:
            check_positive(size, "sequences")
            check_whole(tokens, "tokens", least=0, most=MOST)
        if self.max_epochs is not None:
            check_positive(self.max_epochs, "max_epochs")
        last = 0
        for former in self.before:
            last = check_whole(former.end, "end", least=last + 1, most=MOST)

    def to_list(self) -> list[Any]:
        """Return plain JSON types."""
        *values, before = astuple(self)
        return [*values, [*map(list, before)]] if before else values

    @classmethod
    def from_list(cls, given: list[Any]) -> Component:
        """Read what :meth:`to_list` wrote.

        Raises:
            TypeError: If it is not such a list.
            ValueError: If it is not such a list.
            StateMismatchError: If data were mixed into an epoch.
        """
        names = [field.name for field in fields(cls)][: max(5, len(given))]
        values = dict(zip(names, given, strict=True))
        before = values.pop("before", ())
        if any(former[4:] not in ([], [[]]) for former in before):
            raise StateMismatchError(f"a dataset of the state grew by {MIXED}")
        return cls(**values, before=tuple(Former(*former[:4]) for former in before))
