"""PyTorch: a loader as an ``IterableDataset`` of whole batches.

For trainers that need a ``torch.utils.data.DataLoader``. A loader starts its own
threads: where you have the choice, ``for batch in loader`` is the fastest way.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any
from weakref import WeakValueDictionary

from pagefeed.core.any_loader import AnyLoader, share
from pagefeed.core.batches import Batch, BatchIterator, RunView
from pagefeed.core.run import MAX_STATE_BYTES, LoaderState
from pagefeed.errors import (
    CancelledError,
    InvalidArgumentError,
    MissingDependencyError,
)
from pagefeed.integrations import (
    Leaf,
    check_isolation,
    check_loader,
    check_readers,
    flex_mask,
    on_device,
    sdpa_mask,
    varlen_arguments,
)

try:
    import torch
    from torch._utils import ExceptionWrapper
    from torch.utils.data import IterableDataset, get_worker_info
    from torch.utils.data._utils.worker import _IterableDatasetStopIteration
except ImportError as error:
    raise MissingDependencyError(
        "pagefeed.torch needs PyTorch: pip install 'pagefeed[torch]'"
    ) from error

__all__ = [
    "Leaf",
    "LoaderDataset",
    "as_dataset",
    "check_isolation",
    "flex_mask",
    "on_device",
    "sdpa_mask",
    "varlen_arguments",
]


OWN_LOOP, ANY_LOOP = -1, -2
"""Instead of the seed of a loop's workers: a loop of the process itself, or any."""

PIECE_BYTES = 16 << 10
"""Torch clears and copies tensors of twice this size by OpenMP. A process that is
forked later would wait for OpenMP's threads for ever."""


class _Notice:
    """The next epoch's number, in memory shared between a process and its workers.

    Workers have copies of the loader. By this notice they learn of a ``set_epoch`` in
    the process with the original, and of a state that earlier workers have loaded.
    """

    def __init__(self) -> None:
        self._pieces = [
            _shared(PIECE_BYTES, torch.uint8)
            for _ in range(0, 2 * MAX_STATE_BYTES, PIECE_BYTES)
        ]
        self._serial, self._used_by_workers, self._over, self._begun = (
            _shared(1, torch.int64) for _ in range(4)
        )
        self._num_seen = 0  # Each process has its own.
        self.failed: set[int] = set()
        """Steps that errors of the running workers name; they pass over these."""
        self._keeps_workers = False

    def moved(self, state: LoaderState) -> None:
        """Let worker processes know the position that the loader was moved to."""
        self._write(state, int(self._serial.item()) + 1)
        self._begun.fill_(ANY_LOOP if self._keeps_workers else 0)
        if not self._keeps_workers:
            self.failed.clear()
            self._used_by_workers.fill_(0)
        self._keeps_workers = False
        self._over.fill_(0)

    def check_change(self, call: str, steps: Iterable[int]) -> None:
        """Raise if workers iterate, unless they pass over these steps by themselves."""
        if not self._used_by_workers.item():
            return
        self._keeps_workers = bool(self.failed) and self.failed.issuperset(steps)
        if not self._keeps_workers:
            raise InvalidArgumentError(
                f"{call}: worker processes of a DataLoader iterate, and have planned "
                f"their steps: call {call} before the loop, or leave the loop, and "
                "call seek(steps taken) of the loader first; or use num_workers=0"
            )

    def loaded(self, again: LoaderState, loop: int, *, is_over: bool) -> None:
        """Publish, from a worker, the iteration that all workers have loaded.

        Args:
            again: Where the iteration began.
            loop: Number of the loop that continues it.
            is_over: Whether all its steps were taken; only one worker can know.
        """
        self._write(again, self._num_seen + 1)
        self._begun.fill_(loop)
        if is_over:
            self._over.fill_(again.first_epoch + 1)

    def is_over(self, again: LoaderState | None) -> bool:
        """Return whether the iteration that began at ``again`` is known to be over."""
        return again is not None and self._over.item() == again.first_epoch + 1

    def _write(self, state: LoaderState, serial: int) -> None:
        plain = {n: value for n, value in state.to_dict().items() if n != "ended"}
        text = json.dumps(plain).encode().ljust(2 * MAX_STATE_BYTES)
        for index, piece in enumerate(self._pieces):
            content = bytearray(text[index * PIECE_BYTES : (index + 1) * PIECE_BYTES])
            piece.copy_(torch.frombuffer(content, dtype=torch.uint8))
        self._num_seen = serial
        self._serial.fill_(serial)

    def is_left(self, loop: int) -> bool:
        """Return whether another loop has begun since the loader was moved."""
        return self._begun.item() not in (0, loop)

    def begin(self, loop: int) -> None:
        """Note that a loop begins; the first one begins where the loader was moved."""
        self._used_by_workers.fill_(loop != OWN_LOOP)
        if not self._begun.item():
            self._begun.fill_(loop)

    def news(self) -> dict[str, Any] | None:
        """Return the position the loader was moved to, if it is new to this worker."""
        serial = int(self._serial.item())
        if serial == self._num_seen:
            return None
        self._num_seen = serial
        return json.loads(b"".join(bytes(piece.numpy()) for piece in self._pieces))

    def check_state(self) -> None:
        """Raise if workers iterate: only they know the position."""
        if self._used_by_workers.item():
            raise InvalidArgumentError(
                "worker processes of a DataLoader iterate, and this process does not "
                "know how far its trainer is: use torchdata's StatefulDataLoader and "
                "its state_dict(), or call seek(steps taken) of the loader before its "
                "state_dict(), or use num_workers=0"
            )


