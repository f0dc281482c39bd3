"""Accelerate: batches on its device, checkpoints, exact evaluation.

``accelerator.prepare`` rebuilds a DataLoader, and with several processes reads only the
one of rank 0. :func:`prepare` of this module returns something else than a DataLoader,
so that ``accelerator.prepare`` leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagefeed.core._base import check_callable, require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.loader import Loader
from pagefeed.core.run import Grown
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import check_counted, check_has
from pagefeed.integrations.delivery import ResumableDelivery, Start
from pagefeed.integrations.dialects import in_rows
from pagefeed.integrations.evaluation import TokenMeans, held_out
from pagefeed.integrations.layers import Leak, check_layers
from pagefeed.integrations.learning import EVERY, make_learner
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import Ranks, from_mesh
from pagefeed.mixing import Learner, Policy, Replacing

accelerate = require("accelerate", extra="accelerate", purpose=__name__)
_Mixin: Any = accelerate.data_loader.DataLoaderStateMixin
_torch: Any = require("torch", extra="torch", purpose=__name__)
_IterableDataset: Any = _torch.utils.data.IterableDataset

warn_of_newer("accelerate")

__all__ = ["PreparedLoader", "Skippable", "evaluate", "expected_ranks", "prepare"]

WHO = "Accelerate"

ACCELERATOR = (
    ["process_index", "gather_for_metrics"],
    "an accelerate.Accelerator as the first argument",
)
"""Attributes of an ``Accelerator``, and its name in messages."""

LossOf = Callable[[Any, Any], tuple[Any, Any]]
"""Computes loss and logits from model and batch."""


def expected_ranks(accelerator: Any) -> Ranks:
    """Return the data-parallel rank of an ``Accelerator``'s process.

    Tensor and context parallel peers share a rank. So do sequence parallel peers,
    unless DeepSpeed's adapter gathers a batch from each of them.
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
    """The dataset that ``skip_first_batches`` makes a DataLoader of.

    A trainer that resumes iterates over consumed batches to skip them. The position was
    restored already, so each consumed step yields None and reads nothing.

    Args:
        delivery: The batches from the position on.
        num_behind: Number of steps that will be skipped; None for the loader's position
            in its epoch.
    """

    def __init__(self, delivery: Any, num_behind: int | None) -> None:
        self._delivery = delivery
        self._num_behind = num_behind

    def __iter__(self) -> Iterator[Any]:
        """Yield None for steps that are done, then the batches."""
        num_behind = self._num_behind
        if num_behind is None:
            num_behind = self._delivery.loader.view().position.next.step
        yield from [None] * num_behind
        yield from self._delivery

    def __len__(self) -> int:
        """Return the sequences of an epoch, which trainers count as examples."""
        return self._delivery.loader.num_sequences


class SkipsFirst:
    """Batches with the attributes that ``skip_first_batches`` reads."""

    batch_size = None
    drop_last = False
    prefetch_factor = None
    num_behind: int | None = None
    """See :class:`Remaining`."""

    @property
    def dataset(self) -> Remaining:
        """The remaining batches."""
        return Remaining(self, self.num_behind)


class Skippable(SkipsFirst, ResumableDelivery):
    """A delivery that trainers skip batches of, and resume."""


