"""Files with rows to select, and what tests do with them."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

ROWS = 4000
ROW = 100


def table_of(number: int = 0, **columns: Any) -> pa.Table:
    """Rows of 90 to 110 tokens that tell where they come from, and other columns."""
    rng = np.random.default_rng(number)
    lengths = rng.integers(ROW - 10, ROW + 10, ROWS)
    first = rng.integers(0, 30_000, ROWS)
    tokens = [np.arange(a, a + n) for a, n in zip(first, lengths, strict=True)]
    day = datetime.date(2024, 1, 1)
    known = {
        "input_ids": pa.array(tokens, pa.list_(pa.int32())),
        "place": np.arange(number * ROWS, (number + 1) * ROWS),
        "quality": rng.random(ROWS),
        "lang": pa.array(["en", "de", "fr", None] * (ROWS // 4)),
        "day": [day + datetime.timedelta(days=n % 100) for n in range(ROWS)],
        "price": [Decimal(n % 10) for n in range(ROWS)],
        "tag": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
        "meta": pa.array([{"n": n, "list": [n]} for n in range(ROWS)]),
        "odd name": np.arange(ROWS),
    }
    return pa.table(known | columns)


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, row_group_size=1000, data_page_size=8192, **options)
    return path


def write_files(folder: Path) -> list[Path]:
    return [write(folder / f"part-{n}.parquet", table_of(n)) for n in range(3)]


def rows_of(files) -> Any:
    return pa.concat_tables([pq.read_table(file) for file in files])


def dataset_of(files, **options) -> pf.dataset.ParquetDataset:
    return pf.parquet(files, column="input_ids", **options)


def make_loader(dataset, **options) -> pf.Loader:
    settings: dict[str, Any] = {"sequences": pf.Windows(256), "batch_size": 4}
    return pf.Loader(dataset, **settings | options)
