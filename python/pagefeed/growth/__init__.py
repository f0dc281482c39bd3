"""Data that grew: a state's epoch ends over the earlier data."""

from pagefeed.growth.grown_data import before_growth
from pagefeed.growth.grown_run import GrownRun, rest_of_run

__all__ = ["GrownRun", "before_growth", "rest_of_run"]