class PreparedLoader(_Mixin, Skippable):
    """The result of :func:`prepare`.

    Args:
        accelerator: The ``accelerate.Accelerator``; batches go to its device.
        loader: The loader of the batches.
        settings: Settings of :class:`Delivery`.
    """

    learner: Learner | None = None
    """Adds up the losses of datasets, if the loader has ``dataset_ids``."""
    _num_rows = 0
    """Rows of the last batch."""
    _drop_last = True  # `rows_gathered` knows the padding of the last steps.

    def __init__(self, accelerator: Any, loader: AnyLoader, **settings: Any) -> None:
        check_has(accelerator, *ACCELERATOR)
        ranks = expected_ranks(accelerator)
        cutting = "it cuts them itself, by ParallelismConfig(cp_size=...)"
        Skippable.__init__(self, loader, WHO, ranks=ranks, cutting=cutting, **settings)
        self._accelerator = accelerator
        self.gradient_state = accelerate.state.GradientState()
        self.reset()
        self._ranks = accelerate.utils.gather_object([loader.rank])
        if not isinstance(accelerator.gather_for_metrics, _Gather):
            accelerator.gather_for_metrics = _Gather(accelerator)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of an epoch; sets ``end_of_dataloader`` before the last."""
        self.begin()
        self.accumulate(self._accelerator.gradient_accumulation_steps)
        loader = self.loader
        try:
            for batch in Skippable.__iter__(self):
                self.end_of_dataloader = loader.num_steps_left == 0
                self._num_rows = len(batch["input_ids"]) if "input_ids" in batch else 0
                yield self._on_device(batch)
        finally:
            self.end()

    def _on_device(self, batch: Any) -> Any:
        device, pinned = self._accelerator.device, self.loader.pin_memory
        if type(batch) is not dict:
            move = accelerate.utils.send_to_device
            return move(batch, device, non_blocking=pinned)
        return {  # Columns of rows that are not tensors stay as they are.
            name: value.to(device, non_blocking=pinned)
            if isinstance(value, _torch.Tensor)
            else value
            for name, value in batch.items()
        }

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run an epoch; never undoes a resume."""
        self.loader.set_epoch(epoch)

    def rows_gathered(self) -> list[NDArray[np.bool_]] | None:
        """Return which gathered rows to keep from each process.

        Call it on all processes, where steps have a budget of tokens.

        Returns:
            For each process bool [rows of its batch], True once for each row of the
            data; None to keep all rows.
        """
        loader = self.loader
        left, is_even = loader.num_steps_left, len(self._ranks) == loader.world_size
        is_even &= not isinstance(loader, Loader) or loader.batch_tokens is None
        if is_even and (left is None or left > 1):
            return None  # Padding is in the last two steps alone.
        check_counted(loader, "gather_for_metrics of processes that share ranks")
        session, ranks = loader.view(), self._ranks
        is_kept = [
            (session.last_datasets(rank) >= 0) & (ranks.index(rank) == process)
            for process, rank in enumerate(ranks)
        ]
        if not session.run.takes_batches:
            return is_kept
        # With a budget of tokens, each rank has another number of rows.
        counts = accelerate.utils.gather_object([self._num_rows])
        both = zip(is_kept, counts, strict=True)
        return [np.repeat(of_rank.any(), count) for of_rank, count in both]


class _Gather:
    """``gather_for_metrics`` for prepared loaders: each row once, without padding."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator
        self._gather = accelerator.gather_for_metrics

    def __call__(self, input_data: Any, use_gather_object: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Gather over all processes."""
        active = self._accelerator.gradient_state.active_dataloader
        is_kept = active.rows_gathered() if isinstance(active, PreparedLoader) else None
        if is_kept is None:
            return self._gather(input_data, use_gather_object)
        if use_gather_object or not _are_tensors(input_data):
            rows = np.hstack(is_kept)
            gathered = self._gather(input_data, use_gather_object)
            is_of_rows = isinstance(gathered, list) and len(gathered) == len(rows)
            return list(compress(gathered, rows)) if is_of_rows else gathered
        return accelerate.utils.recursively_apply(
            lambda tensor: self._rows(tensor, is_kept), input_data
        )

    def _rows(self, tensor: Any, is_kept: list[NDArray[np.bool_]]) -> Any:
        """Gather a tensor.

        If its rows are those of the batch, return only those to keep.
        """
        if not tensor.ndim:
            return self._gather(tensor)
        counts = [len(rows) for rows in is_kept]
        most, mine = max(counts), len(tensor)
        sizes = [mine] * len(counts)
        if min(counts) < most:
            sizes = accelerate.utils.gather_object(sizes[:1])
        if sizes != counts:
            return self._gather(tensor)
        filled = tensor.new_zeros((most - mine, *tensor.shape[1:]))
        gathered = self._gather(_torch.cat([tensor, filled]) if mine < most else tensor)
        padded = [np.pad(rows, (0, most - len(rows))) for rows in is_kept]
        return gathered[np.hstack(padded)]


