"""What planning costs for a mixture of four datasets, beside a single dataset.

    python benchmarks/bench_mixture.py [--rounds 5]

CPU time of the control plane for a sequence: from positions to what the engine takes.
Sequences are windows of 256 tokens, 156,000 of each dataset; the figures are
medians of rounds in turn, after a first one.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.core.batches import plan_batches

LENGTH = 256
BATCH_SIZE = 8
CHUNK_STEPS = 1024
WEIGHTS = {"books": 0.1, "code": 0.3, "math": 0.05, "web": 0.55}


def write(path: Path, seed: int, num_tokens: int) -> None:
    """Write documents of about 500 tokens, with pyarrow's defaults."""
    rng = np.random.default_rng(seed)
    ends = np.unique(rng.integers(1, num_tokens, num_tokens // 500))
    offsets = np.concatenate([[0], ends, [num_tokens]]).astype(np.int32)
    tokens = rng.integers(0, 30_000, num_tokens, dtype=np.int32)
    rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    pq.write_table(pa.table({"input_ids": rows}), path, row_group_size=10_000)


def seconds_per_sequence(loader: pf.Loader) -> float:
    """Plan some chunks, as an iteration does, and return the CPU time of a sequence."""
    run = loader.view().run
    cursor = run.at(run.beginning(0))
    num_steps = min(2 * CHUNK_STEPS, cursor.route.num_steps or 2 * CHUNK_STEPS)
    begin = time.process_time()
    for first in range(0, num_steps, CHUNK_STEPS):
        for piece in cursor.pieces(first, min(CHUNK_STEPS, num_steps - first)):
            if piece is not None:
                plan_batches(run.index, piece, BATCH_SIZE)
    return (time.process_time() - begin) / (num_steps * BATCH_SIZE)


def make(dataset: pf.dataset.ParquetDataset | pf.Mixture, world_size: int) -> pf.Loader:
    """Return the loader of the first rank, without an end."""
    return pf.Loader(
        dataset,
        sequences=pf.Windows(LENGTH),
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        epochs=None,
        rank=0,
        world_size=world_size,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=40_000_000, help="of a dataset")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        datasets = {}
        for seed, name in enumerate(WEIGHTS):
            path = Path(folder) / f"{name}.parquet"
            write(path, seed, options.tokens)
            datasets[name] = pf.parquet(path, column="input_ids")
        mixed = pf.mix({name: (datasets[name], WEIGHTS[name]) for name in WEIGHTS})
        single = datasets["web"]
        print("microseconds a sequence, world size 1, 5 (not of the lanes), 8")
        for what, dataset in (("single", single), ("mixture", mixed)):
            cells = []
            for world_size in (1, 5, 8):
                # One order, whatever the number of ranks.
                state = make(dataset, 1).state_dict()
                loader = make(dataset, world_size)
                loader.load_state_dict(state)
                seconds_per_sequence(loader)
                rounds = [seconds_per_sequence(loader) for _ in range(options.rounds)]
                cells.append(f"{statistics.median(rounds) * 1e6:8.3f}")
            print(f"{what:10}", *cells)


if __name__ == "__main__":
    main()
