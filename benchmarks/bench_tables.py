"""What deleted rows cost: tables with deletes beside the same without.

    python benchmarks/bench_tables.py [--rounds 5] [--files 10000] [--start]

First the rate: rounds in turn over an Iceberg table without deletes, and over one of
which some rows of every file are deleted by deletion vectors; tokens of batches per
second of CPU time and of the clock. Then the start: tables of many small files, a
tenth of which have deletes each: files of positions and vectors in Puffin files of
Iceberg, vectors in files of Delta. How long to the first batch, with a cold cache
folder and a warm one. Libraries are imported before.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import convert_to_deltalake

import pagefeed as pf

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from made.tables import catalog_in, delete_from_delta, delete_from_iceberg

LENGTH, BATCH_SIZE = 2048, 8
MEAN = 500
RATE_FILES, RATE_ROWS = 4, 50_000
SMALL_ROWS = 100


def write_files(folder: Path, num_files: int, num_rows: int) -> list[str]:
    """Files of documents of 500 tokens or so, as pyarrow writes them."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    paths = []
    for number in range(num_files):
        lengths = rng.integers(1, 2 * MEAN, num_rows)
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
        tokens = rng.integers(0, 30_000, offsets[-1], dtype=np.int32)
        rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
        path = str(folder / f"{number:05}.parquet")
        pq.write_table(pa.table({"tokens": rows}), path)
        paths.append(path)
    return paths


def table_of(folder: Path, paths: list[str]) -> str:
    """An Iceberg table of files; the path of its metadata."""
    catalog, _ = catalog_in(folder)
    schema = pa.schema([("tokens", pa.list_(pa.int32()))])
    table = catalog.create_table("corpus.web", schema=schema)
    table.add_files(paths)
    catalog.close()
    return str(table.metadata_location).removeprefix("file://")


def rate_of(metadata: str, cache: Path) -> tuple[float, float]:
    """Deliver an epoch; million tokens per second of the clock, and of CPU time."""
    data = pf.iceberg(metadata, column="tokens", cache_dir=cache)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(LENGTH, tail="drop"),
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        seed=1,
    )
    steps = iter(loader)
    next(steps)  # What is made once is no part of the rate.
    begin, spent = time.perf_counter(), time.process_time()
    tokens = sum(batch["input_ids"].size for batch in steps) / 1e6
    return (
        tokens / (time.perf_counter() - begin),
        tokens / (time.process_time() - spent),
    )


def first_batch(opened: Any, table: Any, cache: Path) -> tuple[float, float]:
    """Seconds until a batch is there: of the clock, and of CPU time."""
    begin, spent = time.perf_counter(), time.process_time()
    data = opened(table, column="tokens", cache_dir=cache)
    next(iter(pf.Loader(data, sequences=pf.Windows(LENGTH), batch_size=BATCH_SIZE)))
    return time.perf_counter() - begin, time.process_time() - spent


def measure_start(folder: Path, num_files: int, rounds: int) -> None:
    """Print how long tables of many files take until the first batch is there."""
    small = write_files(folder / "small", num_files, SMALL_ROWS)
    rng = np.random.default_rng(1)
    deleted = [
        (path, sorted(rng.choice(SMALL_ROWS, SMALL_ROWS // 10, replace=False).tolist()))
        for path in small[::10]
    ]
    table = table_of(folder / "start", small)
    tables: dict[str, tuple[Any, Any]] = {
        f"Iceberg, {kind}": (pf.iceberg, delete_from_iceberg(table, deleted, kind))
        for kind in ("positions", "vectors")
    }
    convert_to_deltalake(folder / "small")
    names = {Path(path).name: rows for path, rows in deleted}
    delete_from_delta(folder / "small", names)
    tables["Delta, vectors"] = pf.delta, folder / "small"
    for name, (opened, path) in tables.items():
        cache = folder / f"cache {name}"
        for what in ("cold", "warm"):
            found = []
            for _ in range(rounds):
                if what == "cold":
                    shutil.rmtree(cache, ignore_errors=True)
                found.append(first_batch(opened, path, cache))
            clock, cpu = (statistics.median(part) for part in zip(*found, strict=True))
            print(
                f"{name} of {len(deleted):,} of {num_files:,} files, {what}: first "
                f"batch in {clock:.2f} s, {cpu:.2f} s of CPU time"
            )


def measure_rates(folder: Path, rounds: int) -> None:
    """Print the rate over tables with deleted rows, as parts of that without."""
    rng = np.random.default_rng(1)
    paths = write_files(folder / "large", RATE_FILES, RATE_ROWS)
    plain = table_of(folder / "rate", paths)
    for percent in (0.1, 1, 10):
        count = int(RATE_ROWS * percent / 100)
        deleted = [
            (path, sorted(rng.choice(RATE_ROWS, count, replace=False).tolist()))
            for path in paths
        ]
        less = delete_from_iceberg(plain, deleted, "vectors")
        rates: dict[str, list[tuple[float, float]]] = {plain: [], less: []}
        for _ in range(1 + rounds):
            for metadata, found in rates.items():
                found.append(rate_of(metadata, folder / "cache"))
        pairs = list(zip(rates[plain][1:], rates[less][1:], strict=True))
        clock, cpu = (
            statistics.median(less[kind] / plain[kind] for plain, less in pairs)
            for kind in (0, 1)
        )
        print(
            f"{percent:3} % of rows deleted: {clock:.3f} of the rate without, "
            f"{cpu:.3f} by CPU time"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--start", action="store_true", help="only the start")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if not options.start:
            measure_rates(Path(name), options.rounds)
        measure_start(Path(name), options.files, options.rounds)


if __name__ == "__main__":
    main()
