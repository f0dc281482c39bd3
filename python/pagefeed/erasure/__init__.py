"""Documents left out of all batches, which leave all others where they are."""

from pagefeed.erasure.erased import ErasedRows
from pagefeed.erasure.erasing import erased_rows

__all__ = [
    "ErasedRows",
    "erased_rows",
]
