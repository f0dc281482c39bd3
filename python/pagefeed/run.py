"""Where tokens came from, and where documents are seen: results of a loader."""

from pagefeed._names import name_as_imported
from pagefeed.core.run import LoaderState, Origin, Slot

__all__ = [
    "LoaderState",
    "Origin",
    "Slot",
]

name_as_imported(__name__)
