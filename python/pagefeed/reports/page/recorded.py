"""Metrics that a run recorded, as lines of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pagefeed.errors import InvalidArgumentError

__all__ = ["Recorded", "read_metrics"]

RATE = "data/tokens_per_second"
WAITING = "data/wait_fraction"
SHARE_BEGIN, SHARE_END = "data/mix/", "_share"


@dataclass(frozen=True)
class Recorded:
    """Numbers of a run by step; a name's values are as many as steps, NaN for none."""

    steps: list[float]
    """Steps, rising."""
    values: dict[str, list[float]]
    """Values by name."""

    @property
    def shares(self) -> dict[str, list[float]]:
        """Share of each dataset of a mixture in the delivered tokens, by its name."""
        return {
            name.removeprefix(SHARE_BEGIN).removesuffix(SHARE_END): values
            for name, values in self.values.items()
            if name.startswith(SHARE_BEGIN) and name.endswith(SHARE_END)
        }


def read_metrics(lines: Iterable[str]) -> Recorded:
    """Read lines of JSON such as ``{"step": 10, "data/wait_fraction": 0.01}``.

    Incomplete lines of stopped runs are skipped. If a step ran again after a resume,
    its last line counts.

    Raises:
        InvalidArgumentError: If no line has a step.

    Example:
        >>> read_metrics(['{"step": 1, "a": 2}', '{"step": 3}']).steps
        [1.0, 3.0]
    """
    by_step: dict[float, Mapping[str, Any]] = {}
    for line in lines:
        try:
            numbers = json.loads(line)
            by_step[float(numbers["step"])] = numbers
        except (ValueError, KeyError, TypeError):
            continue
    if not by_step:
        raise InvalidArgumentError(
            'no line of the metrics is a JSON object with a step, such as {"step": 10, '
            '"data/tokens_per_second": 250000, "data/wait_fraction": 0.01}'
        )
    steps = sorted(by_step)
    names = dict.fromkeys(
        name
        for step in steps
        for name, value in by_step[step].items()
        if isinstance(value, int | float) and name != "step"
    )
    values = {
        name: [_number(by_step[step].get(name)) for step in steps] for name in names
    }
    return Recorded(steps, values)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
