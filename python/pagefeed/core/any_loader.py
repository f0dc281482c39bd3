"""Base of loaders: iteration, states, settings and position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

from pagefeed.core._base import (
    Facts,
    check_whole,
    format_bytes,
    text_of,
    warn_user,
)
from pagefeed.core.batches import AnyView, Batch, Fields, Format, LoaderSettings
from pagefeed.core.order import Shuffle
from pagefeed.core.sequences import Cut
from pagefeed.core.wiring import warn_of_accelerator
from pagefeed.errors import InvalidArgumentError, PositionWarning

Value = TypeVar("Value")


class Setting(Generic[Value]):
    """A read-only attribute, whose value comes from the object's ``_settings``.

    Example:
        >>> class Reader:
        ...     _settings = range(2)
        ...     start = Setting[int]()
        >>> Reader().start
        0
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the name of the setting."""
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        """Return its value."""
        if instance is None:
            return self  # type: ignore[return-value]
        return getattr(instance._settings, self._name)  # noqa: SLF001 - its owner's

    def __set__(self, instance: object, value: object) -> NoReturn:
        """Refuse to change a setting of an existing object.

        Raises:
            AttributeError: Always.
        """
        name = type(instance).__name__
        raise AttributeError(
            f"{self._name} of a {name} cannot be set: make another {name} with "
            f"{self._name}={value!r:.60}"
        )


class AnyLoader:
    """Base class of loaders: batches, settings and position of a view, all read-only.

    A loader of another kind derives from it and implements ``_open``, which makes its
    view.
    """

    _open: ClassVar[Any]
    """Returns the view of a loader with some settings."""
    _session: AnyView

    dataset = Setting[Any]()
    sequences = Setting[Cut]()
    batch_size = Setting[int]()
    seed = Setting[int]()
    shuffle = Setting[Shuffle]()
    memory = Setting[int]()
    format = Setting[Format]()
    dtype = Setting[str]()
    padding = Setting[int]()
    vocab_size = Setting[int | None]()
    fields = Setting[Fields]()
    transform = Setting[Callable[..., Any] | None]()
    pin_memory = Setting[bool]()
    epochs = Setting[int | None]()
    rank = Setting[int]()
    world_size = Setting[int]()
    num_threads = Setting[int]()
    warn_after = Setting[float | None]()

    def __iter__(self) -> Iterator[Batch]:
        """Start the current epoch, or continue where a state was loaded."""
        if not self._session.is_adapted:
            self._session.is_adapted = warn_of_accelerator()
        return self._session.iterate()

    def __getitem__(self, index: object) -> NoReturn:
        """Raise an error: torch's ``DataLoader`` needs ``pagefeed.torch.as_dataset``.

        Raises:
            InvalidArgumentError: Always; the message says how to iterate.
        """
        raise InvalidArgumentError(
            f"a {type(self).__name__} has no item {index!r:.40}: it is iterated. Write "
            "`for batch in loader`, without a DataLoader. Where there must be one, "
            "write DataLoader(pagefeed.torch.as_dataset(loader), batch_size=None)"
        )

    def __reduce__(self) -> tuple[Callable[..., AnyLoader], tuple[Any, ...]]:
        """Pickle settings and position, without threads and open files."""
        session = self._session
        position, learning = session.position.saved, session.learning
        return rebuild, (type(self), self._settings, position, learning)

    def close(self) -> None:
        """Stop the threads of this process and give their memory back.

        Batches that were returned stay valid, and the position can still be saved. The
        next ``next`` raises :class:`CancelledError`. Loaders are also closed when they
        are garbage collected, when the program ends, and at the end of
        ``with Loader(...) as loader``.
        """
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: this
                process does not know their position.
        """
        return self._session.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Make the next iteration continue at ``state``; an empty one changes nothing.

        Raises:
            StateMismatchError: If the state belongs to another run, or is not a state.
        """
        if not isinstance(state, Mapping) or state:
            self._session.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration the ``epoch``-th.

        Trainers count iterations: with ``epochs=2``, iteration ``epoch`` runs epochs
        ``2 * epoch`` and ``2 * epoch + 1``. With ``epochs=None`` it begins at epoch
        ``epoch``. Nothing changes if ``epoch`` is the iteration that is running or was
        resumed, so a trainer's call after a resume does not undo the resume. A lower
        number goes back to before the loaded state, with a warning.

        Raises:
            InvalidArgumentError: If ``epoch`` is not a whole number of at least 0.
        """
        epoch = check_whole(epoch, "epoch", least=0)
        self._session.set_epoch(epoch)

    def metrics(
        self,
        group: object = None,
        *,
        flops_per_token: float | None = None,
        peak_flops: float | None = None,
        gpu: bool = False,
        by_file: bool = False,
    ) -> dict[str, float]:
        """Return the metrics of this rank's run by name, for any experiment tracker.

        While worker processes of a ``DataLoader`` iterate, this process does not know
        the metrics: all are NaN, and a warning says so.

        Args:
            group: A process group, such as ``torch.distributed.group.WORLD``. All its
                members must call this method, and all get the metrics of the whole
                group. Times are those of the slowest rank.
            flops_per_token: Floating-point operations that training takes for a token,
                about 6 times the parameters. With ``peak_flops`` the metrics also have
                tokens a second and model FLOPs utilization, since the first batch.
            peak_flops: Most operations a second of this rank's accelerator.
            gpu: Also ask NVIDIA's driver how busy this process's GPU is, and how much
                of its memory is used.
            by_file: Also tell the reads of the ten files that took most time, as
                ``stats(by="file")`` counts them.

        Raises:
            InvalidArgumentError: If only one of the two numbers is given, or one is not
                positive.
            MissingDependencyError: If ``gpu=True`` and nvidia-ml-py is not installed.
            UnsupportedError: If ``gpu=True`` and the driver does not tell.
        """
        numbers = self._session.metrics(
            group,
            flops_per_token=flops_per_token,
            peak_flops=peak_flops,
            gpu=gpu,
            by_file=by_file,
        )
        try:
            self._session.check_state()
        except InvalidArgumentError as error:
            told = f"metrics() knows nothing: {error}"
            warn_user(told, PositionWarning)
            return dict.fromkeys(numbers, math.nan)
        return numbers

    def view(self) -> AnyView:
        """Return the view of this loader, for adapters.

        See :mod:`pagefeed.contract`.
        """
        return self._session

    def check_ranks(self, group: object = None, *, same: object = None) -> None:
        """Check that every rank gets the right batches, by one exchange between ranks.

        All processes must call this method. It checks that processes that need the same
        batches get the same ones, that others get different ones, that no rank is
        missing, and that all have the same settings and position.

        Args:
            group: The process group of all that train; None for all processes.
            same: The group of processes that must get the same batches as this one, as
                with tensor, pipeline or context parallelism. If a job has such groups
                and this is None, a warning says what is not checked.

        Raises:
            InvalidArgumentError: If two processes disagree; the message names them.
        """
        self._session.check_ranks(group, same)

    @property
    def _settings(self) -> LoaderSettings:
        return self._session.settings

    @property
    def epoch(self) -> int:
        """The epoch of the next batch.

        ``epoch``, ``step`` and ``num_steps_left`` describe one iteration. While a loop
        runs, they describe its iteration. This also holds after its last batch: then no
        step is left, and the epoch is the last one of the iteration. Without a loop
        they describe the iteration that the next loop begins or continues. After a
        loop, or after ``seek`` or ``load_state_dict`` to an end, that is the next
        iteration at step 0.
        """
        return self._session.epoch

    @property
    def step(self) -> int:
        """The number of the next step in its iteration. Skipped steps count.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: this
                process does not know their position.
        """
        self._session.check_state()
        return int(self._session.position.now.step)

    @property
    def num_steps_left(self) -> int | None:
        """Steps until the end of the iteration, the same on every rank.

        None if the iteration never ends, or its length is unknown. 0 in a loop after
        its last batch; see :attr:`epoch`.

        Raises:
            InvalidArgumentError: As for :attr:`step`.
        """
        self._session.check_state()
        return self._session.num_steps_left

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "dataset": self.dataset,
            "sequences": self.sequences,
            "batch_size": self.batch_size,
            **self._session.facts(),
            "rank": self.rank,
            "world_size": self.world_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "memory": format_bytes(self.memory),
        }


LoaderT = TypeVar("LoaderT", bound=AnyLoader)


def share(loader: LoaderT, num_shares: int) -> LoaderT:
    """Return a copy of a loader that begins where the loader's next iteration would.

    The copy gets a share of the memory and threads. It does not pin memory: the process
    that uses the device does.
    """
    session = loader.view()
    settings = replace(
        session.settings,
        pin_memory=False,
        memory=max(1, loader.memory // num_shares),
        num_threads=max(1, loader.num_threads // num_shares),
    )
    return rebuild(type(loader), settings, session.position.next)


def rebuild(
    kind: type[LoaderT], settings: LoaderSettings, state: Any, learning: object = None
) -> LoaderT:
    """Return a loader of a kind with settings, at a position."""
    loader = kind.__new__(kind)
    loader._session = session = kind._open(settings)  # noqa: SLF001 - a twin
    session.resume(state)
    if learning is not None:
        session.learning = learning
    return loader


def remade(loader: LoaderT, **changes: Any) -> LoaderT:
    """Return a loader with other settings, at the beginning of the same iteration."""
    twin = type(loader).__new__(type(loader))
    twin._session = twin._open(replace(loader.view().settings, **changes))  # noqa: SLF001
    twin.set_epoch(loader.epoch)
    return twin
