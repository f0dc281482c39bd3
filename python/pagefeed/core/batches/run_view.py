"""View of a loader of any kind: settings, position, metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pagefeed.core._base import Facts, warn_user
from pagefeed.core.batches.engines import Locked
from pagefeed.core.batches.formats import Batch
from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.batches.waits import Waits
from pagefeed.core.order import Drawing, make_generator
from pagefeed.core.wiring import check_ranks, make_meter, watch_waits
from pagefeed.errors import PositionWarning

if TYPE_CHECKING:
    from pagefeed.metrics import Meter


class AnyPosition(Protocol):
    """The position of a loader of any kind."""

    @property
    def saved(self) -> Any:
        """State after the last batch handed out."""

    @property
    def now(self) -> Any:
        """State of the next step."""

    @property
    def next(self) -> Any:
        """State at which another loop begins."""


class MoveListener(Protocol):
    """Listens to moves of a loader, where other processes iterate in its place."""

    def moved(self, state: object) -> None:
        """Learn where the next iteration begins."""

    def check_state(self) -> None:
        """Raise if the loader's own position is not that of its consumer."""

    def check_change(self, call: str, steps: Iterable[int]) -> None:
        """Raise if a call that changes coming steps would not reach the consumer."""


class AnyView(Locked, ABC):
    """The state of a loader of any kind on this rank.

    It is a :class:`RunView` if every sequence has a number. Other loaders implement
    this interface by another view.

    Args:
        settings: The settings of the loader, with ``rank`` and ``world_size``.
    """

    is_adapted = False
    """Whether a framework adapter holds the loader, or its user is their own adapter.
    """
    learning: Any = None
    """The state of a learner of mixture weights; None without a learner."""
    share = 0, 1
    """Part of each sequence that this process gets, and number of parts."""
    has_failed = False
    """Whether the step that was asked for last raised an error."""
    accumulated = 1
    """Steps whose gradients a framework adds up before the model changes."""

    def __init__(self, settings: LoaderSettings) -> None:
        super().__init__()
        self.settings = settings
        """The settings of the loader."""
        self.listener: MoveListener | None = None
        """Hears of moves. An adapter that iterates in other processes sets it."""
        self.transform: Any = None
        """The function of the user for every batch, as a :class:`Drawing`."""
        if settings.transform is not None:
            self.transform = Drawing.of(settings.transform, "transform")
        self.waits = Waits()
        """Durations of waits for batches."""
        self._meter: Meter | None = None
        self._begun = monotonic()

    @property
    def rank_and_size(self) -> tuple[int | None, int]:
        """The rank that gets batches, and the world size.

        The rank is None if it gets no batches.
        """
        return self.settings.rank, self.settings.world_size

    @property
    @abstractmethod
    def position(self) -> AnyPosition:
        """Position of the loader: the states ``saved``, ``now`` and ``next``."""

    @property
    def num_given(self) -> int:
        """The steps of this iteration whose batches were handed out, skipped or not."""
        return int(self.position.now.step)

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The epoch of the next sequence."""

    @property
    def num_steps_left(self) -> int | None:
        """Steps left in this iteration; None if unknown."""
        return None

    @abstractmethod
    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> BatchIterator:
        """Iterate like :meth:`Loader.__iter__`, alone or as one of several processes.

        Process w takes the steps w, w + num_workers, and so on.
        ``torch.utils.data.DataLoader`` takes batches from its workers in turn, so it
        gets all steps in order.
        """

    @abstractmethod
    def next_batch(self, iterator: Any) -> Batch | None:
        """Return the next batch of an iterator, and count it; None after the last one.

        If it raises, the position has not moved.
        """

    @abstractmethod
    def close(self) -> None:
        """End this process's threads, see :meth:`Loader.close`."""

    @abstractmethod
    def load_state_dict(self, state: Any) -> None:
        """Continue at a state, as :meth:`Loader.load_state_dict` does.

        Raises:
            StateMismatchError: If it belongs to another run, or is not a state.
        """

    @abstractmethod
    def resume(self, state: Any) -> None:
        """Continue at ``state`` without marking it as loaded.

        Used when a session is copied.
        """

    @abstractmethod
    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run an epoch, see :meth:`Loader.set_epoch`."""

    @abstractmethod
    def facts(self) -> Facts:
        """Return facts about the run, to print."""

    @abstractmethod
    def stats(self) -> dict[str, float]:
        """Return counters since this process first ran, see :meth:`Loader.stats`."""

    def awaited(self) -> dict[str, Any]:
        """Return what the next batch waits for, as far as known; waits for nothing.

        ``places``, ``num_pages``, ``num_bytes``, ``workers`` and ``fetches`` are as an
        engine tells them; ``decoding`` is the number of values that functions of the
        user decode; ``storage/...`` are the counters of storages.
        """
        return {}

    def awaiting(self) -> Waits:
        """Return the waits, to be used as a ``with`` block around one wait."""
        watch_waits(self)
        return self.waits

    @abstractmethod
    def progress(self) -> Mapping[str, float]:
        """Return the position of the run as metrics."""

    @abstractmethod
    def _agreed(self) -> Mapping[str, Any]:
        """Return the settings and the position that must agree on all ranks."""

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, see :meth:`Loader.state_dict`."""
        self.check_state()
        return dict(self.position.saved.to_dict())

    def generator(self, first_epoch: int, step: int) -> np.random.Generator:
        """Return the generator of random numbers for a batch of this rank."""
        rank, _ = self.rank_and_size
        return make_generator(self.settings.seed, "batch", first_epoch, step, rank or 0)

    def check_state(self) -> None:
        """Raise if other processes iterate: they know the position."""
        if self.listener is not None:
            self.listener.check_state()

    def check_change(self, call: str, steps: Iterable[int] = ()) -> None:
        """Raise if other processes iterate, which do not hear of a change of steps."""
        if self.listener is not None:
            self.listener.check_change(call, steps)

    def tell(self) -> None:
        """Call the listener with the position at which the next iteration begins."""
        if self.listener is not None:
            self.listener.moved(self.position.next)

    def metrics(self, group: object, **asked: Any) -> dict[str, float]:
        """Return the run's numbers, see :meth:`Loader.metrics`."""
        return self._made_meter().of(self, group, **asked)

    def reads_by_file(self) -> dict[str, dict[str, float]]:
        """Return the reads of each file, see :meth:`Loader.stats`."""
        return self._made_meter().reads_by_file()

    def _made_meter(self) -> Meter:
        if self._meter is None:
            self._meter = make_meter(self._begun)
        return self._meter

    def check_ranks(self, group: object, same: object) -> None:
        """Prove that all ranks agree, see :meth:`Loader.check_ranks`."""
        agreed = dict(self._agreed())
        check_ranks(self.rank_and_size, agreed, self.share, group, same)


