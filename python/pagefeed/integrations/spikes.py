"""Batches whose loss is far above those before: which rows it comes from."""

from __future__ import annotations

import csv
import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

from pagefeed.core._base import warn_user
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError, LossWarning
from pagefeed.remote import output_folder
from pagefeed.reports import losses_by_row

__all__ = ["SpikeRule", "Spikes", "is_spike"]

SpikeRule: TypeAlias = Callable[[float, Sequence[float]], bool]
"""Says of a batch's mean loss, and those of up to 32 batches before, if it rose."""


def is_spike(loss: float, earlier: Sequence[float]) -> bool:
    """Whether a loss lies far above those before.

    A spike is above the median of the last 8 losses by a fifth, and by eight times the
    median difference of consecutive losses. The first 20 losses are never spikes.

    Example:
        >>> is_spike(9.0, [3.0, 3.1] * 10), is_spike(3.2, [3.0, 3.1] * 10)
        (True, False)
    """
    if len(earlier) < 20:
        return False
    usual = statistics.median(earlier[-8:])
    step = statistics.median(abs(after - each) for each, after in pairwise(earlier))
    return loss - usual > max(usual / 5, 8 * step)


class Spikes:
    """Writes a table of a batch's documents where its loss is a spike.

    Args:
        loader: The loader of the batches, of this rank.
        folder: Where tables are written.
        rule: Says what a spike is; True for :func:`is_spike`.

    Raises:
        InvalidArgumentError: If the rule is not a function.
    """

    def __init__(
        self,
        loader: Loader,
        folder: str,
        rule: SpikeRule | Literal[True],
    ) -> None:
        self._rule: Any = is_spike if rule is True else rule
        if not callable(self._rule):
            raise InvalidArgumentError(
                f"on_spike={rule!r:.60} must be True, or a function of a loss and of "
                "those before that returns whether it is a spike"
            )
        self._loader = loader
        self._folder = output_folder(folder, None, "output_dir", buckets=False)
        self._earlier: deque[float] = deque(maxlen=32)

    def add(
        self, step: int, labels: Any, loss: float, losses: Callable[[], Any]
    ) -> None:
        """Judge the loss of a batch, and tell of its rows if it is a spike.

        Args:
            step: Step of the loader that gave the batch.
            labels: The labels of the batch.
            loss: Mean loss over these, up to a factor that is always the same.
            losses: Returns the loss of each label, in the shape of the labels.
        """
        is_finite = math.isfinite(loss)
        rose = not is_finite or self._rule(loss, tuple(self._earlier))
        if is_finite:
            self._earlier.append(loss)
        if not rose:
            return
        loader = self._loader
        table = losses_by_row(loader, {"labels": labels}, losses(), step=step)
        if not table:
            return
        name = f"spike-{step}-rank-{loader.rank}.csv"
        lines: list[str] = []
        out = SimpleNamespace(write=lines.append)
        rows = csv.DictWriter(out, [*asdict(table[0])])
        rows.writeheader()
        rows.writerows(map(asdict, table))
        self._folder.write(name, "".join(lines).encode())
        worst = table[0]
        warn_user(
            f"the loss rose at step {step} of epoch {loader.epoch}: {worst.share:.0%} "
            f"of this batch's is of row {worst.file_row} of {worst.file}, and "
            f"{self._folder.path_of(name)} has all rows. To leave the step out, load a "
            f"checkpoint before it and call loader.skip([{step}])",
            LossWarning,
        )
