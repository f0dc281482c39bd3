"""What ranks ask of a bucket until their first batch, counted by a server.

A bucket of small files in memory that counts requests; each rank is a dataset and a
loader of its own. Prints requests and seconds of a rank that finds nothing on its node,
of one that finds the index there, and of one without a shared index.

    python benchmarks/bench_shared_index.py --files 1000 --ranks 8
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf
from pagefeed.dataset import write_index

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers.counting_store import CountingStore
from servers.web_servers import running

CORPUS, INDEX = "s3://corpus/web", "s3://corpus/web/_pagefeed"


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--without", action="store_true", help="a rank without it too")
    given = parser.parse_args()
    store = CountingStore()
    out = io.BytesIO()
    tokens = pa.array([[7] * 64] * 64, pa.list_(pa.int32()))
    table = pa.table({"input_ids": tokens})
    pq.write_table(table, out, data_page_size=2048, write_page_index=True)
    with running(store):
        for number in range(given.files):
            store.put(f"corpus/web/{number:07}.parquet", out.getvalue())
        begin = time.perf_counter()
        options = {"column": "input_ids", "storage_options": store.options}
        done = write_index(CORPUS, INDEX, **options)
        seconds = time.perf_counter() - begin
        print(f"written in {seconds:.1f} s: {done}\n{dict(store.counts)}", flush=True)
        store.latency = given.latency
        world = given.nodes * given.ranks
        for node in range(given.nodes):
            with tempfile.TemporaryDirectory() as cache:
                for rank in range(given.ranks):
                    _show(store, node * given.ranks + rank, world, cache, INDEX)
        if given.without:
            with tempfile.TemporaryDirectory() as cache:
                for rank in range(2):
                    _show(store, rank, world, cache, None)


def _show(
    store: CountingStore, rank: int, world: int, cache: str, index: str | None
) -> None:
    time.sleep(0.5)  # What the rank before reads ahead still comes after its end.
    store.counts.clear()
    begin = time.perf_counter()
    dataset = pf.parquet(
        CORPUS,
        column="input_ids",
        cache_dir=cache,
        index=index,
        storage_options=store.options,
    )
    pages = len(dataset.index)
    opened, counts = time.perf_counter() - begin, dict(store.counts)
    with pf.Loader(
        dataset,
        sequences=pf.Windows(64),
        batch_size=2,
        rank=rank,
        world_size=world,
    ) as loader:
        made = dict(store.counts)
        next(iter(loader))
        first, asked = time.perf_counter() - begin, dict(store.counts)
    print(
        f"rank {rank} {'with' if index else 'without'}: {pages} pages, opened in "
        f"{opened:.2f} s by {counts}, loader by {made}; first batch after "
        f"{first:.2f} s, {asked}",
        flush=True,
    )


if __name__ == "__main__":
    main()
