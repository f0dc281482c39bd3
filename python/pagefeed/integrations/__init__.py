"""Thin adapters, a module for each framework, imported by its name.

Each needs what it is named after and nothing else of them. What they have in common:
how a loader is delivered, the names that batches go by, and what is refused.
"""

from pagefeed.integrations.attention import (
    check_isolation,
    flex_mask,
    sdpa_mask,
    varlen_arguments,
)
from pagefeed.integrations.checks import check_loader, check_readers
from pagefeed.integrations.delivery import Leaf

__all__ = [
    "Leaf",
    "check_isolation",
    "check_loader",
    "check_readers",
    "flex_mask",
    "sdpa_mask",
    "varlen_arguments",
]
