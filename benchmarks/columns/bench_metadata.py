"""What metadata costs: two short columns, an id and a URL, told of every document.

    python benchmarks/columns/bench_metadata.py [--rounds 3] [--tokens 40000000]

Files as pyarrow writes them by default. Rates are tokens per second of processor time,
and of wall time, of whole epochs, in turn; the table shows the best of the rounds.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from beside import BATCH_SIZE, LENGTH, arguments, compare

import pagefeed as pf

NUM_FILES = 4
MEAN_ROW = 600
VOCABULARY = 32_000


def write(folder: Path, num_tokens: int) -> None:
    """Write rows of tokens, each with an id and a URL that no other has."""
    rng = np.random.default_rng(0)
    for number in range(NUM_FILES):
        lengths = rng.integers(1, 2 * MEAN_ROW, num_tokens // NUM_FILES // MEAN_ROW)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ids = (VOCABULARY * rng.random(int(offsets[-1])) ** 3).astype(np.int32)
        rows = [f"{number:02}-{row:08x}" for row in range(len(lengths))]
        table = {
            "input_ids": pa.ListArray.from_arrays(offsets, ids),
            "id": rows,
            "url": [f"https://site{len(row)}.org/page/{row}.html" for row in rows],
        }
        pq.write_table(pa.table(table), folder / f"{number}.parquet")


def main() -> None:
    """Compare tokens alone with one and two columns told of their documents."""
    given = arguments(__doc__)
    ways = [[], ["id"], ["id", "url"]]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.tokens)

        def open_loader(way: int, shuffle: Any) -> pf.Loader:
            names = ways[way]
            return pf.Loader(
                pf.parquet(folder, column="input_ids", metadata=names),
                sequences=pf.Windows(LENGTH),
                batch_size=BATCH_SIZE,
                seed=1,
                shuffle=shuffle,
                fields=("input_ids", "metadata") if names else ("input_ids",),
            )

        compare(ways, open_loader, given.rounds)


if __name__ == "__main__":
    main()
