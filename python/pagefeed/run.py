"""What steps read, where tokens came from, where documents are seen: of a loader."""

from pagefeed.core.batches import Plan
from pagefeed.core.run import LoaderState, Origin, Slot

__all__ = [
    "LoaderState",
    "Origin",
    "Plan",
    "Slot",
]
