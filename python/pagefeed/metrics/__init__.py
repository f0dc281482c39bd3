"""A run's numbers, under names that every tracker accepts, and who is told of them."""

from pagefeed.metrics.alarm import WaitAlarm
from pagefeed.metrics.meter import Meter
from pagefeed.metrics.prometheus import Endpoint, exposition, serve

__all__ = ["Endpoint", "Meter", "WaitAlarm", "exposition", "serve"]