class LoaderDataset(IterableDataset[Batch]):
    """A torch dataset of whole batches; made by :func:`as_dataset`."""

    def __init__(self, loader: AnyLoader) -> None:
        self.loader: Any = loader
        self._notice = _Notice()
        self._is_worker, self._num_begun = False, 0
        self._steps: _WorkerSteps | None = None
        """The steps that this worker yields, or yielded last."""
        self._again: Any = None
        """State at which this worker begins again after a loop that was left early."""
        self._ended: tuple[Hashable, set[int]] = None, set()
        self.is_over = False
        """Whether all workers ended, of the iteration that one ended last."""
        self._name = secrets.token_hex(8)
        self._follow()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a loader that begins where the next iteration would.

        Only what is sent to a process shares the notice, so that it may be a worker.
        """
        state = self.__dict__ | {"loader": share(self.loader, 1)}
        if get_spawning_popen():
            return state
        self._begin(state["loader"].view(), OWN_LOOP)
        return state | {"_notice": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Follow the moves of the copied loader."""
        self.__dict__.update(state)
        if self._notice is None:
            self._notice, self._name = _Notice(), secrets.token_hex(8)
        self._follow()

    def _follow(self) -> None:
        self.loader.view().listener = self._notice
        _DATASETS[self._name] = self

    def __iter__(self) -> Iterator[Batch]:
        """Yield all steps, or in a worker process every ``num_workers``-th.

        Raises:
            InvalidArgumentError: If a framework would shard these batches again, or
                make batches of them.
        """
        check_readers(self.loader)
        caller = sys._getframe(1).f_locals  # noqa: SLF001 - torch's, or a wrapper's
        if caller.get("auto_collation"):
            raise InvalidArgumentError(
                "these are whole batches, of which a DataLoader with a batch_size "
                "would make batches again: DataLoader(as_dataset(loader), "
                "batch_size=None); a trainer is fed by its module in "
                "pagefeed.integrations"
            )
        worker = get_worker_info()
        if worker is None:
            if (news := self._notice.news()) is not None:  # Workers loaded a state.
                self.loader.load_state_dict(news)
            self._begin(self.loader.view(), OWN_LOOP)
            self._notice.begin(OWN_LOOP)
            return _OwnSteps(self.loader)
        _register_reducers()
        self._become(worker.num_workers)
        session, news = self.loader.view(), self._notice.news()
        last, is_direct = self._steps, "auto_collation" in caller
        if news is not None:
            self.loader.load_state_dict(news)
        elif last is None or is_direct or not last.is_passed:
            if self._again is not None:
                session.resume(self._again)
        else:
            return self._worker_steps(worker)  # A wrapper's next pass in its loop.
        again, loop = _again(session), worker.seed - worker.id
        if (news or self._again) and self._notice.is_over(again):
            session.resume(session.run.after(again))
        else:
            self._begin(session, loop)
        self._notice.begin(loop)
        self._again = _again(session)
        return self._worker_steps(worker)

    def _begin(self, session: Any, loop: int) -> None:
        """Go back to the first step of an iteration that another loop began and left.

        Only that loop's workers know its position, not the process they came from.
        """
        again = _again(session)
        if again is not None and self._notice.is_left(loop):
            session.resume(again)

    def _worker_steps(self, worker: Any) -> _WorkerSteps:
        """Begin an iteration of this worker."""
        session = self.loader.view()
        self._num_begun += 1
        _ITERATED[self._name] = self
        steps = session.iterate(worker=worker.id, num_workers=worker.num_workers)
        self._steps = _WorkerSteps(self, steps)
        return self._steps

    def _become(self, num_workers: int) -> None:
        """Turn this worker's dataset into its share of the loader, for all epochs."""
        if not self._is_worker:
            self.loader, self._is_worker = share(self.loader, num_workers), True

    def take_end(self, worker: Any) -> tuple[Any, ...] | None:
        """Return what the main process learns at the end of a loop of this worker.

        None if a wrapper ended before this dataset did.
        """
        steps = self._steps
        if steps is None or not steps.has_ended:
            return None
        steps.is_passed = False
        # All workers of an iteration have this number, and no other workers.
        iteration = worker.seed - worker.id, self._num_begun
        state = self.loader.view().position.now.to_dict()
        return self._name, worker.id, iteration, worker.num_workers, state

    def ended(
        self, worker: int, iteration: Hashable, num_workers: int, state: dict[str, Any]
    ) -> None:
        """Move to the next epoch when all workers have ended an iteration."""
        if self._ended[0] != iteration or worker in self._ended[1]:
            self._ended = iteration, set()
        self._ended[1].add(worker)
        self.is_over = len(self._ended[1]) == num_workers
        if self.is_over:
            view = self.loader.view()
            view.resume(type(view.position.now).from_dict(state))

    def __len__(self) -> int:
        """Return the steps of an iteration."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run an epoch, see :meth:`Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader of this process.

        Raises:
            InvalidArgumentError: If worker processes iterate: this process does not
                know how far they are.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a state, see :meth:`Loader.load_state_dict`."""
        worker = get_worker_info()
        if worker is not None:
            self._become(worker.num_workers)
        self.loader.load_state_dict(state)
        session = self.loader.view()
        if worker is not None and isinstance(session, RunView):
            loop = worker.seed - worker.id
            is_over = worker.id == _last_worker(session, worker.num_workers)
            self._notice.loaded(_again(session), loop, is_over=is_over)


