"""Streams: sequences of texts whose tokens nobody has counted.

``lane_order`` says which blocks of rows a lane reads, pass after pass; ``blocks`` reads
and encodes them, ``lines`` cuts what they come to, ``borders`` makes fields of it, and
:class:`StreamSession` is what a loader is made of. Where all lanes are is the state.
"""

from pagefeed.batches.streaming.session import StreamSession, open_session

__all__ = ["StreamSession", "open_session"]
