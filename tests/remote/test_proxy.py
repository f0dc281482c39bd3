"""An S3 server behind a line that breaks, and programs that are interrupted."""

import os
import signal
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import StaleFileError
from servers.object_store import options_of
from servers.slow_proxy import slow_proxy


def port_of(place):
    return urlsplit(place.options["endpoint_url"]).port


def tokens_of(data, **options):
    batches = numbered_loader(data, **options)
    return [batch["input_ids"].tolist() for batch in batches]


def dataset(place, port, **options):
    settings = options_of(port) | options
    return pf.parquet(place.urls, column="input_ids", storage_options=settings)


def test_an_epoch_is_complete_over_a_line_that_breaks(s3):
    expected = tokens_of(pf.parquet(s3.folder, column="input_ids"))
    with slow_proxy(port_of(s3), share_500=0.25, share_reset=0.25) as port:
        data = dataset(s3, port)
        assert tokens_of(data, shuffle="row", sequences=pf.Windows(32)) != []
        assert tokens_of(data) == expected
        assert data.storage.counts()["retries"] > 0


def test_other_tags_are_never_read(s3):
    with slow_proxy(port_of(s3), share_tag=1.0) as port:
        data = dataset(s3, port, deadline=5)
        with pytest.raises(StaleFileError, match="changed since it was indexed"):
            tokens_of(data)


def test_memory_bounds_what_is_under_way(s3):
    with slow_proxy(port_of(s3), latency=0.01) as port:
        loader = numbered_loader(dataset(s3, port), memory="1MiB")
        assert len(list(loader)) > 10
        stats = loader.stats()
    assert stats["peak_bytes"] <= 1 << 20
    assert stats["storage/requests"] > 10
    assert stats["storage/in_flight"] == 0
    assert stats["storage/bytes_fetched"] >= stats["storage/bytes_wanted"] > 0


PROGRAM = """
import signal, sys
import pagefeed as pf
# Jobs of a shell in the background ignore it, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
data = pf.parquet(sys.argv[1], column="input_ids", storage_options={"deadline": 100})
print("found", flush=True)
if sys.argv[2] == "index":
    len(data)
loader = pf.Loader(data, sequences=pf.Windows(32), batch_size=4, rank=0, world_size=1)
for batch in loader:
    print("batch", flush=True)
"""


@pytest.mark.parametrize("when", ["index", "batch"])
def test_ctrl_c_ends_what_waits(web, web_server, when):
    silent, asked = threading.Event(), threading.Event()

    def wait(handler):
        if handler.command == "GET" and (when == "index" or silent.is_set()):
            asked.set()
            threading.Event().wait(60)
        return False

    web_server.fault = wait
    command = [sys.executable, "-c", PROGRAM, web.urls[0], when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "found\n"
        if when == "batch":
            assert process.stdout.readline() == "batch\n"
            process.send_signal(signal.SIGINT)
        else:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


def test_ctrl_c_ends_a_listing(s3):
    with slow_proxy(port_of(s3), latency=100) as port:
        settings = {
            f"AWS_{name.upper()}": text for name, text in options_of(port).items()
        }
        command = [sys.executable, "-c", PROGRAM, f"{s3.base}/", "batch"]
        with subprocess.Popen(command, env=os.environ | settings) as process:
            while requests_of(port) == 0:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT


def requests_of(port):
    with urlopen(f"http://127.0.0.1:{port}/proxy-counts") as counts:
        return int(counts.read().split()[0])


def test_an_epoch_goes_on_when_a_server_comes_back(s3):
    expected = tokens_of(pf.parquet(s3.folder, column="input_ids"))
    size = sum(path.stat().st_size for path in s3.folder.iterdir())
    # So slow, and one after another, that much is still to come after the first batch.
    with slow_proxy(port_of(s3), bytes_per_second=size / 5) as port:
        data = dataset(s3, port, deadline=100, max_in_flight=1)
        batches = iter(numbered_loader(data, memory="1MiB"))
        found = [next(batches)["input_ids"].tolist()]
    again = threading.Thread(target=serve_later, args=(port_of(s3), port))
    again.start()
    try:
        found += [batch["input_ids"].tolist() for batch in batches]
    finally:
        BACK.set()
        again.join()
    assert found == expected
    assert data.storage.counts()["retries"] > 0


BACK = threading.Event()


def serve_later(to, port):
    """Serve at a port again, after a time, until it is enough."""
    time.sleep(2)
    with slow_proxy(to, port=port):
        BACK.wait(100)
