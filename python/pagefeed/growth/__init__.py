"""Data that grew: what they were in a state, and the rest of its epoch over both."""

from pagefeed.growth.grown_data import before_growth, before_rewriting, growth_parts
from pagefeed.growth.grown_order import GrownOrder
from pagefeed.growth.grown_run import GrownRun, MixedOrder, rest_of_dataset

__all__ = [
    "GrownOrder",
    "GrownRun",
    "MixedOrder",
    "before_growth",
    "before_rewriting",
    "growth_parts",
    "rest_of_dataset",
]
