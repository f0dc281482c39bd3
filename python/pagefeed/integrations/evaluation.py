"""Losses on held-out data: exact means over tokens, on any number of ranks.

The mean of the means of batches is not the mean over tokens: batches have different
numbers of labels, and the last ones have rows of padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import check_counted, check_fields
from pagefeed.launch import gather_from
from pagefeed.mixing import token_losses
from pagefeed.mixture import Mixture
from pagefeed.tokenizer import IGNORED

__all__ = ["TokenMeans", "by_name", "held_out", "measured"]


def by_name(evaluation: object) -> dict[str, Any]:
    """Return the evaluation loaders by name; a single one has the name "".

    Raises:
        InvalidArgumentError: If there is no loader, or several without names.
    """
    if not isinstance(evaluation, Mapping | list | tuple):
        return {"": evaluation}
    names = list(evaluation) if isinstance(evaluation, Mapping) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"evaluation={evaluation!r:.60} must be a Loader, or several by name: "
            "evaluation={'web': web, 'code': code}"
        )
    return dict(evaluation)


def held_out(evaluation: object, train: object = None) -> dict[str, Loader]:
    """Return the loaders of an evaluation by name; the name of a single one is empty.

    Args:
        evaluation: A loader, or several by name.
        train: The loader of the training, which cannot be one of them.

    Raises:
        InvalidArgumentError: If a loader would not give each of its sequences once.
    """
    named = by_name(evaluation)
    for name, loader in named.items():
        who = f"evaluation={name!r}" if name else "evaluation"
        check_counted(loader, who)
        check_fields(loader, ["labels"], who)
        if loader is train:
            raise InvalidArgumentError(
                f"{who} is the loader of the training, which would lose its position: "
                "make another of the held-out data"
            )
        if loader.num_steps_left is None or loader.epochs != 1:
            raise InvalidArgumentError(
                f"{who} must end: give its Loader epochs=1, or its mixture an end"
            )
        session = loader.view()
        num_sequences = session.run.at(session.position.next).route.num_sequences or 0
        rest = num_sequences % session.run.step_sequences
        if loader.drop_last and rest:
            raise InvalidArgumentError(
                f"{who} would leave out {rest} of {num_sequences} sequences: give its "
                "Loader drop_last=False"
            )
    return named


class TokenMeans:
    """Adds up the losses of an evaluation's batches; ``result`` returns their means.

    Args:
        loader: The loader of the batches. For a mixture, losses are added up for each
            dataset as well.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        mixture = isinstance(loader.dataset, Mixture)
        source: Any = loader.view().run
        self._names: list[str] = list(source.names) if mixture else []
        self._sums = np.zeros((1 + len(self._names), 2))
        self.needs_logits = bool(self._names)
        """Whether :meth:`add` takes the logits."""

    def add(self, labels: Any, loss: Any, logits: Any = None) -> int:
        """Add the losses of the batch that was taken last.

        Args:
            labels: The labels that the model was given.
            loss: Mean loss over the labels of this rank's batch.
            logits: The model's logits; needed for a mixture.

        Returns:
            The number of labels with a loss.

        Raises:
            InvalidArgumentError: If the logits of a mixture's batch are missing.
        """
        first = 0 if self._loader.fields.shifted else 1
        labels = labels[..., first:]
        num_labels = int((labels != IGNORED).sum())
        if num_labels:  # The mean of none is not a number.
            self._sums[0] += float(loss) * num_labels, num_labels
        if self._names:
            self._add_datasets(labels, logits, first)
        return num_labels

    def _add_datasets(self, labels: Any, logits: Any, first: int) -> None:
        if logits is None:
            raise InvalidArgumentError(
                "the losses of a mixture's datasets need the model's logits, and it "
                "gave none: turn off what leaves them out (use_liger_kernel, "
                "loss_type='chunked_nll'), or evaluate each dataset by a separate "
                "loader, evaluation={name: loader}"
            )
        session = self._loader.view()
        rows = session.last_datasets()
        if session.run.takes_batches and len(rows) > 1:
            raise InvalidArgumentError(
                "the losses of a mixture's datasets are distinguished by batches, and "
                "a rank joins several with global_batch_size=: evaluate with "
                "batch_tokens= alone"
            )
        whole = (*labels.shape[:-1], labels.shape[-1] + first)
        datasets = np.repeat(rows, np.prod(whole) // len(rows)).reshape(whole)
        datasets = datasets[..., first:].ravel()
        flat = logits[..., : labels.shape[-1], :].flatten(0, -2)
        targets = labels.flatten()
        losses = token_losses(flat, targets)
        counted = (targets != IGNORED).cpu().numpy()
        losses = losses.double().cpu().numpy()[counted]
        for weights, column in ((losses, 0), (None, 1)):
            self._sums[1:, column] += np.bincount(
                datasets[counted], weights, minlength=len(self._names)
            )

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return the sums of losses and the numbers of labels on this rank, by name."""
        names = ["loss", *(f"loss/{name}" for name in self._names)]
        return {
            name: (float(loss), float(labels))
            for name, (loss, labels) in zip(names, self._sums, strict=True)
        }

    def result(self) -> dict[str, float]:
        """Return means over the tokens of all ranks. Call it on all of them.

        Returns:
            ``loss``, and for a mixture ``loss/NAME`` of each dataset with labels.
        """
        self._sums = np.sum(gather_from()(self._sums), axis=0)
        sums = self.sums().items()
        return {name: loss / labels for name, (loss, labels) in sums if labels}


def measured(
    compute_loss: Any,
    means: TokenMeans,
    model: Any,
    inputs: Any,
    return_outputs: bool = False,  # noqa: FBT001, FBT002 - as it is called
    num_items_in_batch: Any = None,
) -> Any:
    """Return what ``compute_loss`` does, and add the loss to ``means``."""
    del num_items_in_batch
    labels = inputs.get("labels")
    # Ask for outputs only if needed: SFTTrainer runs the model again for them.
    asked = return_outputs or means.needs_logits
    computed = compute_loss(model, inputs, return_outputs=asked)
    loss, outputs = computed if asked else (computed, None)
    logits = outputs.get("logits") if isinstance(outputs, Mapping) else None
    if labels is not None and not means.add(labels, loss, logits):
        loss = loss.new_zeros(())
    return (loss, outputs) if return_outputs else loss
