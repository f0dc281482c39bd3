"""Results of a run: what steps read, where tokens came from, tickets of a queue."""

from pagefeed.core.batches import Plan
from pagefeed.core.run import LoaderState, Origin, Slot
from pagefeed.prompts import Ticket

__all__ = [
    "LoaderState",
    "Origin",
    "Plan",
    "Slot",
    "Ticket",
]
