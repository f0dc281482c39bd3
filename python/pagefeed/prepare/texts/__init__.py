"""Texts of any input, record by record: JSON lines, plain text, tables, samples.

A file is divided into :class:`Piece` s, each read by the :class:`Reader` of its format
in the same :class:`Batch` es each time. What cannot be read is :class:`Rejected`, with
the place where it lies.
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
