"""Adapters, one module for each framework; import the module by its name.

A module needs the framework that it is named after, and no other. Shared by all:
``delivery`` says where a run begins, ``dialects`` names the fields of batches,
``devices`` copies batches ahead, ``evaluation`` adds up losses, ``learning`` those of
datasets in training, ``checks`` refuses what does not fit.
"""

from pagefeed.integrations.attention import (
    check_isolation,
    flex_mask,
    sdpa_mask,
    varlen_arguments,
)
from pagefeed.integrations.checks import check_loader, check_readers
from pagefeed.integrations.delivery import Leaf
from pagefeed.integrations.devices import on_device

__all__ = [
    "Leaf",
    "check_isolation",
    "check_loader",
    "check_readers",
    "flex_mask",
    "on_device",
    "sdpa_mask",
    "varlen_arguments",
]
