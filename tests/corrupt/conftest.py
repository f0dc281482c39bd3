"""Small sound files with several pages, for the tests to break."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def small_table() -> pa.Table:
    draw = random.Random(7)
    tokens = [
        [draw.randrange(99) for _ in range(draw.randrange(30))] for _ in range(99)
    ]
    words = ["page", "row", "caf\u00e9", "a longer word than most", ""]
    return pa.table(
        {
            "input_ids": pa.array(tokens, pa.list_(pa.int32())),
            "plain": pa.array(tokens, pa.list_(pa.int64())),
            "fixed": pa.array(
                [[row, row + 1, 7] for row in range(99)], pa.list_(pa.int32(), 3)
            ),
            "text": [
                " ".join(draw.choices(words, k=5)) + str(row) for row in range(99)
            ],
            "word": [draw.choice([*words, None]) for _ in range(99)],
            "number": [draw.choice([None, row, row, row]) for row in range(99)],
            "nested": [
                {"id": row, "tags": draw.choice([None, [], ["x", None, "y"]])}
                for row in range(99)
            ],
        }
    )


def write_small(path: Path, **options: object) -> Path:
    """The small table in two row groups with pages of a few hundred bytes."""
    leaves = ["input_ids.list.element", "word", "nested.tags.list.element"]
    pq.write_table(
        small_table(),
        path,
        row_group_size=60,
        data_page_size=256,
        write_batch_size=16,
        use_dictionary=leaves,
        **options,
    )
    return path


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files by name: V1 or V2, codec, page index or not; the last ones with CRCs."""
    folder = tmp_path_factory.mktemp("sound")
    kinds: dict[str, dict[str, object]] = {
        "v1": {"compression": "none"},
        "v2-snappy": {"compression": "snappy", "data_page_version": "2.0"},
        "v1-zstd-index": {"compression": "zstd", "write_page_index": True},
        "v1-gzip-crc": {"compression": "gzip", "write_page_checksum": True},
        "v2-lz4-crc": {
            "compression": "lz4",
            "data_page_version": "2.0",
            "write_page_index": True,
            "write_page_checksum": True,
        },
    }
    return {
        name: write_small(folder / f"{name}.parquet", **options)
        for name, options in kinds.items()
    }
