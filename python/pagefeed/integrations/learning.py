"""Losses of datasets in a trainer's logs, and policies that change the weights.

Each adapter has a :class:`pagefeed.mixing.Learner` where its loader has the field
``dataset_ids``. Batches may be fetched ahead of their losses, as gradient accumulation
does: each keeps its own ``dataset_ids``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pagefeed.core._base import check_positive
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixing import Learner, Policy, Replacing
from pagefeed.mixture import Mixture

__all__ = ["EVERY", "WatchedLoss", "logits_of", "make_learner"]

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


def logits_of(outputs: Any) -> Any:
    """Return the logits among a model's outputs.

    Raises:
        InvalidArgumentError: If there are none.
    """
    logits = outputs.get("logits") if hasattr(outputs, "get") else None
    if logits is None:
        raise InvalidArgumentError(
            "losses of datasets need the model's logits, and it gave none: turn off "
            "what leaves them out (use_liger_kernel, loss_type='chunked_nll'), or "
            "leave dataset_ids out of the Loader's fields"
        )
    return logits


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
