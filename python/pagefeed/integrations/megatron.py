"""Megatron: an external dataloader, placed by the number of consumed samples.

With ``--dataloader-type external`` Megatron takes micro-batches from the iterators that
a dataset provider returns. It restores no position, so ``consumed_train_samples`` says
where an iterator begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pagefeed.core._base import check_callable, check_whole, require
from pagefeed.core.batches import Fields
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import (
    check_counted,
    check_fields,
    check_maker,
)
from pagefeed.integrations.delivery import ResumableDelivery
from pagefeed.integrations.dialects import megatron as micro_batch
from pagefeed.integrations.dialects import packed_parameters
from pagefeed.integrations.learning import EVERY, make_learner
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import from_megatron
from pagefeed.mixing import Policy, Replacing

_calculator: Any = require(
    "megatron.core.num_microbatches_calculator",
    extra="megatron",
    purpose=__name__,
)

warn_of_newer("megatron-core")

__all__ = ["FIELDS", "MicroBatches", "dataset_provider", "packed_sequences"]

WHO = "Megatron"
NEEDED = ("labels", "loss_mask", "position_ids")

FIELDS = Fields(
    names=("input_ids", *NEEDED), shifted=True, dtypes={"loss_mask": "float32"}
)
"""Fields that become a micro-batch without a copy."""


class MicroBatches(Iterator[Any]):
    """Micro-batches without end, for Megatron's ``external`` dataloader.

    Args:
        loader: With ``epochs=None`` (or a mixture that does not end),
            ``format="torch"``, and Megatron's data-parallel rank and micro-batch size.
            Its fields are ``FIELDS`` of this module, or others that include these names
            and are shifted; a mask that is not float32 is copied. With ``dataset_ids``
            as well, the forward step gives :attr:`learner` the losses of tokens.
        consumed_samples: Number of sequences that all ranks together consumed before,
            at any number of ranks. A resume needs nothing else, unless a policy changes
            weights. With a policy, also give what ``save_state`` returned to
            ``restore_state``.
        policy: Changes the weights of a mixture by its datasets' losses.
        every: Steps of the loader between two updates of the policy.

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """

    def __init__(
        self,
        loader: Loader,
        *,
        consumed_samples: int = 0,
        policy: Policy | Replacing | None = None,
        every: int = EVERY,
    ) -> None:
        check_counted(loader, WHO)
        check_fields(loader, NEEDED, WHO)
        ranks = from_megatron()
        batches = ResumableDelivery(
            loader, WHO, ranks=ranks, endless=True, cutting=None
        )
        if not loader.fields.shifted:
            raise InvalidArgumentError(
                "Megatron predicts labels[i] from tokens[i]: give the Loader "
                "fields=pagefeed.integrations.megatron.FIELDS, or others with "
                "shifted=True"
            )
        if loader.num_steps_left is not None:
            raise InvalidArgumentError(
                "Megatron counts samples through all epochs: give the Loader "
                "epochs=None, or the mixture no end"
            )
        step = loader.batch_size * loader.world_size
        consumed = check_whole(consumed_samples, "consumed_samples", least=0)
        if consumed % step:
            raise InvalidArgumentError(
                f"consumed_samples={consumed} is not a multiple of micro-batch size x "
                f"data-parallel size = {loader.batch_size} x {loader.world_size}"
            )
        if consumed or not batches.is_resumed:
            loader.seek(consumed // step)
        with suppress(AttributeError):  # In a loop that has not set Megatron up.
            batches.accumulate(_calculator.get_num_microbatches())
        batches.begin_run(f"consumed_samples={consumed}" if consumed else None)
        self.loader = loader
        self.learner = make_learner(loader, policy, every)
        """Adds up the losses of datasets, if the loader has ``dataset_ids``."""
        datasets = loader.view().run.datasets
        given = any(column.column == "loss_mask" for column in datasets[0].aligned)
        batches.convert = partial(micro_batch, mask_is_given=given)
        self._delivery, self._batches = batches, iter(batches)

    def __next__(self) -> dict[str, Any]:
        """Return the next micro-batch."""
        return next(self._batches)

    def save_state(self) -> dict[str, str]:
        """Return the position, for ``--dataloader-save``."""
        return self._delivery.state_dict()

    def restore_state(self, state: dict[str, str]) -> None:
        """Continue at a saved position."""
        self._delivery.load_state_dict(state)
        self._batches = iter(self._delivery)


def dataset_provider(
    train: Callable[[int, int], Loader],
    valid: Callable[[int, int], Loader] | None = None,
    *,
    consumed_samples: Callable[[], int] | None = None,
    policy: Policy | Replacing | None = None,
    every: int = EVERY,
) -> Callable[..., tuple[Any, Any, Any]]:
    """Return a ``train_valid_test_datasets_provider`` for ``pretrain``.

    Args:
        train: Makes the loader of rank and world size, with Megatron's micro-batch
            size as ``batch_size``.
        valid: The same for validation. Each evaluation of Megatron continues where the
            last one stopped.
        consumed_samples: Returns the number of consumed training samples; by default
            Megatron's ``args.consumed_train_samples``.
        policy: Policy of the training, see :class:`MicroBatches`. The forward step
            gives ``data_iterator.iterable.learner`` the losses of tokens.
        every: Steps of the loader between two updates of the policy.
    """
    check_maker(train, "train")
    if valid is not None:
        check_maker(valid, "valid")
    check_callable(consumed_samples, "consumed_samples")

    def provide(
        train_val_test_num_samples: Any, vp_stage: int | None = None
    ) -> tuple[Any, Any, Any]:
        del train_val_test_num_samples, vp_stage  # Each stage has its own iterator.
        ranks = from_megatron()
        consumed = (consumed_samples or _consumed)()
        training = MicroBatches(
            train(*ranks), consumed_samples=consumed, policy=policy, every=every
        )
        validation = None if valid is None else MicroBatches(valid(*ranks))
        return training, validation, None

    # Else it is called on the first rank of a tensor-parallel group alone.
    provide.is_distributed = True  # type: ignore[attr-defined]
    return provide


def packed_sequences(batch: Mapping[str, Any]) -> Any:
    """Return the ``PackedSeqParams`` of a micro-batch, for attention inside documents.

    The loader needs the fields ``cu_seqlens``, ``cu_seqlens_padded`` and ``max_seqlen``
    in addition to ``FIELDS``. With context parallelism, give it
    ``Packed(multiple_of=2 * size)`` and a ``context_parallel``. Then leave out
    Megatron's own ``get_batch_on_this_cp_rank``: the micro-batch already is the part of
    this rank.

    Args:
        batch: The micro-batch; the borders are those of its flattened tokens.

    Example:
        >>> model(batch["tokens"].reshape(1, -1), ...,
        ...       packed_seq_params=packed_sequences(batch))  # doctest: +SKIP
    """
    core = require("megatron.core.packed_seq_params", extra="megatron", purpose=WHO)
    return core.PackedSeqParams(**packed_parameters(batch))


def _consumed() -> int:
    training = require(
        "megatron.training", extra="megatron", purpose="dataset_provider"
    )
    return int(training.get_args().consumed_train_samples)
