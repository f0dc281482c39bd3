"""Losses of datasets in a trainer's logs, and policies that change the weights.

Each adapter has a :class:`pagefeed.mixing.Learner` where its loader has the field
``dataset_ids``. Batches may be fetched ahead of their losses, as gradient accumulation
does: each keeps its own ``dataset_ids``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pagefeed.core._base import check_positive
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.delivery import KEY, Delivery
from pagefeed.integrations.spikes import Spikes
from pagefeed.mixing import Learner, Policy, Replacing, token_losses
from pagefeed.mixture import Mixture

__all__ = ["EVERY", "WatchedLoss", "make_learner", "watch_losses"]

EVERY = 100
"""Steps of the loader between two updates of a policy."""


def make_learner(
    loader: AnyLoader,
    policy: Policy | Replacing | None,
    every: int = EVERY,
    group: Any = None,
) -> Learner | None:
    """Return a learner for a loader with the field ``dataset_ids``, else None.

    Raises:
        InvalidArgumentError: If the policy, or ``every``, cannot be right.
    """
    check_positive(every, "every")
    fields = loader.fields.names
    tells = {"dataset_ids", "labels"} <= {*fields}
    if tells and isinstance(loader, Loader) and isinstance(loader.dataset, Mixture):
        return Learner(loader, policy, every=every, group=group)
    if policy is not None:
        raise InvalidArgumentError(
            "a policy needs a mixture, and the fields labels and dataset_ids: give the "
            "Loader pagefeed.mix(...) and "
            f"fields={tuple(dict.fromkeys((*fields, 'labels', 'dataset_ids')))!r}"
        )
    return None


def losses_of(outputs: Any, labels: Any) -> Any:
    """Return the loss of each label, which is at the position of its token.

    Losses that a trainer has computed are taken, such as those of TRL's fused head.

    Args:
        outputs: What the model returned, with ``log_probs`` or ``logits``.
        labels: int [rows, tokens].

    Returns:
        float [rows, tokens]; the first of each row is 0.

    Raises:
        InvalidArgumentError: If there are neither.
    """
    named = outputs.get if hasattr(outputs, "get") else partial(getattr, outputs)
    log_probs, logits = (named(name, None) for name in ("log_probs", "logits"))
    if log_probs is not None:
        losses = -log_probs.detach()
    elif logits is not None:
        losses = token_losses(logits[:, :-1], labels[:, 1:])
    else:
        raise InvalidArgumentError(
            "losses of datasets and rows need the model's logits, and it gave none: "
            "turn off what leaves them out (use_liger_kernel), or leave dataset_ids "
            "out of the Loader's fields, and on_spike out of attach"
        )
    of_labels = losses.new_zeros(labels.shape)
    of_labels[:, 1:] = losses
    return of_labels


def watch_losses(
    trainer: Any, steps: Delivery, learner: Learner | None, spikes: Spikes | None
) -> None:
    """Let others see the losses of each training batch of a Trainer.

    Args:
        trainer: The ``transformers.Trainer``.
        steps: What gives its batches.
        learner: Adds up the losses of datasets.
        spikes: Tells of batches whose loss rises.
    """
    convert, before, loader = steps.convert, trainer.compute_loss, steps.loader

    def with_facts(batch: Batch) -> Any:
        converted = batch if convert is None else convert(batch)
        facts = {"step": loader.step - 1, "dataset_ids": batch.get("dataset_ids")}
        return {**converted, KEY: facts}

    def compute(
        model: Any,
        inputs: Any,
        return_outputs: bool = False,  # noqa: FBT001, FBT002 - as it is called
        num_items_in_batch: Any = None,
    ) -> Any:
        inputs = dict(inputs)
        facts, labels = inputs.pop(KEY, None), inputs.get("labels")
        settings = {
            "return_outputs": return_outputs,
            "num_items_in_batch": num_items_in_batch,
        }
        if facts is None:
            return before(model, inputs, **settings)
        seen: list[Any] = []
        hook = model.register_forward_hook(lambda *called: seen.append(called[-1]))
        try:
            computed = before(model, inputs, **settings)
        finally:
            hook.remove()
        if learner is not None:
            losses = losses_of(seen[-1], labels)
            learner.add(facts["dataset_ids"], labels, losses=losses)
        if spikes is not None:
            loss = (computed[0] if return_outputs else computed).detach()
            if num_items_in_batch is not None:  # It is of a whole update.
                num_labels = (labels != loader.fields.ignore_index).sum().clamp(min=1)
                loss = loss * num_items_in_batch / num_labels
            mean = float(loss)
            spikes.add(facts["step"], labels, mean, lambda: losses_of(seen[-1], labels))
        return computed

    steps.convert, trainer.compute_loss = with_facts, compute


class WatchedLoss:
    """A loss function of logits and labels that passes its batches to a learner.

    Args:
        loss: The function; called with logits, labels and its other arguments.
        learner: Adds the losses up.
    """

    def __init__(self, loss: Callable[..., Any], learner: Learner) -> None:
        if hasattr(loss, "set_lm_head"):
            raise InvalidArgumentError(
                f"{type(loss).__name__} computes logits inside the loss, chunk by "
                "chunk: losses of datasets need a loss function that takes logits"
            )
        self._loss = loss
        self._learner = learner
        self.ahead: deque[Any] = deque()
        """``dataset_ids`` of the batches that were handed out and have no loss yet."""

    def __call__(self, logits: Any, labels: Any, *args: Any, **settings: Any) -> Any:
        """Add the losses of the next batch, and return its loss."""
        if not self.ahead:  # An evaluation's.
            return self._loss(logits, labels, *args, **settings)
        self._learner.add(self.ahead.popleft(), labels, logits=logits)
        return self._loss(logits, labels, *args, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loss, name)
