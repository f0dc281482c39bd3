"""Accelerate: a loader that is left whole, moved to the device and saved.

``accelerator.prepare`` would rebuild a DataLoader, and with several processes read that
of rank 0 alone. This is none: it passes through ``prepare`` as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagefeed._base import require
from pagefeed.integrations.checks import check_has, check_ranks_of, check_torch
from pagefeed.integrations.delivery import Delivery
from pagefeed.launch import Ranks, from_mesh
from pagefeed.loader import Loader

accelerate = require(
    "accelerate", extra="accelerate", purpose="pagefeed.integrations.accelerate"
)
_Mixin: Any = accelerate.data_loader.DataLoaderStateMixin
_IterableDataset: Any = require(
    "torch.utils.data", extra="torch", purpose="pagefeed.integrations.accelerate"
).IterableDataset

__all__ = ["PreparedLoader", "Skippable", "expected_ranks", "prepare"]

WHO = "Accelerate"


def expected_ranks(accelerator: Any) -> Ranks:  # noqa: ANN401 - Accelerate has no types
    """Return the data-parallel rank of an ``Accelerator``'s process.

    Tensor and context parallel peers share one; so do those of sequence parallelism,
    unless DeepSpeed's adapter gathers a batch from each.
    """
    mesh = getattr(accelerator, "torch_device_mesh", None)
    if mesh is None:
        return Ranks(accelerator.process_index, accelerator.num_processes)
    config = getattr(accelerator, "parallelism_config", None)
    kinds = ["dp_replicate", "dp_shard"]
    if getattr(config, "sp_backend", None) == "deepspeed":
        kinds.append("sp")
    dims = [name for name in kinds if name in (mesh.mesh_dim_names or ())]
    return from_mesh(mesh, dims) if dims else Ranks(0, 1)


class Remaining(_IterableDataset):
    """What ``skip_first_batches`` makes a loader of: the steps behind are no batches.

    A trainer that resumes skips what was consumed by iterating over it. The position
    was restored already, so each of those steps yields None, and reads nothing.

    Args:
        delivery: The batches from the position on.
        num_behind: Steps that will be skipped; None for those the loader has behind.
    """

    def __init__(self, delivery: Delivery, num_behind: int | None) -> None:
        self._delivery = delivery
        self._num_behind = num_behind

    def __iter__(self) -> Iterator[Any]:
        """Yield the steps behind as None, then the batches."""
        num_behind = self._num_behind
        if num_behind is None:
            num_behind = self._delivery.loader.step
        yield from [None] * num_behind
        yield from self._delivery

    def __len__(self) -> int:
        """Return the steps of a whole epoch."""
        return len(self._delivery)


class Skippable(Delivery):
    """Has what ``skip_first_batches`` asks of a DataLoader to make another of it."""

    batch_size = None
    drop_last = False
    prefetch_factor = None
    num_behind: int | None = None
    """Steps it will skip; None for those the loader has behind."""

    @property
    def dataset(self) -> Remaining:
        """What it reads."""
        return Remaining(self, self.num_behind)


class PreparedLoader(_Mixin, Skippable):
    """A loader for ``for batch in loader`` beside an accelerator; see :func:`prepare`.

    Args:
        accelerator: Whose device batches go to.
        loader: Where they come from.
    """

    _drop_last = True  # No step is filled up with samples that metrics must not count.

    def __init__(self, accelerator: Any, loader: Loader) -> None:  # noqa: ANN401
        Skippable.__init__(self, loader, endless=False)
        self._accelerator = accelerator
        self.gradient_state = accelerate.state.GradientState()
        self.reset()

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch on the device; the last says that it is it."""
        self.begin()
        device = self._accelerator.device
        loader = self.loader
        try:
            for batch in Skippable.__iter__(self):
                self.end_of_dataloader = loader.num_steps_left == 0
                yield accelerate.utils.send_to_device(
                    batch, device, non_blocking=loader.pin_memory
                )
        finally:
            self.end()

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run an epoch; never undoes a resume."""
        self.loader.set_epoch(epoch)


def prepare(accelerator: Any, loader: Loader) -> PreparedLoader:  # noqa: ANN401
    """Return a loader to iterate beside what ``accelerator.prepare`` returned.

    Batches arrive on the accelerator's device; gradients are synchronised at the end of
    an epoch (``accelerator.accumulate``); ``save_state`` and ``load_state`` save and
    restore the position, at any number of processes. An iteration goes on where the
    last one stopped. ``skip_first_batches`` after ``load_state`` skips nothing more.

    Args:
        accelerator: The ``accelerate.Accelerator``.
        loader: With ``format="torch"`` and the accelerator's data-parallel rank.

    Raises:
        InvalidArgumentError: If the loader has another rank, or gives arrays.

    Example:
        >>> model, optimizer = accelerator.prepare(model, optimizer)  # doctest: +SKIP
        >>> loader = prepare(accelerator, loader)  # doctest: +SKIP
    """
    check_has(
        accelerator,
        ["process_index", "register_for_checkpointing"],
        "an accelerate.Accelerator: prepare(accelerator, loader)",
    )
    check_torch(loader, WHO)
    check_ranks_of(loader, expected_ranks(accelerator), WHO)
    loader.check_ranks()
    prepared = PreparedLoader(accelerator, loader)
    accelerator.register_for_checkpointing(prepared)
    return prepared
