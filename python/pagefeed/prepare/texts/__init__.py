"""Texts of any input, record by record: JSON lines, plain text, tables, samples.

A file is divided into pieces (:class:`Piece`). The ``Reader`` of the format reads a
piece in batches (:class:`Batch`), the same ones each time. A record that cannot be
read is :class:`Rejected`, with its place.
"""

from pagefeed.prepare.texts.formats import (
    FORMATS,
    Format,
    Inputs,
    find_inputs,
    pieces_of,
    read_piece,
    types_of,
)
from pagefeed.prepare.texts.kept import WidenedError, fitting
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    too_long,
)

__all__ = [
    "FORMATS",
    "RECORD_BYTES",
    "Batch",
    "Format",
    "Inputs",
    "Piece",
    "Rejected",
    "Wanted",
    "WidenedError",
    "arrow",
    "find_inputs",
    "fitting",
    "pieces_of",
    "read_piece",
    "too_long",
    "types_of",
]
