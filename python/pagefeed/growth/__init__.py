"""Data that grew: what they were in a state, and the rest of its epoch over both."""

from pagefeed.growth.grown_data import before_growth, before_rewriting, growth_parts
from pagefeed.growth.grown_order import GrownOrder
from pagefeed.growth.grown_run import (
    GrownRun,
    MixedOrder,
    arguments_of_run,
    check_not_skipped,
    rest_of_dataset,
)

__all__ = [
    "GrownOrder",
    "GrownRun",
    "MixedOrder",
    "arguments_of_run",
    "before_growth",
    "before_rewriting",
    "check_not_skipped",
    "growth_parts",
    "rest_of_dataset",
]