def _last_worker(session: RunView, num_workers: int) -> int | None:
    """Return the worker of an iteration's last step, if a state is at its end.

    A worker's state is at the end of a round, in which each worker takes a step. So the
    states of all workers in the last round are at the end, also before the last of them
    took its step.
    """
    saved, again = session.position.saved, _again(session)
    whole = session.run.at(again).route.num_steps
    if whole is None or session.run.at(saved).route.num_steps != 0:
        return None
    return num_workers - 1 - (saved.step - again.step - whole)


def _again(session: Any) -> Any:
    """Return where an iteration begins again that is left early; None if unknown."""
    if not isinstance(session, RunView):
        return None
    return session.run.again(session.position.start)


_DATASETS: WeakValueDictionary[str, LoaderDataset] = WeakValueDictionary()
"""Datasets of this process, by the names that their workers know."""


_ITERATED: WeakValueDictionary[str, LoaderDataset] = WeakValueDictionary()
"""Datasets that this worker iterates, by name."""

_FAILURES: deque[tuple[LoaderDataset, int, Exception]] = deque(maxlen=64)
"""Errors of this worker's steps that torch may be about to send."""


class _OwnSteps(Iterator[Batch]):
    """The steps of the process with the loader; workers learn of their end."""

    def __init__(self, loader: AnyLoader) -> None:
        self._view: Any = loader.view()
        self._steps, self._has_ended = iter(loader), False

    def __next__(self) -> Batch:
        """Return the next batch."""
        for batch in self._steps:
            return batch
        if not self._has_ended:
            self._has_ended = True
            self._view.tell()
        raise StopIteration


