"""Write distinct texts as nanochat stores its data: the last file is for validation.

    NANOCHAT_BASE_DIR=base python benchmarks/clients/prepare_nanochat.py texts/ 12288

Rows are shuffled with a fixed seed, as those of nanochat's own dataset are.
"""

import argparse
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE, ROWS_PER_GROUP = 4096, 1024
VALIDATION = 6542  # The number of the file that nanochat keeps for validation.


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, help="folder of Parquet with a column text")
    parser.add_argument("documents", type=int, help="number of documents to train on")
    given = parser.parse_args()
    files = sorted(given.texts.glob("*.parquet"))
    texts = pa.concat_tables(pq.read_table(file, columns=["text"]) for file in files)
    distinct = sorted(set(texts["text"].to_pylist()) - {None, ""})
    random.Random(1).shuffle(distinct)  # noqa: S311 - an order
    folder = Path(os.environ["NANOCHAT_BASE_DIR"]) / "base_data_climbmix"
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, given.documents, ROWS_PER_FILE):
        rows = distinct[start : min(start + ROWS_PER_FILE, given.documents)]
        write(rows, folder / f"shard_{start // ROWS_PER_FILE:05d}.parquet")
    held_out = distinct[given.documents : given.documents + ROWS_PER_GROUP]
    write(held_out, folder / f"shard_{VALIDATION:05d}.parquet")


def write(rows: list[str], path: Path) -> None:
    """Write one file."""
    pq.write_table(pa.table({"text": rows}), path, row_group_size=ROWS_PER_GROUP)


if __name__ == "__main__":
    main()
