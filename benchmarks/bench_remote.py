"""Tokens from a bucket behind latency and a narrow pipe, beside others who read it.

    python benchmarks/bench_remote.py [--megabytes 192] [--latency 0.05] [--rate 60e6]
    python benchmarks/bench_remote.py --others /tmp/others/bin/python

All read the same files (written as pyarrow does by default: dictionary, snappy, one row
group) from one S3 server through one slow proxy, in turn, in processes of their own:

- ``pagefeed page``, ``row_group``: shuffled windows of 2048 tokens, one epoch,
- ``ranged GETs``: 16 threads that read the files in pieces of 1 MiB, nothing else,
- ``s3fs + pyarrow``: ``pyarrow.parquet`` over ``s3fs``, record batches cut into
  windows, in file order,
- ``datasets``: Hugging Face's streaming with a shuffle buffer, rows joined and cut
  likewise.

The last two need packages that pagefeed does not: make an environment for them,

    python -m venv /tmp/others
    /tmp/others/bin/pip install s3fs datasets pyarrow

and name its Python by ``--others``. Told are tokens and bytes a second from the first
request to the last batch, and from the first batch on, time to the first batch,
requests for each GB, and bytes read for each byte of the files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pagefeed as pf
    from pagefeed.remote import StorageOptions

LENGTH = 2048
BATCH_SIZE = 16
PIECE = 1 << 20
ROOT = Path(__file__).resolve().parent.parent
OPTIONS = "--options"

Run = Iterator[int]
"""Tokens of batch after batch."""


def dataset(options: StorageOptions) -> pf.dataset.ParquetDataset:
    """The files, and their index, which is built but once."""
    import pagefeed

    data = pagefeed.parquet(
        "s3://bucket/tokens/",
        column="input_ids",
        storage_options=options,
        cache_dir=os.environ["PAGEFEED_CACHE_DIR"],
    )
    len(data.index)
    return data


def pagefeed_run(options: StorageOptions, shuffle: Any, memory: str) -> Run:
    """The loader, one epoch."""
    import pagefeed as pf

    data = dataset(options)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(LENGTH),
        fields=("input_ids",),
        batch_size=BATCH_SIZE,
        shuffle=shuffle,
        memory=memory,
        epochs=1,
        rank=0,
        world_size=1,
    )
    return (batch["input_ids"].size for batch in loader)


def ranged_run(options: StorageOptions) -> Run:
    """What 16 threads of plain reads reach: one token for every byte."""
    from pagefeed.core.storage import located

    found = located("s3://bucket/tokens/", options)
    pieces = [
        (file, begin, min(begin + PIECE, size))
        for file in found.files
        for size in [found.storage.size(file)]
        for begin in range(0, size, PIECE)
    ]

    def batches() -> Iterator[int]:
        with ThreadPoolExecutor(16) as pool:
            yield from map(
                len, pool.map(lambda piece: found.storage.read(*piece), pieces)
            )

    return batches()


def s3fs_run(options: StorageOptions) -> Run:
    """Record batches over s3fs, cut into windows as they come."""
    import pyarrow.parquet as pq
    import s3fs

    system = s3fs.S3FileSystem(**_of_s3fs(options))

    def batches() -> Iterator[int]:
        left = 0
        for path in sorted(system.ls("bucket/tokens")):
            with system.open(path, "rb") as file:
                read = pq.ParquetFile(file, pre_buffer=True)
                for batch in read.iter_batches(64, columns=["input_ids"]):
                    left += len(batch.column(0).flatten().to_numpy())
                    whole = LENGTH * BATCH_SIZE
                    while left >= whole:
                        left -= whole
                        yield whole

    return batches()


def datasets_run(options: StorageOptions) -> Run:
    """Hugging Face's streaming: rows of a shuffle buffer, joined and cut."""
    import datasets
    import numpy as np
    import s3fs

    system = s3fs.S3FileSystem(**_of_s3fs(options))
    files = [f"s3://{path}" for path in sorted(system.ls("bucket/tokens"))]
    stream = datasets.load_dataset(
        "parquet",
        data_files=files,
        split="train",
        streaming=True,
        storage_options=_of_s3fs(options),
    ).shuffle(seed=1, buffer_size=1000)

    def batches() -> Iterator[int]:
        left = 0
        for rows in stream.with_format("numpy").iter(64):
            left += sum(len(np.asarray(row)) for row in rows["input_ids"])
            whole = LENGTH * BATCH_SIZE
            while left >= whole:
                left -= whole
                yield whole

    return batches()


def _of_s3fs(options: StorageOptions) -> dict[str, Any]:
    return {
        "key": options["access_key_id"],
        "secret": options["secret_access_key"],
        "client_kwargs": {
            "endpoint_url": options["endpoint_url"],
            "region_name": options["region"],
        },
    }


