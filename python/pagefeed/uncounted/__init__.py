"""Loaders of texts whose tokens are not counted: a run begins at once.

:class:`TextLoader` is what users make, and :class:`TextView` what is behind it.
``lane_passes`` says which rows of which blocks a lane reads in each pass. ``blocks``
reads and encodes them, ``lines`` cuts their tokens; the data plane makes fields of
these. Where all lanes are is the state.
"""

from pagefeed._names import name_as_imported
from pagefeed.uncounted.text_loader import TextLoader
from pagefeed.uncounted.text_view import TextView

__all__ = ["TextLoader", "TextView"]

name_as_imported(__name__)
