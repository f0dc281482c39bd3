"""Texts of any input, record by record: JSON lines and tables.

A file is divided into ranges (:class:`FileRange`). The ``Reader`` of the format reads a
range in batches (:class:`Batch`), the same ones each time. A record that cannot be
read is :class:`Rejected`, with its position.
"""

from pagefeed.prepare.texts.formats import (
    FORMATS,
    Format,
    Inputs,
    find_inputs,
    ranges_of,
    read_range,
    types_of,
)
from pagefeed.prepare.texts.kept import fitting
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    FileRange,
    Rejected,
    Wanted,
    arrow,
    too_long,
)

__all__ = [
    "FORMATS",
    "RECORD_BYTES",
    "Batch",
    "FileRange",
    "Format",
    "Inputs",
    "Rejected",
    "Wanted",
    "arrow",
    "find_inputs",
    "fitting",
    "ranges_of",
    "read_range",
    "too_long",
    "types_of",
]