def _are_tensors(values: Any) -> bool:
    try:
        accelerate.utils.recursively_apply(
            lambda value: value, values, error_on_other_type=True
        )
    except TypeError:
        return False
    return True


def prepare(
    accelerator: Any,
    loader: AnyLoader,
    *,
    start: Start = "epoch",
    grown: Grown | None = None,
    policy: Policy | Replacing | None = None,
    every: int = EVERY,
    leak: Leak = "refused",
) -> PreparedLoader:
    """Return a loader to use with what ``accelerator.prepare`` returned.

    Batches arrive on the accelerator's device. ``accelerator.accumulate`` synchronises
    gradients at the end of an epoch. ``save_state`` and ``load_state`` save and restore
    the position, at any number of processes; ``skip_first_batches`` after
    ``load_state`` skips nothing more. ``accelerator.gather_for_metrics`` returns every
    row once, without the padding of the last step. Iterations begin where those of the
    loader would.

    For a mixture with the fields ``labels`` and ``dataset_ids``, call
    ``loader.learner.add(...)`` and ``loader.learner.step()`` in the loop, and log
    ``loader.learner.means()``; see :class:`pagefeed.mixing.Learner`.

    Args:
        accelerator: The ``accelerate.Accelerator``.
        loader: With ``format="torch"`` and the accelerator's data-parallel rank.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.
        policy: Changes the weights of a mixture by its datasets' losses.
        every: Steps of the loader between two updates of the policy.
        leak: ``"allowed"`` trains models with layers that carry a state over the
            documents of a row. Models that are prepared before the loader are checked.

    Raises:
        InvalidArgumentError: If the loader has another rank, or delivers NumPy arrays.

    Example:
        >>> model, optimizer = accelerator.prepare(model, optimizer)  # doctest: +SKIP
        >>> loader = prepare(accelerator, loader)  # doctest: +SKIP
    """
    prepared = PreparedLoader(accelerator, loader, start=start, grown=grown)
    prepared.learner = make_learner(loader, policy, every)
    models = getattr(accelerator, "_models", ())
    check_layers(models, loader, leak, WHO)
    prepared.begin_run()
    accelerator.register_for_checkpointing(prepared)
    return prepared


def evaluate(
    accelerator: Any,
    model: Any,
    evaluation: Loader | Mapping[str, Loader],
    *,
    loss: LossOf | None = None,
) -> dict[str, float]:
    """Return the mean loss over held-out tokens. Call it on all processes.

    Args:
        accelerator: The ``accelerate.Accelerator``.
        model: What ``accelerator.prepare`` returned.
        evaluation: A loader with the field ``labels`` and ``drop_last=False``, or
            several by name. The same batches come every time.
        loss: Function of model and batch that returns the mean loss over the batch's
            labels, and the logits, which only a mixture needs. By default it calls
            ``model(**batch)`` as models of transformers are called.

    Returns:
        ``loss``, and for a mixture ``loss/DATASET``; for several loaders
        ``NAME_loss``.

    Raises:
        InvalidArgumentError: If a loader does not fit.
    """
    check_has(accelerator, *ACCELERATOR)
    check_has(model, ["training", "eval"], "a torch.nn.Module as the second argument")
    loss = check_callable(loss, "loss") or _loss_of
    all_losses: dict[str, float] = {}
    was_training = model.training
    model.eval()
    for name, held in held_out(evaluation).items():
        batches = PreparedLoader(accelerator, held, kind="again")
        batches.loader.check_ranks()
        means = TokenMeans(held)
        with _torch.no_grad():
            for batch in batches:
                outcome = loss(model, batch)
                if not isinstance(outcome, tuple) or len(outcome) != 2:
                    raise InvalidArgumentError(
                        "loss must return the mean loss of the batch and the logits, "
                        f"or (loss, None), found {outcome!r:.60}"
                    )
                means.add(batch["labels"], *outcome)
        batches.rewind()
        losses = means.result()
        all_losses |= {f"{name}_{key}" if name else key: losses[key] for key in losses}
    model.train(was_training)
    return all_losses


def _loss_of(model: Any, batch: Any) -> tuple[Any, Any]:
    outputs = model(**in_rows(batch))
    return outputs["loss"], outputs.get("logits")
