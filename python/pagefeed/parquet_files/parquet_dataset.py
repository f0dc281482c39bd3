"""Parquet files as users have them: rows, and all that can be done to them."""

from __future__ import annotations

from dataclasses import dataclass

from pagefeed.parquet_files.erasable import Erasable
from pagefeed.parquet_files.infillable import Infillable
from pagefeed.parquet_files.selectable import SelectableParquet
from pagefeed.parquet_files.tokenizable import Tokenizable

__all__ = ["ParquetDataset"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ParquetDataset(Tokenizable, SelectableParquet, Erasable, Infillable):
    """Parquet files read as one dataset; made by :func:`pagefeed.parquet`."""
