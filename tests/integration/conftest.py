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
NUM_FILES = 3
ROWS_PER_FILE = 400


def numbered_rows() -> Iterator[list[int]]:
    """Rows of varied lengths, some empty; all tokens together count from 0."""
    rng = np.random.default_rng(7)
    token = 0
    for length in rng.integers(0, 60, NUM_FILES * ROWS_PER_FILE).tolist():
        yield list(range(token, token + length))
        token += length


@pytest.fixture(scope="session", params=LAYOUTS)
def token_files(request, tmp_path_factory) -> list[Path]:
    """Three files of one layout, with several row groups each."""
    folder = tmp_path_factory.mktemp("tokens")
    rows = list(numbered_rows())
    paths = []
    for number in range(NUM_FILES):
        part = rows[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
        table = pa.table({"input_ids": pa.array(part, pa.list_(pa.int32()))})
        path = folder / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=150, **LAYOUTS[request.param])
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
