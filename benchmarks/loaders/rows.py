"""Rows of the Parquet files, for adapters that convert them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["read_rows"]

ROWS_AT_ONCE = 256


def read_rows(path: str, length: int) -> Iterator[npt.NDArray[np.uint16]]:
    """Give the samples of a file in their order, each of ``length`` tokens."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=["input_ids"]):
            tokens = batch.column(0).flatten().to_numpy().astype(np.uint16)
            yield from tokens.reshape(-1, length)
