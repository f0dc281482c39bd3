"""Other content with the size and the time that were indexed is refused."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import StaleFileError


def write_parquet(path, tokens):
    rows = pa.array(list(tokens.reshape(-1, 50)), type=pa.list_(pa.int32()))
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(
        pa.table({"input_ids": rows}), path, write_statistics=False, **options
    )


FORMATS = {
    "parquet": (write_parquet, lambda path: pf.parquet(path, column="input_ids")),
    "raw": (
        lambda path, tokens: tokens.tofile(path),
        lambda path: pf.tokens(path, dtype="int32"),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_rewritten_with_its_old_time(tmp_path, monkeypatch, name):
    path, (write, read) = tmp_path / "data.bin", FORMATS[name]
    random = np.random.default_rng(1)
    write(path, random.integers(1, 1000, 50_000).astype("int32"))
    before = path.stat()

    def load():
        data = read(str(path))
        return pf.Loader(data, sequences=pf.Windows(100, tail="drop"), batch_size=2)

    monkeypatch.setenv("PAGEFEED_CACHE_DIR", str(tmp_path / "cache"))
    next(iter(load()))
    # Other permissions and links leave content as it was.
    path.chmod(0o600)
    (tmp_path / "link").hardlink_to(path)
    next(iter(load()))
    write(path, random.integers(1, 1000, 50_000).astype("int32"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)

    with pytest.raises(StaleFileError, match="rewritten in place, with its old time"):
        next(iter(load()))
