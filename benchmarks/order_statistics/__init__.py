"""Statistical tests of the orders of any loader, over seeds and epochs."""

from order_statistics.deliveries import Draw, Taken, Units
from order_statistics.findings import Finding, OrderStatistics
from order_statistics.of_loaders import order_statistics

__all__ = [
    "Draw",
    "Finding",
    "OrderStatistics",
    "Taken",
    "Units",
    "order_statistics",
]
