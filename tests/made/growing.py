"""Folders to which files are added while a run goes on."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

SEQUENCES = pf.Windows(16, tail="drop")


def add_file(folder: Path, name: str, first: int, rows: int = 60) -> None:
    """A file that is the newest of all, whatever its name."""
    folder.mkdir(exist_ok=True)
    tokens = [[n] * (1 + n % 7) for n in range(first, first + rows)]
    column = pa.array(tokens, pa.list_(pa.int32()))
    pq.write_table(pa.table({"tokens": column}), folder / name, row_group_size=20)
    newest = max(path.stat().st_mtime_ns for path in folder.glob("*.parquet"))
    os.utime(folder / name, ns=(newest + 1000, newest + 1000))


def loader_of(dataset, **options) -> pf.Loader:
    wanted = {"batch_size": 2, "seed": 5, "rank": 0, "world_size": 1, **options}
    return pf.Loader(dataset, sequences=SEQUENCES, **wanted)


def folder_loader(folder: Path, **options) -> pf.Loader:
    return loader_of(pf.parquet(folder, column="tokens"), **options)


def taken(loader: pf.Loader, steps: int) -> list[list[list[int]]]:
    steps_of = iter(loader)
    return [next(steps_of)["input_ids"].tolist() for _ in range(steps)]


def rows_of_all(ranks: list[pf.Loader], steps: int | None = None) -> list[list[int]]:
    """Rows of some steps of all ranks, in the order of positions."""
    found: list[list[int]] = []
    iterators = [iter(loader) for loader in ranks]
    while steps is None or steps > 0:
        batches = [next(iterator, None) for iterator in iterators]
        if batches[0] is None:
            break
        rows = [batch["input_ids"] for batch in batches if batch is not None]
        found += np.stack(rows, axis=1).reshape(-1, rows[0].shape[1]).tolist()
        steps = None if steps is None else steps - 1
    return found
