"""Counts what the client of MaxText trains on, loses and sees twice.

``python benchmarks/clients/count_maxtext.py`` runs JAX on CPU: two processes train and
save by Orbax, then three continue. Each writes the tokens that carry a loss; the parent
compares them with the corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

CLIENT = Path(__file__).parents[2] / "examples" / "clients"
ROWS, LENGTH, FIRST, EOS = 6, 64, 40, 0
"""Two and three processes divide the rows of a global batch; the resume is at FIRST."""


def train(folder: Path, process: int, processes: int, port: int, steps: int) -> None:
    """Train as one of some processes, from the saved step on."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sys.path.insert(0, str(CLIENT))
    from maxtext_pagefeed import TrainIterator

    import pagefeed as pf
    from pagefeed.integrations.jax import local_rows

    jax.distributed.initialize(f"127.0.0.1:{port}", processes, process)
    sharding = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
    data = pf.parquet(folder / "corpus", column="input_ids")
    batches = TrainIterator(data, sharding, rows=ROWS, length=LENGTH, eos=EOS, seed=1)
    manager = ocp.CheckpointManager(folder / "saved")
    if manager.latest_step() is not None:
        batches.restore(manager)
    seen = []
    for _ in range(steps):
        batch = {name: local_rows(array) for name, array in next(batches).items()}
        assert all(each.dtype == np.int32 for each in batch.values())
        shapes = {each.shape for each in batch.values()}
        assert shapes == {(ROWS // processes, LENGTH)}
        seen.append(batch["targets"][batch["targets_segmentation"] > 0])
    batches.save(manager, (manager.latest_step() or 0) + steps)
    manager.wait_until_finished()
    name = f"seen-{processes}-{process}"
    np.save(folder / name, np.concatenate(seen))


def run(folder: Path, processes: int, port: int, steps: int) -> list[int]:
    """Train by some processes; return the targets of all."""
    import numpy as np

    command = [sys.executable, __file__, str(folder)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    running = [
        subprocess.Popen([*command, *map(str, each)], env=environment)
        for each in ((n, processes, port, steps) for n in range(processes))
    ]
    assert [each.wait() for each in running] == [0] * processes
    names = (folder / f"seen-{processes}-{n}.npy" for n in range(processes))
    return np.concatenate([np.load(name) for name in names]).tolist()


def main() -> None:
    """Write a corpus of numbered tokens, train twice, and print the counts."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import pagefeed as pf

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "corpus").mkdir()
        rng, token, rows = np.random.default_rng(1), 1, []
        for length in rng.integers(2, 60, 1000).tolist():
            rows.append(list(range(token, token + length)))
            token += length
        table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
        pq.write_table(table, folder / "corpus" / "a.parquet", row_group_size=500)
        data = pf.parquet(folder / "corpus", column="input_ids")
        cut = pf.Packed(LENGTH, eos=EOS)
        one: dict[str, Any] = {"rank": 0, "world_size": 1, "batch_size": 1}
        num_rows = len(pf.Loader(data, sequences=cut, seed=1, **one))
        steps = num_rows // ROWS
        before = run(folder, 2, 29_471, FIRST)
        after = run(folder, 3, 29_472, steps - FIRST)
        counts = Counter(each for each in before + after if each != EOS)
        firsts, every = {row[0] for row in rows}, {each for row in rows for each in row}
        print(f"{steps} steps of {ROWS} rows, {num_rows % ROWS} rows of the epoch left")
        print("trained on:", sum(counts.values()), "of", len(every - firsts), "targets")
        print("seen twice:", sum(count > 1 for count in counts.values()))
        print("never seen:", len(every - firsts - counts.keys()))
        print("first tokens of documents, without a loss:", len(firsts - counts.keys()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        main()
