"""Context lengths that grow in a run: one order, in shorter rows at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagefeed.core._base import check_stages, some_of
from pagefeed.core.run import Route, Step
from pagefeed.core.sequences import Cut, TokenCut
from pagefeed.errors import InvalidArgumentError

ALL_STEPS = 1 << 62


@dataclass(frozen=True)
class Lengths:
    """Tokens of a row of a batch, by the step: each sequence gives as many as fit.

    Example:
        >>> from pagefeed import Windows
        >>> lengths = Lengths.parse([(0, 512), (100, 2048)], Windows(2048))
        >>> lengths.parts_at(99), lengths.parts_at(100)
        (4, 1)
    """

    stages: tuple[tuple[int, int], ...]
    """First step of each stage, and the length of its rows."""
    length: int
    """Tokens of a sequence."""

    @classmethod
    def parse(cls, asked: Sequence[tuple[int, int]], cut: Cut) -> Lengths:
        """Return stages ``(step, length)``, checked.

        Raises:
            InvalidArgumentError: If stages do not rise from step 0, the largest length
                is not that of the cut, or does not hold each other one several times.
        """
        stages = check_stages(asked, "lengths", "[(0, 4096), (50_000, 32_768)]")
        if not isinstance(cut, TokenCut):
            raise InvalidArgumentError(
                f"lengths={list(stages)!r:.60} divide sequences of one length, and "
                f"{cut!r:.60} has documents: give Windows or Packed"
            )
        lengths = {length for _, length in stages}
        if max(lengths) != cut.length:
            raise InvalidArgumentError(
                f"lengths grow to {max(lengths)}, and sequences have {cut.length} "
                f"tokens: give {type(cut).__name__}({max(lengths)}), or a last stage "
                f"of {cut.length}"
            )
        wrong = [n for n in sorted(lengths) if cut.length % n or n % cut.multiple_of]
        if wrong:
            raise InvalidArgumentError(
                f"lengths has {some_of(wrong)}: each must divide {cut.length}, the "
                f"length of a sequence, and be a multiple of {cut.multiple_of}"
            )
        return cls(stages, cut.length)

    def parts_at(self, step: int) -> int:
        """Return how many rows each sequence of a step gives."""
        return self.length // max(stage for stage in self.stages if stage[0] <= step)[1]

    def num_alike(self, route: Route, first: int) -> int:
        """Return how many steps in a row, from a given one, have rows of one length."""
        step = route.number_here(first)
        ends = [begin for begin, _ in self.stages if begin > step]
        if not ends:
            return ALL_STEPS
        steps = route.index_of(Step(ends[0])) - route.worker
        return max(1, -(-steps // route.num_workers) - first)
