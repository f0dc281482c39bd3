"""The documents of a step and their losses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core.loader import Loader
from pagefeed.core.run import Step
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports.sampling import check_counted


@dataclass(frozen=True, kw_only=True)
class DocumentLoss:
    """The loss of a document, or of its part in a row of a batch."""

    step: int
    """Step of the iteration."""
    row: int
    """Row of the batch."""
    dataset: str | None
    """Name of the dataset in a mixture."""
    file: str
    """Path of the file."""
    file_row: int
    """Row, counted within the file."""
    tokens: int
    """Tokens with a loss."""
    loss: float
    """Mean over these tokens."""
    share: float
    """Part of the summed loss of this rank's batch."""
    surprise: float
    """Loss over the mean of the dataset's tokens in this batch."""


def losses_by_row(
    loader: Loader, batch: Mapping[str, Any], losses: Any, *, step: int | None = None
) -> list[DocumentLoss]:
    """Return the loss of each document in a batch, the largest share first.

    It reads the lengths of the batch's documents, nothing else, and communicates
    nothing: each rank has its own table.

    Args:
        loader: The loader of the batch, of this rank.
        batch: With ``labels``, [rows, tokens] or joined.
        losses: The loss of each label, in the shape of the labels. If labels are at the
            position of their token, the loss of a label is at that position too, and
            the first loss of a row is not used.
        step: Step of the batch; by default the last one that the loader gave.

    Raises:
        InvalidArgumentError: If shapes do not fit, or there is no such step.

    Example:
        >>> import numpy as np
        >>> batch = next(iter(loader))
        >>> losses = np.ones(batch["labels"].shape)
        >>> [worst, *_] = losses_by_row(loader, batch, losses)
        >>> worst.loss, worst.surprise
        (1.0, 1.0)
    """
    check_counted(loader, "losses_by_row")
    labels, values = (_on_host(array) for array in (batch["labels"], losses))
    if labels.shape != values.shape:
        raise InvalidArgumentError(
            f"losses {[*values.shape]} must be one for each label, {[*labels.shape]}"
        )
    step = loader.step - 1 if step is None else step
    cursor, asked = loader.view().position.whole, Step(step)
    rows = cursor.rows(asked)
    labels, values = (array.reshape(len(labels), -1) for array in (labels, values))
    if len(labels) == 1:  # Rows may be joined.
        rows_in_all = loader.batch_size or len(rows)
        labels, values = (a.reshape(rows_in_all, -1) for a in (labels, values))
    counted = labels != loader.fields.ignore_index
    counted[:, : 0 if loader.fields.shifted else 1] = False
    sums: dict[Any, npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
    for row in rows:
        origins = cursor.origins(asked, row)
        ends = [*(origin.offset for origin in origins[1:]), labels.shape[1]]
        for origin, end in zip(origins, ends, strict=True):
            here = counted[row, origin.offset : end]
            loss = values[row, origin.offset : end][here].sum()
            key = (row, origin.dataset, origin.file, origin.row)
            sums[key] += loss, here.sum()
    return _table(step, {key: each for key, each in sums.items() if each[1]})


def _table(step: int, sums: Mapping[Any, Any]) -> list[DocumentLoss]:
    total: Any = sum(sums.values(), np.zeros(2))
    of_dataset: dict[Any, Any] = defaultdict(lambda: np.zeros(2))
    for (_, dataset, *_), each in sums.items():
        of_dataset[dataset] += each
    found = []
    for (row, dataset, file, file_row), (loss, tokens) in sums.items():
        usual = of_dataset[dataset][0] / of_dataset[dataset][1]
        found.append(
            DocumentLoss(
                step=step,
                row=row,
                dataset=dataset,
                file=file,
                file_row=file_row,
                tokens=int(tokens),
                loss=float(loss / tokens),
                share=float(loss / total[0]) if total[0] else 0.0,
                surprise=float(loss / tokens / usual) if usual else 0.0,
            )
        )
    # Losses that are not finite come first: no share is a number then.
    return sorted(found, key=lambda each: (isfinite(each.loss), -each.share))


def _on_host(array: Any) -> npt.NDArray[Any]:
    if hasattr(array, "detach"):
        array = (
            array.detach().float().cpu() if array.is_floating_point() else array.cpu()
        )
    return np.asarray(array)
