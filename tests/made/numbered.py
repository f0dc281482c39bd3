"""A small dataset whose tokens are numbered through, and loaders of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

LENGTH = 32
SEED = 5
"""Of loaders."""


def write_numbered(
    folder: Path,
    *,
    num_files: int = 2,
    num_rows: int = 300,
    first_token: int = 0,
    **options: Any,
) -> None:
    """Files of small pages; all tokens together count up, some rows are empty."""
    rng = np.random.default_rng(7)
    token = first_token
    for number in range(num_files):
        rows = []
        for length in rng.integers(0, 60, num_rows).tolist():
            rows.append(list(range(token, token + length)))
            token += length
        table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
        path = folder / f"part-{number}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=100,
            data_page_size=256,
            write_batch_size=4,
            **options,
        )


def numbered_loader(
    data: pf.dataset.Dataset | pf.Mixture | Path | str, **options: Any
) -> pf.Loader:
    """A loader of these files, for one rank unless told otherwise."""
    settings: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH),
        "batch_size": 4,
        "seed": SEED,
        "memory": "8MiB",
        "num_threads": 2,
        "padding": -1,
        "fields": ("input_ids",),
        "rank": 0,
        "world_size": 1,
    }
    if isinstance(data, Path | str):
        data = pf.parquet(data, column="input_ids")
    return pf.Loader(data, **settings | options)


def first_tokens(batch: dict[str, Any]) -> list[int]:
    """What tells the rows of a batch apart: their first tokens; -1 is padding."""
    return [int(token) for token in batch["input_ids"][:, 0]]


def batches_of(loader: Iterable[dict[str, Any]]) -> list[list[int]]:
    """The first tokens of each batch of an iteration."""
    return [first_tokens(batch) for batch in loader]


def rows_of(loader: pf.Loader) -> list[int]:
    """The first tokens of all rows of an iteration."""
    return [token for batch in loader for token in first_tokens(batch)]


def interleaved(parts):
    """The rows of all ranks' batches in the global order."""
    return [
        row
        for batches in zip(*parts, strict=True)
        for rows in zip(*batches, strict=True)
        for row in rows
    ]
