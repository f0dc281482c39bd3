"""An index that others cut while it is mapped is an error, and ends no process."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CUT = """
import os, sys
from pathlib import Path
import numpy as np
import pagefeed as pf
from pagefeed.caches.arrays import stored_arrays

kind, data, cache = sys.argv[1:4]
index = pf.PageIndex.build(data, "tokens", cache)
every = np.arange(len(index))
write, sound = lambda to: to.append("a", range(9999)), lambda _: True
arrays = stored_arrays(cache, "made", "key", write, sound)
for path in Path(cache).rglob("*"):
    if path.is_file():
        os.truncate(path, 0 if kind == "small" else path.stat().st_size // 2)
uses = [
    lambda: index.first_rows(every),
    lambda: index.cut(every, every + 1, 0),
    lambda: index.list_pages(every, every + 1),
    lambda: index.core.read_page(len(every) - 1, verify_checksums=True),
    lambda: next(iter(pf.Loader(pf.parquet(data, column="tokens", cache_dir=cache),
        sequences=pf.Windows(4), batch_size=1, seed=1))),
]
for use in uses:
    try:
        use()
        print("done", end=" ")
    except pf.errors.CorruptFileError as error:
        print("refused" if "cut while it is mapped" in str(error) else error, end=" ")
print(arrays["a"].sum())
"""


@pytest.mark.parametrize("kind", ["small", "large"])
def test_an_index_that_was_cut_ends_no_process(tmp_path: Path, kind: str):
    """A small one is a copy; of a large one the size is looked at before each use."""
    num_pages = 50 if kind == "small" else 120_000
    tokens = pa.array([[row % 7] for row in range(num_pages)], pa.list_(pa.int32()))
    (tmp_path / "d").mkdir()
    pq.write_table(
        pa.table({"tokens": tokens}),
        tmp_path / "d" / "a.parquet",
        data_page_size=1,
        write_batch_size=1,
        use_dictionary=False,
        write_page_index=True,
        compression="none",
    )
    done = subprocess.run(
        [sys.executable, "-c", CUT, kind, tmp_path / "d", tmp_path / "c"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    # A new process makes an index anew that is cut.
    first = "refused" if kind == "large" else "done"
    expected = [*[first] * 4, "done", f"{sum(range(9999))}"]
    assert (done.returncode, done.stdout.split()) == (0, expected), done.stderr[-500:]
