"""Statistical tests of the orders of any loader, over seeds and epochs."""

from pagefeed.reports.statistics.deliveries import Draw, Taken, Units
from pagefeed.reports.statistics.findings import Finding, OrderStatistics
from pagefeed.reports.statistics.of_loaders import order_statistics

__all__ = [
    "Draw",
    "Finding",
    "OrderStatistics",
    "Taken",
    "Units",
    "order_statistics",
]
