"""Datasets made from others: between Parquet, streams, and other token files.

``rows`` reads the documents of any dataset in order, ``outputs`` writes them in one of
the formats, and :func:`convert` puts the two together.
"""

from pagefeed.prepare.conversion import Conversion, convert

__all__ = ["Conversion", "convert"]
