"""Iceberg and Delta tables: the files of a snapshot, without deleted rows.

The libraries of the formats read a table's log; what they say of a snapshot becomes a
:class:`ParquetDataset` of its files, and deleted rows a selection like any other.
"""

from pagefeed.tables.delta_table import delta
from pagefeed.tables.iceberg_table import iceberg

__all__ = ["delta", "iceberg"]
