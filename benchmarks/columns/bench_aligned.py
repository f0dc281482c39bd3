"""What columns beside the tokens cost: labels (int64) and loss weights (float32).

    python benchmarks/columns/bench_aligned.py [--rounds 3] [--tokens 40000000]

Files as pyarrow writes them by default: a dictionary for each column, snappy, so that a
page of weights, of which there are few different ones, spans many pages of tokens.
Rates are tokens per second of processor time, and of wall time, of whole epochs, in
turn; the table shows the best of the rounds.
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
PROMPT_SHARE = 0.4


def write(folder: Path, num_tokens: int) -> None:
    """Write rows of chats: a prompt without loss, an answer with a weight."""
    rng = np.random.default_rng(0)
    for number in range(NUM_FILES):
        lengths = rng.integers(1, 2 * MEAN_ROW, num_tokens // NUM_FILES // MEAN_ROW)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        count = int(offsets[-1])
        ids = (VOCABULARY * rng.random(count) ** 3).astype(np.int32)
        starts = np.repeat(offsets[:-1], lengths)
        is_prompt = np.arange(count) - starts < PROMPT_SHARE * np.repeat(
            lengths, lengths
        )
        columns = {
            "input_ids": ids,
            "labels": np.where(is_prompt, -100, ids.astype(np.int64)),
            "loss_weight": np.where(is_prompt, 0, 1).astype(np.float32),
        }
        table = pa.table(
            {
                name: pa.ListArray.from_arrays(offsets, values)
                for name, values in columns.items()
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")


def main() -> None:
    """Compare tokens alone with one and two columns beside them."""
    given = arguments(__doc__)
    ways = [[], ["labels"], ["labels", "loss_weight"]]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.tokens)
        datasets = [
            pf.parquet(folder, column="input_ids", aligned=aligned) for aligned in ways
        ]
        for data in datasets:
            len(data), data.aligned_sources  # Built before.

        def open_loader(way: int, shuffle: Any) -> pf.Loader:
            return pf.Loader(
                datasets[way],
                sequences=pf.Windows(LENGTH),
                fields=("input_ids",),
                batch_size=BATCH_SIZE,
                seed=1,
                shuffle=shuffle,
            )

        compare(ways, open_loader, given.rounds)


if __name__ == "__main__":
    main()