class BatchIterator(Iterator[Batch]):
    """The iterator that ``iter(loader)`` returns; it begins at the first ``next``.

    Until then nothing moves, so an unused iterator has no effect. It survives
    exceptions: a step whose batch could not be returned does not count as taken. The
    next ``next`` tries it again, and ``Loader.skip`` passes over it. Several threads
    may share an iterator: each batch goes to exactly one of them.

    Args:
        session: View that makes the batches.
    """

    def __init__(self, session: AnyView) -> None:
        self.session = session
        self._has_ended = False
        session.awaiting().begin()

    def pass_over(self) -> None:
        """Count the step that raised last as taken; the next step follows."""

    def __next__(self) -> Batch:
        """Return the batch of the next step."""
        session = self.session
        with session.lock:
            # Noted without a call of Python: this is done for every batch.
            waits = session.waits
            waits.since = begin = monotonic()
            try:
                batch = None if self._has_ended else session.next_batch(self)
            finally:
                waits.since = None
            if batch is None:
                self._has_ended = True
                raise StopIteration
            waits.new.append(monotonic() - begin)
            waits.room -= 1
            if waits.room <= 0:
                waits.sort()
            return batch


def warn_of_return(epoch: int, loaded: int) -> None:
    """Warn that ``set_epoch`` goes back to before the loaded state."""
    warn_user(
        f"set_epoch({epoch}) goes back before the state that was loaded, of epoch "
        f"{loaded}: batches that were consumed are repeated",
        PositionWarning,
    )
