"""Files of a mounted folder: kept on a local disk, and opened again if need be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.shared_data import ROOT
from pagefeed.errors import InvalidArgumentError

ONE: Any = {"rank": 0, "world_size": 1}


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    folder = tmp_path / "mount"
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number in range(3):
        tokens = pa.array(
            rng.integers(0, 60_000, (400, 50)).tolist(), pa.list_(pa.int32())
        )
        table = pa.table({"input_ids": tokens, "n": range(400)})
        pq.write_table(table, folder / f"{number}.parquet", data_page_size=8 << 10)
    return folder


def loader(
    mount: Path, cache: Path | None = None, size: str = "64MB", **more: Any
) -> pf.Loader:
    kept: Any = {}
    if cache is not None:
        kept = {
            "storage_cache": size,
            "storage_options": {"storage_cache_dir": str(cache)},
        }
    data = pf.parquet(mount, column="input_ids", **kept)
    given: Any = {"sequences": pf.Windows(64), "batch_size": 8, "seed": 3} | ONE | more
    return pf.Loader(data, **given)


def batches(loader: pf.Loader) -> list[bytes]:
    return [batch["input_ids"].tobytes() for batch in loader]


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_pages_of_a_mount_are_kept_and_read_from_there(mount, tmp_path):
    want = batches(loader(mount))
    first, cache = loader(mount, tmp_path / "kept"), tmp_path / "kept"
    assert batches(first) == want
    assert size_of(cache) > size_of(mount) // 2
    assert first.stats()["storage/bytes_fetched"] > 0
    again = loader(mount, cache)
    assert batches(again) == want
    stats = again.stats()
    assert stats["storage/bytes_fetched"] == 0, "the mount was read again"
    assert stats["storage/cache_bytes"] > 0
    half = loader(mount)
    taken = iter(half)
    for _ in range(9):
        next(taken)
    resumed = loader(mount, cache)
    resumed.load_state_dict(half.state_dict())
    assert batches(resumed) == want[9:]


def test_what_is_kept_is_checked_bounded_and_of_one_state_of_a_file(mount, tmp_path):
    want, cache = batches(loader(mount)), tmp_path / "kept"
    batches(loader(mount, cache))
    for path in cache.rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 0x55
            path.write_bytes(data)
    assert batches(loader(mount, cache)) == want
    small = tmp_path / "small"
    assert batches(loader(mount, small, "100KB")) == want
    assert size_of(small) < 250_000
    changed = loader(mount, cache)
    os.replace(shutil.copy(mount / "0.parquet", tmp_path / "x"), mount / "1.parquet")
    assert batches(changed) == want, "what was kept is of the state that was indexed"
    assert batches(loader(mount, cache)) == batches(loader(mount)) != want


def test_settings_of_servers_are_refused_beside_those_of_the_cache(mount, tmp_path):
    kept: Any = {"storage_cache_dir": str(tmp_path / "kept")}
    wrong: list[tuple[Any, str]] = [
        ({"region": "x"}, "region"),
        (kept | {"storage_cache": "1MB", "region": "x"}, "region"),
        (kept, "storage_cache_dir"),
    ]
    for options, named in wrong:
        with pytest.raises(InvalidArgumentError, match=f"{named} are for remote"):
            pf.parquet(mount, column="input_ids", storage_options=options)
    with pytest.raises(InvalidArgumentError, match="holds no page"):
        pf.parquet(mount, column="input_ids", storage_cache=100, storage_options=kept)


FORGETTING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int number = 0;
ssize_t pread64(int fd, void *into, size_t size, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    char link[64], path[512] = "";
    snprintf(link, 64, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 511);
    // Smaller reads are of samples of a file that was opened just before.
    int is_data = size > 4096 && n > 8 && !memcmp(path + n - 8, ".parquet", 8);
    int place = is_data ? __sync_fetch_and_add(&number, 1) : -1;
    if (place >= atoi(getenv("FIRST")) && place < atoi(getenv("LAST"))) {
        errno = ESTALE;
        return -1;
    }
    return real(fd, into, size, at);
}
"""

READING = """
import sys
sys.path[:0] = [sys.argv[1] + "/python"]
import pagefeed as pf
from pagefeed.errors import FileAccessError
data, one = pf.parquet(sys.argv[2], column="input_ids"), {"rank": 0, "world_size": 1}
try:
    loader = pf.Loader(data, sequences=pf.Windows(64), batch_size=8, **one)
    print(sum(int(batch["input_ids"].sum()) for batch in loader))
except FileAccessError as error:
    print(error)
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_file_that_a_server_forgot_is_opened_again(mount, tmp_path):
    code, library = tmp_path / "forget.c", tmp_path / "forget.so"
    code.write_text("#include <stdio.h>\n#include <string.h>\n" + FORGETTING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code, "-ldl"], check=True)
    said = []
    for first, last in ((0, 0), (3, 4), (3, 1 << 30)):
        env = os.environ | {"LD_PRELOAD": str(library)}
        env |= {"FIRST": str(first), "LAST": str(last)}
        command = [sys.executable, "-c", READING, str(ROOT), str(mount)]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.strip())
    assert said[0] == said[1] != ""
    assert ".parquet" in said[2]
    assert "Stale file handle" in said[2]
