"""What deleted rows cost: tables with deletion vectors beside the same without.

    python benchmarks/bench_tables.py [--rounds 5] [--files 10000]

First the rate: rounds in turn over an Iceberg table without deletes, and over one of
which some rows of every file are deleted by deletion vectors; tokens of batches per
second of CPU time and of the clock. Then the start: a table of many small files, a
tenth of which have a file of deleted positions each; how long to the first batch,
with a cold cache folder and a warm one. Libraries are imported before.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from made.tables import catalog_in, delete_from_iceberg

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


def first_batch(metadata: str, cache: Path) -> tuple[float, float]:
    """Seconds until a batch is there: of the clock, and of CPU time."""
    begin, spent = time.perf_counter(), time.process_time()
    data = pf.iceberg(metadata, column="tokens", cache_dir=cache)
    next(iter(pf.Loader(data, sequences=pf.Windows(LENGTH), batch_size=BATCH_SIZE)))
    return time.perf_counter() - begin, time.process_time() - spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10_000)
    options = parser.parse_args()
    rng = np.random.default_rng(1)

    def some_rows(paths: list[str], count: int, of: int) -> list[tuple[str, list[int]]]:
        chosen = [sorted(rng.choice(of, count, replace=False).tolist()) for _ in paths]
        return list(zip(paths, chosen, strict=True))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_files(folder / "large", RATE_FILES, RATE_ROWS)
        plain = table_of(folder / "rate", paths)
        for percent in (0.1, 1, 10):
            deleted = some_rows(paths, int(RATE_ROWS * percent / 100), RATE_ROWS)
            less = delete_from_iceberg(plain, deleted, "vectors")
            rates: dict[str, list[tuple[float, float]]] = {plain: [], less: []}
            for _ in range(1 + options.rounds):
                for metadata, found in rates.items():
                    found.append(rate_of(metadata, folder / "cache"))
            ratios = [
                statistics.median(
                    with_deletes[kind] / without[kind]
                    for without, with_deletes in zip(
                        rates[plain][1:], rates[less][1:], strict=True
                    )
                )
                for kind in (0, 1)
            ]
            print(
                f"{percent:3} % of rows deleted: {ratios[0]:.3f} of the rate "
                f"without, {ratios[1]:.3f} by CPU time"
            )
        small = write_files(folder / "small", options.files, SMALL_ROWS)
        table = table_of(folder / "start", small)
        for kind in ("positions", "vectors"):
            deleted = some_rows(small[::10], SMALL_ROWS // 10, SMALL_ROWS)
            metadata = delete_from_iceberg(table, deleted, kind)
            for what in ("cold", "warm"):
                cache = folder / f"cache-{kind}"
                found = []
                for _ in range(options.rounds):
                    if what == "cold":
                        shutil.rmtree(cache, ignore_errors=True)
                    found.append(first_batch(metadata, cache))
                clock, cpu = (
                    statistics.median(part) for part in zip(*found, strict=True)
                )
                print(
                    f"{len(small):,} files, {len(deleted):,} with {kind}, {what}: "
                    f"first batch in {clock:.2f} s, {cpu:.2f} s of CPU time"
                )


if __name__ == "__main__":
    main()
