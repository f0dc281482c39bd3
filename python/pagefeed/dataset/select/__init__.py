"""Parts of a dataset: rows chosen by predicate, tier, length or hash.

A :class:`Criterion` labels rows, a :class:`Division` keeps the labels as runs of rows
beside the page index, and a :class:`Selection` is one part of a division, as spans;
``divide`` has the ways to make them.
"""

from pagefeed.dataset.select.divide import by_length, by_tiers, by_weights, where
from pagefeed.dataset.select.predicate import Constant
from pagefeed.dataset.select.query import Expression
from pagefeed.dataset.select.scanning import schema_of
from pagefeed.dataset.select.selection import Selection
from pagefeed.dataset.select.taking import taken

__all__ = [
    "Constant",
    "Expression",
    "Selection",
    "by_length",
    "by_tiers",
    "by_weights",
    "schema_of",
    "taken",
    "where",
]
