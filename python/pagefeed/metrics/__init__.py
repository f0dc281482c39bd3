"""Metrics of a run, under names that every tracker accepts, and their outputs."""

from pagefeed.metrics.alarm import WaitAlarm
from pagefeed.metrics.by_file import reads_by_file, slowest_files
from pagefeed.metrics.gpu import gpu_numbers
from pagefeed.metrics.meter import Meter, check_flops
from pagefeed.metrics.prometheus import Endpoint, serve

__all__ = [
    "Endpoint",
    "Meter",
    "WaitAlarm",
    "check_flops",
    "gpu_numbers",
    "reads_by_file",
    "serve",
    "slowest_files",
]
