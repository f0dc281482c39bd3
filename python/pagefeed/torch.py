"""PyTorch: a loader as an ``IterableDataset`` of whole batches.

For trainers that need a ``torch.utils.data.DataLoader``. A loader has threads of its
own: where you have the choice, ``for batch in loader`` is the fastest way.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any
from weakref import WeakValueDictionary

from pagefeed.core.any_loader import AnyLoader, share
from pagefeed.core.batches import Batch, RunView
from pagefeed.core.run import MAX_STATE_BYTES, LoaderState
from pagefeed.errors import InvalidArgumentError, MissingDependencyError
from pagefeed.integrations import (
    Leaf,
    check_isolation,
    check_loader,
    check_readers,
    flex_mask,
    sdpa_mask,
    varlen_arguments,
)

try:
    import torch
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
    "sdpa_mask",
    "varlen_arguments",
]


PIECE_BYTES = 16 << 10
"""Torch clears and copies tensors of twice this size by OpenMP. A process that is
forked later would wait for OpenMP's threads for ever."""


class _Notice:
    """Where the next epoch begins, in memory shared between a process and its workers.

    Workers have copies of the loader. By this notice they learn of a ``set_epoch`` in
    the process with the original, and of a state that earlier workers have loaded.
    """

    def __init__(self) -> None:
        self._pieces = [
            _shared(PIECE_BYTES, torch.uint8)
            for _ in range(0, MAX_STATE_BYTES, PIECE_BYTES)
        ]
        self._serial = _shared(1, torch.int64)
        self._used_by_workers = _shared(1, torch.int64)
        self._over = _shared(1, torch.int64)
        self._num_seen = 0  # Each process has its own.

    def moved(self, state: LoaderState) -> None:
        """Let worker processes know the position that the loader was moved to."""
        self._write(state, int(self._serial.item()) + 1)
        self._used_by_workers.fill_(0)
        self._over.fill_(0)

    def loaded(self, again: LoaderState, *, is_over: bool) -> None:
        """Publish, from a worker, the iteration that all workers have loaded.

        Args:
            again: Where the iteration began.
            is_over: Whether all its steps were taken; only one worker can know.
        """
        self._write(again, self._num_seen + 1)
        if is_over:
            self._over.fill_(again.first_epoch + 1)

    def is_over(self, again: LoaderState | None) -> bool:
        """Return whether the iteration that began at ``again`` is known to be over."""
        return again is not None and self._over.item() == again.first_epoch + 1

    def _write(self, state: LoaderState, serial: int) -> None:
        plain = state.to_dict()
        plain.pop("ended", None)
        text = json.dumps(plain).encode().ljust(MAX_STATE_BYTES)
        for index, piece in enumerate(self._pieces):
            content = bytearray(text[index * PIECE_BYTES : (index + 1) * PIECE_BYTES])
            piece.copy_(torch.frombuffer(content, dtype=torch.uint8))
        self._num_seen = serial
        self._serial.fill_(serial)

    def started_here(self) -> None:
        """Note that this process iterates itself."""
        self._used_by_workers.fill_(0)

    def news(self) -> dict[str, Any] | None:
        """Return the position the loader was moved to, if it is new to this worker."""
        self._used_by_workers.fill_(1)
        serial = int(self._serial.item())
        if serial == self._num_seen:
            return None
        self._num_seen = serial
        text = b"".join(bytes(piece.numpy()) for piece in self._pieces)
        return json.loads(text)

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
        self._is_worker = False
        self._num_begun = 0
        self._again: Any = None
        """State at which this worker begins again after a loop that was left early."""
        self._ended: tuple[Hashable, set[int]] = None, set()
        self._name = ""
        self._follow()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a loader that begins where the next iteration would."""
        state = self.__dict__ | {"loader": share(self.loader, 1)}
        return state if get_spawning_popen() else state | {"_name": ""}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Follow the moves of the copied loader."""
        self.__dict__.update(state)
        self._follow()

    def _follow(self) -> None:
        self.loader.view().listener = self._notice
        if not self._name:  # Else this is in a worker, the original elsewhere.
            self._name = secrets.token_hex(8)
            _DATASETS[self._name] = self

    def __iter__(self) -> Iterator[Batch]:
        """Yield all steps, or in a worker process every ``num_workers``-th.

        Raises:
            InvalidArgumentError: If a framework would shard these batches once more,
                or make batches of them.
        """
        check_readers(self.loader)
        if sys._getframe(1).f_locals.get("auto_collation"):  # noqa: SLF001 - torch's
            raise InvalidArgumentError(
                "these are whole batches, of which a DataLoader with a batch_size "
                "would make batches again: DataLoader(as_dataset(loader), "
                "batch_size=None); a trainer is fed by its module in "
                "pagefeed.integrations"
            )
        worker = get_worker_info()
        if worker is None:
            self._notice.started_here()
            return iter(self.loader)
        # What rows of bytes come as, which a queue of processes would refuse.
        ForkingPickler.register(memoryview, _as_bytes)
        ForkingPickler.register(_IterableDatasetStopIteration, self._end)
        self._become(worker.num_workers)
        session, news = self.loader.view(), self._notice.news()
        if news is not None:
            self.loader.load_state_dict(news)
        elif self._again is not None:
            session.resume(self._again)
        again = _again(session)
        if (news or self._again) and self._notice.is_over(again):
            session.resume(self.loader.view().run.after(again))
        self._num_begun += 1
        self._again = _again(session)
        return session.iterate(worker=worker.id, num_workers=worker.num_workers)

    def _become(self, num_workers: int) -> None:
        """Make this, in a worker, its own share of the loader, for all its epochs."""
        if not self._is_worker:
            self.loader, self._is_worker = share(self.loader, num_workers), True

    def _end(self, stop: Any) -> tuple[Callable[..., _End], tuple[Any, ...]]:
        """Return, for pickle, the message that this worker has no more steps."""
        worker: Any = get_worker_info()
        # The same in all workers of an iteration, and in those of no other.
        iteration = worker.seed - worker.id, self._num_begun
        state = self.loader.view().position.now.to_dict()
        return _End, (self._name, stop.worker_id, iteration, worker.num_workers, state)

    def ended(
        self, worker: int, iteration: Hashable, num_workers: int, state: dict[str, Any]
    ) -> None:
        """Go on to the next epoch when all workers have ended an iteration."""
        if self._ended[0] != iteration:
            self._ended = iteration, set()
        self._ended[1].add(worker)
        if len(self._ended[1]) == num_workers:
            self.loader.view().resume(LoaderState.from_dict(state))

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
            left = session.run.at(session.position.saved).route.num_steps
            self._notice.loaded(_again(session), is_over=left == 0)


