"""A line that is slow but moves is no dead one, however many share it."""

import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import UnavailableError
from pagefeed.remote import output_folder
from servers.object_store import options_of
from servers.slow_proxy import slow_proxy

RANKS = 8
ROWS, LENGTH = 256, 1024


@pytest.fixture
def corpus(root):
    """A megabyte of tokens that cannot be compressed, in large row groups."""
    folder = root / "corpus" / "slow"
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    rows = random.integers(0, 2**31, (ROWS, LENGTH), dtype=np.int32)
    path = folder / "part-0.parquet"
    settings = {"use_dictionary": False, "write_page_index": True}
    pq.write_table(pa.table({"input_ids": list(rows)}), path, **settings)
    yield "s3://corpus/slow/part-0.parquet", rows
    path.unlink()


def read(url, port, rank, **options):
    settings = options_of(port) | {"deadline": 2} | options
    data = pf.parquet(url, column="input_ids", storage_options=settings)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(LENGTH),
        batch_size=4,
        rank=rank,
        world_size=RANKS,
        shuffle="row_group",
        drop_last=False,
    )
    return [row for batch in loader for row in batch["input_ids"].tolist()]


def port_of(s3):
    return urlsplit(s3.options["endpoint_url"]).port


def test_eight_ranks_share_a_slow_line(s3, corpus):
    url, rows = corpus
    # Each rank reads the whole row group, 1 MB, at 1 MB/s together: 8 s.
    with (
        slow_proxy(port_of(s3), bytes_per_second=1e6) as port,
        ThreadPoolExecutor(RANKS) as pool,
    ):
        begin = time.monotonic()
        found = list(pool.map(lambda rank: read(url, port, rank), range(RANKS)))
        assert time.monotonic() - begin > 4, "longer than twice the deadline"
    found_rows = sorted(row for one in found for row in one)
    assert found_rows == sorted(rows.tolist())


def test_a_line_that_stops_is_a_dead_one(s3, corpus):
    url, _ = corpus
    with slow_proxy(port_of(s3), bytes_per_second=1e6, stop_after=400_000) as port:
        begin = time.monotonic()
        with pytest.raises(UnavailableError, match="part-0"):
            read(url, port, 0, deadline=1)
        assert time.monotonic() - begin < 30


def upload(root, name, data, port, **options):
    bucket = root / name
    bucket.mkdir()
    settings = options_of(port) | options
    with output_folder(f"s3://{name}", settings, "output").writer("a.bin") as out:
        out.write(data)
    return (bucket / "a.bin").read_bytes()


def test_an_upload_that_moves_is_not_ended(s3, root):
    data = np.random.default_rng(8).bytes(20 << 20)
    with slow_proxy(port_of(s3), bytes_per_second=3e6) as port:
        begin = time.monotonic()
        found = upload(root, "slow-upload", data, port, timeout=4, deadline=5)
        assert time.monotonic() - begin > 5, "longer than the deadline"
    assert found == data


def test_an_upload_may_wait_in_the_buffers_of_the_system(s3, root):
    """All of it has left at once, and nothing moves until the line has carried it."""
    (root / "hidden-upload").mkdir()
    data = np.random.default_rng(9).bytes(6 << 20)
    with slow_proxy(port_of(s3), bytes_per_second=1e6) as port:
        settings = options_of(port) | {"timeout": 2, "deadline": 20}
        folder = output_folder("s3://hidden-upload", settings, "output")
        with folder.writer("a.bin") as out:
            out.write(data)
    assert (root / "hidden-upload" / "a.bin").read_bytes() == data
    # It was ended after 2 s and 4 s at most; each attempt alone takes 6 s.
    assert folder.storage.counts()["requests"] <= 3


def test_an_upload_that_stands_still_is_ended(s3, root):
    data = bytes(4 << 20)
    with (
        slow_proxy(port_of(s3), bytes_per_second=1e7, stop_after=1e6) as port,
        pytest.raises(UnavailableError, match="stands still"),
    ):
        upload(root, "dead-upload", data, port, timeout=1, deadline=3)
