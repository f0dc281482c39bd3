"""Sequences of texts without token counts.

``lane_passes`` says which rows of which blocks a lane reads in each pass. ``blocks``
reads and encodes them, ``lines`` cuts their tokens; the data plane makes fields of
these.
:class:`UncountedSession` is what is behind a loader. Where all lanes are is the state.
"""

from pagefeed.uncounted.session import UncountedSession

__all__ = ["UncountedSession"]
