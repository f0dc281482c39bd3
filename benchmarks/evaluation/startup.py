"""How long it takes from nothing to the first batch, by the number of files."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH = 256

PROGRAM = f"""
import resource, sys, time
begin = time.perf_counter()
import pagefeed as pf
imported = time.perf_counter()
loader = pf.Loader(
    pf.parquet(sys.argv[1], column="input_ids", cache_dir=sys.argv[2]),
    sequences=pf.Windows({LENGTH}), batch_size=8, memory="64MiB", rank=0, world_size=1,
)
next(iter(loader))
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(imported - begin, done - imported, peak)
"""


def measure(num_files: int, rounds: int) -> dict[str, Any]:
    """Medians of starts with an empty cache folder and with an index in it."""
    rows = [np.arange(64, dtype=np.int32)] * 16
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for number in range(num_files):
            path = data / f"part-{number:05d}.parquet"
            pq.write_table(pa.table({"input_ids": rows}), path, write_page_index=True)
        cold = [_start(data, Path(folder) / f"cache-{n}") for n in range(rounds)]
        warm = [_start(data, Path(folder) / "cache-0") for _ in range(rounds)]
    return {
        "files": num_files,
        "cold_seconds": statistics.median(one[1] for one in cold),
        "warm_seconds": statistics.median(one[1] for one in warm),
        "import_seconds": statistics.median(one[0] for one in warm),
        "peak_bytes": statistics.median(one[2] for one in cold),
    }


def _start(data: Path, cache: Path) -> tuple[float, float, float]:
    begin = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, str(data), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported, started, peak = map(float, done.stdout.split())
    assert time.perf_counter() - begin >= started
    return imported, started, peak
