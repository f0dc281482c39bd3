"""Sound pages larger than the memory there is: refused, and the process goes on."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.probing import Job, probe

ROOM = 16 << 20
SIZE = 40 << 20
NAMES = ["text", "texts", "mapped", "tokens", "nulls", "fixed"]


@functools.cache
def large_column(name: str) -> pa.Array:
    """About `SIZE` bytes once decoded, of few different bytes."""
    text = "x" * (1 << 20)
    num_rows = SIZE // len(text)
    numbers = np.arange(SIZE // 4, dtype=np.int32) % 8
    match name:
        case "text":
            return pa.array([text] * num_rows)
        case "texts":
            return pa.array([[text, None]] * num_rows)
        case "mapped":
            kind = pa.map_(pa.string(), pa.string())
            return pa.array([[("key", text)]] * num_rows, kind)
        case "tokens":
            return pa.ListArray.from_arrays([0, len(numbers)], numbers)
        case "nulls":
            items = pa.array(numbers, mask=numbers == 7)
            return pa.ListArray.from_arrays([0, len(items)], items)
    return pa.array([text.encode()] * num_rows, pa.binary(len(text)))


@pytest.mark.parametrize("layout", ["plain", "dictionary", "delta"])
@pytest.mark.parametrize("name", NAMES)
def test_pages_larger_than_memory(tmp_path: Path, name: str, layout: str):
    array = large_column(name)
    path = tmp_path / "large.parquet"
    options: dict[str, object] = {"use_dictionary": layout == "dictionary"}
    if layout == "delta":
        kinds = {
            "fixed": "DELTA_BYTE_ARRAY",
            "tokens": "DELTA_BINARY_PACKED",
            "nulls": "DELTA_BINARY_PACKED",
        }
        kind = kinds.get(name, "DELTA_LENGTH_BYTE_ARRAY")
        leaf = {
            "texts": "list.element",
            "tokens": "list.element",
            "nulls": "list.element",
            "mapped": "key_value.value",
        }.get(name)
        options["column_encoding"] = {f"a.{leaf}" if leaf else "a": kind}
    table = pa.table({"a": array})
    pq.write_table(table, path, compression="zstd", data_page_size=1 << 30, **options)
    (outcome,) = probe([Job(path=path, column="a")], memory=ROOM)
    assert outcome.outcome == "LimitExceededError", outcome
    assert "memory" in outcome.message
    assert "bytes" in outcome.message
    # The process that refused goes on.
    pq.write_table(pa.table({"a": [[1, 2]]}), path)
    (outcome,) = probe([Job(path=path, column="a")], memory=ROOM)
    assert outcome.outcome == "values", outcome


SCRIPT = """
import resource, sys
from pathlib import Path
import pagefeed

paths = sys.argv[1:]
pagefeed.PageIndex.build(paths[:1], column="a")
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(len(pagefeed.PageIndex.build(paths, column="a")))
except pagefeed.errors.LimitExceededError as error:
    print(type(error).__name__, error)
"""


def test_an_index_is_built_where_no_thread_can_be_started(tmp_path: Path):
    """Or refused by name: never a panic."""
    paths = []
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"a": [[1, 2]]}), path)
        paths.append(str(path))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(("4", "LimitExceededError no thread")), run.stdout


FEW_THREADS = """
import os, resource, sys, threading, time
import numpy, pagefeed

folder, spare = sys.argv[1], int(sys.argv[2])
data = pagefeed.parquet(folder, column="a")
data.index
os.setuid(65534)  # The limit is none for root.
resource.setrlimit(resource.RLIMIT_NPROC, (40, 40))
ends = []
while True:
    ends.append(threading.Event())
    try:
        threading.Thread(target=ends[-1].wait, daemon=True).start()
    except RuntimeError:
        break
for end in ends[:spare]:
    end.set()
time.sleep(0.2)
loader = pagefeed.Loader(data, sequences=pagefeed.Windows(4), batch_size=1,
                         shuffle=None, num_threads=8, rank=0, world_size=1)
try:
    print([batch["input_ids"][0].tolist() for batch in loader], flush=True)
except pagefeed.errors.LimitExceededError as error:
    print(type(error).__name__, error, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="takes another user, who has no threads")
@pytest.mark.parametrize("spare", [0, 3])
def test_a_loader_does_with_the_threads_it_gets(spare: int):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        pq.write_table(pa.table({"a": [[1, 2, 3, 4]]}), Path(folder) / "a.parquet")
        run = subprocess.run(
            [sys.executable, "-c", FEW_THREADS, folder, str(spare)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    expected = "LimitExceededError no thread" if spare == 0 else "[[1, 2, 3, 4]]"
    assert run.stdout.startswith(expected), run.stdout