def measure(run: Run, most_seconds: float) -> dict[str, float]:
    """Take all batches, or as many as there is time for."""
    begin = time.perf_counter()
    tokens = first_tokens = 0
    first = end = begin
    for taken in run:
        tokens += taken
        end = time.perf_counter()
        if first == begin:
            first, first_tokens = end, tokens
        if end - begin > most_seconds:
            break
    return {
        "tokens": tokens,
        "seconds": end - begin,
        "first_seconds": first - begin,
        "steady": (tokens - first_tokens) / max(1e-9, end - first),
        "cpu_seconds": time.process_time(),
    }


RUNS: dict[str, Callable[[StorageOptions], Run]] = {
    "pagefeed page": lambda options: pagefeed_run(options, "page", "1GiB"),
    "pagefeed row_group": lambda options: pagefeed_run(options, "row_group", "1GiB"),
    "ranged GETs": ranged_run,
    "s3fs + pyarrow": s3fs_run,
    "datasets": datasets_run,
}
OTHERS = ("s3fs + pyarrow", "datasets")


def write(folder: Path, num_bytes: int) -> None:
    """Files of random tokens with few common ones, and how many tokens they are."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    num_files, tokens = 8, 0
    for number in range(num_files):
        lengths = np.clip(
            rng.lognormal(6, 1, num_bytes // num_files // 1200), 1, 20_000
        )
        offsets = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
        ids = (rng.zipf(1.25, offsets[-1]) % 32_000).astype(np.int32)
        rows = pa.ListArray.from_arrays(offsets.astype(np.int32), ids)
        pq.write_table(pa.table({"input_ids": rows}), folder / f"part-{number}.parquet")
        tokens += len(ids)
    (folder.parent.parent / "tokens.json").write_text(str(tokens))


def main() -> None:
    """Measure all in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=192)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--rate", type=float, default=60e6, help="bytes a second")
    parser.add_argument("--direct", action="store_true", help="without the proxy")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="for each, at most")
    parser.add_argument("--only", nargs="+", default=list(RUNS))
    parser.add_argument("--others", help="Python with s3fs and datasets")
    parser.add_argument(
        "--folder", default=str(ROOT / "benchmarks" / ".data" / "remote")
    )
    parser.add_argument(OPTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run = RUNS[options.run](json.loads(options.options))
        print(json.dumps(measure(run, options.seconds)))
        return
    sys.path.insert(0, str(ROOT / "tests"))
    compare(options)


def compare(options: argparse.Namespace) -> None:
    """Start the servers, and run each in a process of its own."""
    from servers.object_store import note_tags, options_of, s3_server
    from servers.slow_proxy import slow_proxy

    root = Path(options.folder) / str(options.megabytes)
    files = root / "bucket" / "tokens"
    if not files.exists():
        write(files, options.megabytes * 1_000_000)
        note_tags(root)
    options.tokens = json.loads((root / "tokens.json").read_text())
    size = sum(file.stat().st_size for file in files.iterdir())
    print(f"{size / 1e6:.0f} MB, {options.latency * 1e3:.0f} ms, ", end="")
    print("no pipe" if options.direct else f"{options.rate / 1e6:.0f} MB/s")
    head = ("Mtok/s", "steady", "MB/s", "first s", "req/GB", "read/byte", "CPU s")
    print(f"{'':20}" + "".join(f"{name:>10}" for name in head))
    os.environ["PAGEFEED_CACHE_DIR"] = str(root / "index")
    with s3_server(root) as settings:
        dataset(cast("StorageOptions", settings))
        port = urlsplit(settings["endpoint_url"]).port or 0
        speed = {"latency": options.latency, "bytes_per_second": options.rate}
        through = nullcontext(port) if options.direct else slow_proxy(port, **speed)
        with through as reached:
            for _ in range(options.rounds):
                for name in options.only:
                    _one(name, options, options_of(reached), size)


def _one(
    name: str, options: argparse.Namespace, server: dict[str, str], size: int
) -> None:
    python = options.others if name in OTHERS else sys.executable
    if python is None:
        print(f"{name:20}  left out: --others names a Python that has it")
        return
    words = [f"--run={name}", f"--seconds={options.seconds}"]
    before = _counts(options, server)
    done = subprocess.run(
        [python, __file__, *words, OPTIONS, json.dumps(server)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    requests, fetched = (
        after - then
        for after, then in zip(_counts(options, server), before, strict=True)
    )
    seconds, tokens = found["seconds"], found["tokens"]
    whole = size if name == "ranged GETs" else options.tokens
    share = min(1.0, tokens / whole)
    shown = [
        tokens / seconds / 1e6,
        found["steady"] / 1e6,
        fetched / seconds / 1e6,
        found["first_seconds"],
        requests / max(1, fetched) * 1e9,
        fetched / (size * share),
        found["cpu_seconds"],
    ]
    print(f"{name:20}" + "".join(f"{number:10.2f}" for number in shown), flush=True)


def _counts(options: argparse.Namespace, server: dict[str, str]) -> list[int]:
    """Requests and bytes that went through the proxy so far."""
    if options.direct:
        return [0, 0]
    place = urlsplit(server["endpoint_url"])
    with closing(HTTPConnection(str(place.hostname), place.port)) as line:
        line.request("GET", "/proxy-counts")
        return [int(number) for number in line.getresponse().read().split()]


if __name__ == "__main__":
    main()