class _WorkerSteps(Iterator[Batch]):
    """The steps of one worker.

    A step that raises counts as taken, for the error was delivered in its place: tried
    again, it would change places with the steps of the other workers.
    """

    def __init__(self, dataset: LoaderDataset, steps: BatchIterator) -> None:
        self._dataset, self._steps = dataset, steps
        self.has_ended = False
        self.is_passed = False
        """Whether it ended, and the loop of its worker continues."""

    def __next__(self) -> Batch:
        """Return the batch of the worker's next step."""
        step = self._dataset.loader.view().position.now.step
        try:
            return next(self._steps)
        except StopIteration:
            self.has_ended = self.is_passed = True
            raise
        except CancelledError:
            raise
        except Exception as error:
            _FAILURES.append((self._dataset, step, error))
            self._steps.pass_over()
            raise


def _register_reducers() -> None:
    """Say how a worker pickles what it sends, besides batches, to the main process."""
    # Rows of bytes are memoryviews, which cannot be pickled otherwise.
    ForkingPickler.register(memoryview, _as_bytes)
    ForkingPickler.register(_IterableDatasetStopIteration, _as_end)
    ForkingPickler.register(ExceptionWrapper, _as_failure)


def _as_end(stop: Any) -> tuple[Callable[..., _End], tuple[Any, ...]]:
    """Pickle the message that a worker has no more steps, with its datasets' ends."""
    worker = get_worker_info()
    ends = [dataset.take_end(worker) for dataset in _ITERATED.values()]
    return _End, (stop.worker_id, [end for end in ends if end is not None])


