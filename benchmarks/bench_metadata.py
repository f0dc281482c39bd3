"""What metadata costs: two short columns, an id and a URL, told of every document.

    python benchmarks/bench_metadata.py [--rounds 3] [--tokens 40000000]

Files as pyarrow writes them by default. Rates are tokens per second of processor time,
and of wall time, of whole epochs, in turn; the table shows the best of the rounds.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

LENGTH = 2048
BATCH_SIZE = 64
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


def epoch(folder: Path, names: list[str], shuffle: str | None) -> dict[str, float]:
    """Run an epoch; return its rates and what was read."""
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids", metadata=names),
        sequences=pf.Windows(LENGTH),
        batch_size=BATCH_SIZE,
        seed=1,
        shuffle=shuffle,
        fields=("input_ids", "metadata") if names else ("input_ids",),
    )
    begin, cpu, batches = time.monotonic(), time.process_time(), 0
    for batch in loader:
        batches += int(batch["input_ids"][0, 0] >= 0)
    tokens = batches * BATCH_SIZE * LENGTH
    return {
        "Mtok per CPU s": tokens / (time.process_time() - cpu) / 1e6,
        "Mtok/s": tokens / (time.monotonic() - begin) / 1e6,
        "bytes read/token": loader.stats()["bytes_read"] / tokens,
    }


def main() -> None:
    """Compare tokens alone with one and two columns told of their documents."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=40_000_000)
    given = parser.parse_args()
    ways = [[], ["id"], ["id", "url"]]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.tokens)
        for shuffle in (None, "page"):
            best: dict[int, dict[str, float]] = {}
            for _ in range(given.rounds):
                for way, names in enumerate(ways):
                    found = epoch(Path(folder), names, shuffle)
                    known = best.setdefault(way, found)
                    if found["Mtok per CPU s"] > known["Mtok per CPU s"]:
                        best[way] = found
            for way, names in enumerate(ways):
                share = best[way]["Mtok per CPU s"] / best[0]["Mtok per CPU s"]
                shown = ", ".join(f"{value:.1f} {n}" for n, value in best[way].items())
                print(f"shuffle={shuffle}, {names}: {shown}; {share:.2f} of alone")


if __name__ == "__main__":
    main()
