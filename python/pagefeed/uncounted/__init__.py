"""Loaders of texts whose tokens are never counted, so that a run begins at once.

Users make a :class:`TextLoader`; its view is a :class:`TextView`. ``lane_passes`` says
which rows of which blocks a lane reads in each pass. ``blocks`` reads and encodes them,
``lines`` cuts their tokens, and the data plane makes fields. The state records the
positions of all lanes.
"""

from pagefeed.uncounted.text_loader import TextLoader
from pagefeed.uncounted.text_view import TextView

__all__ = ["TextLoader", "TextView"]
