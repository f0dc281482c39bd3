"""Metrics of a run, under names that every tracker accepts, and an alarm."""

from pagefeed._removed import refuse_removed_of
from pagefeed.metrics.alarm import WaitAlarm
from pagefeed.metrics.meter import Meter

__all__ = ["Meter", "WaitAlarm"]

refuse_removed_of(__name__)
