"""PyTorch: a loader as an ``IterableDataset`` of whole batches.

For trainers that insist on ``torch.utils.data.DataLoader``. The loader itself needs
none: it has its own threads, and ``for batch in loader`` is the fastest way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import Any

from pagefeed.batches import Batch
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
from pagefeed.loader import Loader, session_of, share
from pagefeed.run import MAX_STATE_BYTES, LoaderState

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
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
"""Torch clears and copies tensors of twice as much or more by OpenMP, whose threads a
process that is forked later would wait for in vain."""


class _Notice:
    """Where the next epoch begins, in memory that a process shares with its workers.

    Workers that live for many epochs have copies of the loader, which would not learn
    of a ``set_epoch`` in the process that has the original.
    """

    def __init__(self) -> None:
        self._pieces = [
            _shared(PIECE_BYTES, torch.uint8)
            for _ in range(0, MAX_STATE_BYTES, PIECE_BYTES)
        ]
        self._number = _shared(1, torch.int64)
        self._used_by_workers = _shared(1, torch.int64)
        self._num_seen = 0  # Each process has its own.

    def moved(self, state: LoaderState) -> None:
        """Write down a move."""
        text = json.dumps(state.to_dict()).encode().ljust(MAX_STATE_BYTES)
        for number, piece in enumerate(self._pieces):
            part = bytearray(text[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])
            piece.copy_(torch.frombuffer(part, dtype=torch.uint8))
        self._num_seen += 1
        self._number.fill_(self._num_seen)
        self._used_by_workers.fill_(0)

    def started_here(self) -> None:
        """Note that this process iterates itself."""
        self._used_by_workers.fill_(0)

    def news(self) -> dict[str, Any] | None:
        """Return the place of the last move if this worker has not seen it."""
        self._used_by_workers.fill_(1)
        number = int(self._number.item())
        if number == self._num_seen:
            return None
        self._num_seen = number
        text = b"".join(bytes(piece.numpy()) for piece in self._pieces)
        state: dict[str, Any] = json.loads(text)
        return state

    def check_state(self) -> None:
        """Refuse to give a state when it is the workers who know it."""
        if self._used_by_workers.item():
            raise InvalidArgumentError(
                "worker processes of a DataLoader iterate, and this process does not "
                "know how far its trainer is: use torchdata's StatefulDataLoader and "
                "its state_dict(), or call seek(steps taken) of the loader before its "
                "state_dict(), or use num_workers=0"
            )


class LoaderDataset(IterableDataset[Batch]):
    """Whole batches of a loader; made by :func:`as_dataset`."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._notice = _Notice()
        self._is_worker = self._has_run = False
        session_of(loader).listener = self._notice

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a loader that begins where the next iteration would."""
        return self.__dict__ | {"loader": share(self.loader, 1)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Follow the moves of the copied loader."""
        self.__dict__.update(state)
        session_of(self.loader).listener = self._notice

    def __iter__(self) -> Iterator[Batch]:
        """Yield all steps, or in a worker process every ``num_workers``-th.

        Raises:
            InvalidArgumentError: If a framework would shard these batches once more.
        """
        check_readers(self.loader)
        worker = get_worker_info()
        if worker is None:
            self._notice.started_here()
            return iter(self.loader)
        # What rows of bytes come as, which a queue of processes would refuse.
        ForkingPickler.register(memoryview, _as_bytes)
        self._become(worker.num_workers)
        news = self._notice.news()
        if self._has_run and news is not None:
            self.loader.load_state_dict(news)
        self._has_run = True
        return session_of(self.loader).iterate(
            worker=worker.id, num_workers=worker.num_workers
        )

    def _become(self, num_workers: int) -> None:
        """Make this, in a worker, its own share of the loader, for all its epochs."""
        if not self._is_worker:
            self.loader, self._is_worker = share(self.loader, num_workers), True

    def __len__(self) -> int:
        """Return the steps of an iteration."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run an epoch, see :meth:`Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader of this process.

        Raises:
            InvalidArgumentError: If worker processes iterate, of whose progress this
                process does not know.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a state, see :meth:`Loader.load_state_dict`."""
        worker = get_worker_info()
        if worker is not None:
            self._become(worker.num_workers)
        self.loader.load_state_dict(state)


def _as_bytes(view: memoryview) -> tuple[Callable[[bytes], memoryview], tuple[bytes]]:
    """Pickle a view by what it shows."""
    return memoryview, (bytes(view),)


def _shared(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return zeros in memory that other processes see, also after a pickle."""
    zeros: Any = torch.zeros(size, dtype=dtype)
    tensor: torch.Tensor = zeros.share_memory_()
    return tensor


def as_dataset(loader: Loader) -> LoaderDataset:
    """Wrap a loader for ``DataLoader(dataset, batch_size=None)``.

    With any number of workers, forked or spawned, every step is delivered once and in
    order; the workers share the loader's memory and threads. To save a state with
    workers use ``torchdata.stateful_dataloader.StatefulDataLoader``, which collects
    the workers' own states; with plain ``DataLoader`` and no worker ``state_dict`` of
    the dataset is exact. A state that was saved with several workers after the last
    step of an epoch gives an empty loop, and then the next epoch: a worker cannot tell
    whether the others have steps left.

    Workers with ``persistent_workers=True`` go on to the next epoch by themselves.
    Others are started anew for every loop, from the loader of this process, which does
    not run: call ``set_epoch`` before each loop, or all loops are the same epoch.

    Example:
        >>> from torch.utils.data import DataLoader  # doctest: +SKIP
        >>> for batch in DataLoader(as_dataset(loader), batch_size=None):
        ...     train(batch)  # doctest: +SKIP
    """
    check_loader(loader, "as_dataset")
    return LoaderDataset(loader)
