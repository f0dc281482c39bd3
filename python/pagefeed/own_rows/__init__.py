"""Rows of any sequence: a list, a dataset of torch, a table, a file of JSON lines.

``given`` takes rows of the user's object, ``collate`` makes columns of them, and
``row_feed`` does both on threads, for :class:`Documents`. ``row_pages`` makes pages of
one column, for tokens and in mixtures. ``row_dataset`` is the dataset, ``json_lines``
reads files of one document a line.
"""

from pagefeed.own_rows.row_dataset import RowDataset, rows

__all__ = ["RowDataset", "rows"]
