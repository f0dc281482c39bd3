"""Token files whose tokens are numbered through, so that each can be told apart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made.numbered import write_numbered

LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "small pages": {"data_page_size": 2048, "write_batch_size": 16},
    "indexed": {"data_page_size": 4096, "write_page_index": True},
    "version 2": {"data_page_version": "2.0", "data_page_size": 4096},
    "plain zstd": {"use_dictionary": False, "compression": "zstd"},
}
ROWS_PER_FILE = 240


def numbered_rows() -> Iterator[list[int]]:
    """Rows of varied lengths, some empty; all tokens together count from 0."""
    rng = np.random.default_rng(7)
    token = 0
    for length in rng.integers(0, 60, len(LAYOUTS) * ROWS_PER_FILE).tolist():
        yield list(range(token, token + length))
        token += length


@pytest.fixture(scope="session")
def token_files(tmp_path_factory) -> list[Path]:
    """A file of each layout, with several row groups each."""
    folder = tmp_path_factory.mktemp("tokens")
    rows = list(numbered_rows())
    paths = []
    for number, options in enumerate(LAYOUTS.values()):
        part = rows[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
        table = pa.table({"input_ids": pa.array(part, pa.list_(pa.int32()))})
        path = folder / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=90, **options)
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two files of numbered tokens, for loaders of `made.numbered`."""
    path: Path = tmp_path_factory.mktemp("numbered")
    write_numbered(path)
    return path


@pytest.fixture(scope="session")
def num_tokens() -> int:
    """Tokens of all rows."""
    return sum(len(row) for row in numbered_rows())


@pytest.fixture
def write_tokens():
    """Write rows of tokens as a Parquet file and return its path."""

    def write(path: Path, rows: list[list[int]]) -> Path:
        tokens = pa.array(rows, pa.list_(pa.int32()))
        pq.write_table(pa.table({"input_ids": tokens}), path)
        return path

    return write
