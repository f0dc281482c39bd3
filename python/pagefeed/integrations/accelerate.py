"""Accelerate: a loader that is left whole, moved to the device and saved.

``accelerator.prepare`` would rebuild a DataLoader, and with several processes read that
of rank 0 alone. This is none: it passes through ``prepare`` as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagefeed._base import require
from pagefeed.integrations.checks import check_has
from pagefeed.integrations.delivery import Delivery, Start
from pagefeed.integrations.dialects import in_rows
from pagefeed.integrations.evaluation import TokenMeans, held_out
from pagefeed.launch import Ranks, from_mesh
from pagefeed.loader import Loader, loader_session_of, session_of

accelerate = require(
    "accelerate", extra="accelerate", purpose="pagefeed.integrations.accelerate"
)
_Mixin: Any = accelerate.data_loader.DataLoaderStateMixin
_IterableDataset: Any = require(
    "torch.utils.data", extra="torch", purpose="pagefeed.integrations.accelerate"
).IterableDataset

__all__ = ["PreparedLoader", "Skippable", "evaluate", "expected_ranks", "prepare"]

WHO = "Accelerate"

LossOf = Callable[[Any, Any], tuple[Any, Any]]
"""From model and batch to loss and logits."""


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
            num_behind = loader_session_of(self._delivery.loader).following.step
        yield from [None] * num_behind
        yield from self._delivery

    def __len__(self) -> int:
        """Return the sequences of an epoch, which trainers count as examples."""
        return self._delivery.loader.num_sequences


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
        settings: Of :class:`Delivery`.
    """

    _drop_last = True  # Which rows of the last steps count is known below.

    def __init__(self, accelerator: Any, loader: Loader, **settings: Any) -> None:  # noqa: ANN401
        check_has(
            accelerator,
            ["process_index", "gather_for_metrics"],
            "an accelerate.Accelerator: prepare(accelerator, loader)",
        )
        ranks = expected_ranks(accelerator)
        Skippable.__init__(self, loader, WHO, ranks=ranks, **settings)
        self._accelerator = accelerator
        self.gradient_state = accelerate.state.GradientState()
        self.reset()
        self._ranks = accelerate.utils.gather_object([loader.rank])
        if not isinstance(accelerator.gather_for_metrics, _Gather):
            accelerator.gather_for_metrics = _Gather(accelerator)

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

    def rows_gathered(self) -> NDArray[np.bool_] | None:
        """Return which rows of a batch, gathered from all processes, are to be kept.

        Returns:
            bool [processes * batch_size], each row of the data once; None for all.
        """
        left, world_size = self.loader.num_steps_left, self.loader.world_size
        if len(self._ranks) == world_size and (left is None or left > 1):
            return None  # Padding is in the last two steps alone.
        session, ranks = session_of(self.loader), self._ranks
        kept = [
            (session.last_datasets(rank) >= 0) & (ranks.index(rank) == number)
            for number, rank in enumerate(ranks)
        ]
        return np.concatenate(kept)


class _Gather:
    """``gather_for_metrics``, each row of a prepared loader once, and no padding."""

    def __init__(self, accelerator: Any) -> None:  # noqa: ANN401
        self._accelerator = accelerator
        self._gather = accelerator.gather_for_metrics

    def __call__(self, input_data: Any, use_gather_object: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002
        """Gather over all processes."""
        found = self._gather(input_data, use_gather_object)
        state = self._accelerator.gradient_state
        active = state.active_dataloader
        kept = active.rows_gathered() if isinstance(active, PreparedLoader) else None
        if kept is None:
            return found
        if isinstance(found, list) and (
            use_gather_object or not all(map(accelerate.utils.is_torch_tensor, found))
        ):
            is_of_rows = len(found) == len(kept)
            return list(compress(found, kept)) if is_of_rows else found

        def rows(tensor: Any) -> Any:  # noqa: ANN401
            is_of_rows = tensor.ndim and len(tensor) == len(kept)
            return tensor[kept] if is_of_rows else tensor

        return accelerate.utils.recursively_apply(rows, found)


def prepare(
    accelerator: Any,  # noqa: ANN401 - Accelerate has no types
    loader: Loader,
    *,
    start: Start = "epoch",
) -> PreparedLoader:
    """Return a loader to iterate beside what ``accelerator.prepare`` returned.

    Batches arrive on the accelerator's device; gradients are synchronised at the end of
    an epoch (``accelerator.accumulate``); ``save_state`` and ``load_state`` save and
    restore the position, at any number of processes. Iterations begin as those of the
    loader do. ``skip_first_batches`` after ``load_state`` skips nothing more.
    ``accelerator.gather_for_metrics`` gives every row once, whatever fills up the last
    step.

    Args:
        accelerator: The ``accelerate.Accelerator``.
        loader: With ``format="torch"`` and the accelerator's data-parallel rank.
        start: ``"here"`` to begin where an iteration was left, not at an epoch.

    Raises:
        InvalidArgumentError: If the loader has another rank, or gives arrays.

    Example:
        >>> model, optimizer = accelerator.prepare(model, optimizer)  # doctest: +SKIP
        >>> loader = prepare(accelerator, loader)  # doctest: +SKIP
    """
    prepared = PreparedLoader(accelerator, loader, start=start)
    prepared.begin_run()
    accelerator.register_for_checkpointing(prepared)
    return prepared


def evaluate(
    accelerator: Any,  # noqa: ANN401 - Accelerate has no types
    model: Any,  # noqa: ANN401 - a module
    evaluation: Loader | Mapping[str, Loader],
    *,
    loss: LossOf | None = None,
) -> dict[str, float]:
    """Return the mean loss over the tokens of held-out data; on all processes.

    Args:
        accelerator: The ``accelerate.Accelerator``.
        model: What ``accelerator.prepare`` returned.
        evaluation: A loader with the field ``labels`` and ``drop_last=False``, or
            several by name. The same batches come every time.
        loss: From model and batch to the mean loss over the batch's labels, and the
            logits, which only a mixture needs; by default of what models of
            transformers return.

    Returns:
        ``loss``, of a mixture also ``loss/DATASET``; of several ``NAME_loss``.

    Raises:
        InvalidArgumentError: If a loader does not fit.
    """
    torch = require("torch", extra="torch", purpose="evaluate")
    found: dict[str, float] = {}
    was_training = model.training
    model.eval()
    for name, each in held_out(evaluation).items():
        batches = PreparedLoader(accelerator, each, kind="again")
        batches.loader.check_ranks()
        means = TokenMeans(each)
        with torch.no_grad():
            for batch in batches:
                means.add(batch["labels"], *(loss or _loss_of)(model, batch))
        batches.rewind()
        losses = means.result()
        found |= {f"{name}_{key}" if name else key: losses[key] for key in losses}
    model.train(was_training)
    return found


def _loss_of(model: Any, batch: Any) -> tuple[Any, Any]:  # noqa: ANN401
    outputs = model(**in_rows(batch))
    return outputs["loss"], outputs.get("logits")
