"""Texts of any input, record by record: JSON lines, plain text, tables, samples.

A file is divided into :class:`Piece` s, each read by the :class:`Reader` of its format
in the same :class:`Batch` es each time. What cannot be read is :class:`Rejected`, with
the place where it lies.
"""

from pagefeed.prepare.texts.formats import (
    FORMATS,
    Inputs,
    find_inputs,
    pieces_of,
    read_piece,
    types_of,
)
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
)

__all__ = [
    "FORMATS",
    "Batch",
    "Inputs",
    "Piece",
    "Rejected",
    "Wanted",
    "arrow",
    "find_inputs",
    "pieces_of",
    "read_piece",
    "types_of",
]