def _as_failure(wrapper: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle the error of a step with its attributes, which torch would leave out."""
    name, step, attributes = "", -1, {}
    while _FAILURES:
        dataset, step, error = _FAILURES.popleft()
        if type(error) is wrapper.exc_type and str(error) in wrapper.exc_msg:
            name, attributes = dataset._name, vars(error)  # noqa: SLF001 - of one module
            break
    plain = {name: attributes[name] for name in attributes if name != "__notes__"}
    told = wrapper.exc_type, wrapper.exc_msg, wrapper.where, name, step, plain
    return _failure, told


def _failure(
    kind: type[Exception], message: str, where: str, *told: Any
) -> ExceptionWrapper:
    """Return torch's wrapper of an error, which raises it with its attributes."""
    wrapper = ExceptionWrapper.__new__(ExceptionWrapper)
    wrapper.exc_type, wrapper.exc_msg, wrapper.where = kind, message, where
    if told[0]:
        wrapper.exc_type = _Failure(kind, *told)
    return wrapper


class _Failure:
    """Stands for the class of a worker's error; torch calls it with the message."""

    def __init__(
        self, kind: type[Exception], name: str, step: int, attributes: dict[str, Any]
    ) -> None:
        self.__name__ = kind.__name__
        self._kind, self._name = kind, name
        self._step, self._attributes = step, attributes

    def __call__(self, message: str) -> Exception:
        """Return the error; the dataset notes the steps that it names."""
        error = self._kind(message)
        vars(error).update(self._attributes)
        dataset = _DATASETS.get(self._name)
        if dataset is not None:
            steps = {self._step, *self._attributes.get("steps", ())}
            dataset._notice.failed |= steps  # noqa: SLF001 - of one module
        return error


class _End(_IterableDatasetStopIteration):
    """Signals a ``DataLoader`` that a worker has no more steps.

    The ``DataLoader`` asks for ``worker_id`` when its consumer wants a batch that is
    not there. Once it has asked for all workers, its consumer has taken all steps.
    """

    _told: list[Any]

    def __init__(self, worker: int, ends: list[Any]) -> None:
        object.__setattr__(self, "_told", [worker, ends])

    @property
    def worker_id(self) -> int:
        """Number of the worker; the first reading counts the end."""
        worker, ends = self._told
        found = [(_DATASETS.get(name), end) for name, *end in ends]
        for dataset, end in found:
            if dataset is not None and end:
                dataset.ended(*end)
        self._told[1] = [(name,) for name, *_ in ends]
        if any(dataset is not None and dataset.is_over for dataset, _ in found):
            _snapshot_end(worker, sys._getframe(1).f_locals)  # noqa: SLF001 - torch's
        return int(worker)


def _snapshot_end(worker: int, caller: Mapping[str, Any]) -> None:
    """Let a ``StatefulDataLoader`` know the state of all workers at their end.

    It keeps their states every ``snapshot_every_n_steps``, of which the end need not be
    one: a loaded state would go back to the one before, and not know of the end.
    """
    loop: Any = caller.get("self")
    if caller.get("state_dict") is None or not hasattr(loop, "_update_snapshot"):
        return
    key = loop._worker_key(worker)  # noqa: SLF001 - torchdata's
    loop._update_worker_snapshot(key, caller["state_dict"])  # noqa: SLF001
    loop._update_snapshot(  # noqa: SLF001
        loop._num_yielded,  # noqa: SLF001
        loop._last_yielded_worker_id,  # noqa: SLF001
        loop._num_workers,  # noqa: SLF001
        loop._get_main_state(),  # noqa: SLF001
        loop._worker_snapshots,  # noqa: SLF001
    )


def _as_bytes(view: memoryview) -> tuple[Callable[[bytes], memoryview], tuple[bytes]]:
    """Pickle a view as bytes."""
    return memoryview, (bytes(view),)


def _shared(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return zeros in memory that is shared with other processes, also by pickle."""
    zeros: Any = torch.zeros(size, dtype=dtype)
    return zeros.share_memory_()


def as_dataset(loader: AnyLoader) -> LoaderDataset:
    """Wrap a loader for ``DataLoader(dataset, batch_size=None)``.

    With any number of workers, forked or spawned, every step is delivered once and in
    order. The workers share the memory and threads of the loader. Each loop runs the
    next epoch, also in another ``DataLoader`` over the same dataset; a loop that you
    leave early begins its epoch again.

    To save a state with workers, use ``StatefulDataLoader`` of
    ``torchdata.stateful_dataloader``, which collects the states of the workers. With a
    plain ``DataLoader``, ``state_dict`` of the dataset is exact without workers, and
    between two epochs.

    A worker cannot tell whether the others have steps left. So a state that several
    workers saved inside the loop, after its last step, first gives an empty loop, and
    then the next epoch.

    While workers run, ``seek``, ``set_epoch`` and ``load_state_dict`` of the loader say
    where the next loop begins. ``skip`` is refused, except for the steps of a worker's
    error. A worker does not try a step again that raised: the next step follows.
    A dataset of your own around this one ends an epoch only if this one ended.

    Example:
        >>> from torch.utils.data import DataLoader  # doctest: +SKIP
        >>> for batch in DataLoader(as_dataset(loader), batch_size=None):
        ...     train(batch)  # doctest: +SKIP
    """
    check_loader(loader, "as_dataset")
    return LoaderDataset(loader)