def _again(session: Any) -> Any:
    """Return where an iteration begins again that is left early; None if unknown."""
    if not isinstance(session, RunView):
        return None
    return session.run.again(session.position.start)


_DATASETS: WeakValueDictionary[str, LoaderDataset] = WeakValueDictionary()
"""Datasets of this process, by the names that their workers know."""


class _End(_IterableDatasetStopIteration):
    """Signals a ``DataLoader`` that a worker has no more steps.

    The ``DataLoader`` asks for ``worker_id`` when its consumer wants a batch that is
    not there. Once it has asked for all workers, its consumer has taken all steps.
    """

    _told: list[Any]

    def __init__(self, *told: Any) -> None:
        object.__setattr__(self, "_told", list(told))

    @property
    def worker_id(self) -> int:
        """Number of the worker; reading it counts the end."""
        name, worker, *end = self._told
        self._told[0] = ""
        dataset = _DATASETS.get(name)
        if dataset is not None:
            dataset.ended(worker, *end)
        return int(worker)


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

    Example:
        >>> from torch.utils.data import DataLoader  # doctest: +SKIP
        >>> for batch in DataLoader(as_dataset(loader), batch_size=None):
        ...     train(batch)  # doctest: +SKIP
    """
    check_loader(loader, "as_dataset")
    return LoaderDataset(loader)
