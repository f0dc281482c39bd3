"""PyTorch: a loader as an ``IterableDataset`` of whole batches.

For trainers that insist on ``torch.utils.data.DataLoader``. The loader itself needs
none: it has its own threads, and ``for batch in loader`` is the fastest way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pagefeed.errors import MissingDependencyError
from pagefeed.loader import Batch, Loader

try:
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as error:
    raise MissingDependencyError(
        "pagefeed.torch needs PyTorch: pip install 'pagefeed[torch]'"
    ) from error

__all__ = ["LoaderDataset", "as_dataset"]


class LoaderDataset(IterableDataset[Batch]):
    """Whole batches of a loader; made by :func:`as_dataset`."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._is_share = False

    def __iter__(self) -> Iterator[Batch]:
        """Yield all steps, or in a worker process every ``num_workers``-th."""
        worker = get_worker_info()
        if worker is None:
            return iter(self.loader)
        if not self._is_share:
            # This is the worker's own copy: a worker may live for many epochs.
            self.loader, self._is_share = self.loader.share(worker.num_workers), True
        return self.loader.iterate(worker=worker.id, num_workers=worker.num_workers)

    def __len__(self) -> int:
        """Return the steps of an iteration."""
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader of this process."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a state, see :meth:`Loader.load_state_dict`."""
        self.loader.load_state_dict(state)


def as_dataset(loader: Loader) -> LoaderDataset:
    """Wrap a loader for ``DataLoader(dataset, batch_size=None)``.

    With any number of workers, forked or spawned, every step is delivered once and in
    order; the workers share the loader's memory and threads. To save a state with
    workers use ``torchdata.stateful_dataloader.StatefulDataLoader``, which collects
    the workers' own states; with plain ``DataLoader`` and no worker ``state_dict`` of
    the dataset is exact.

    Example:
        >>> from torch.utils.data import DataLoader  # doctest: +SKIP
        >>> for batch in DataLoader(as_dataset(loader), batch_size=None):
        ...     train(batch)  # doctest: +SKIP
    """
    return LoaderDataset(loader)
