"""Documents left out of all batches, which leave all others where they are."""

from pagefeed.erasure.erasing import Erasable
from pagefeed.erasure.lost import lost_rows

__all__ = [
    "Erasable",
    "lost_rows",
]
