"""Servers that fail: the epoch is complete, or an error says which object and why."""

import threading
import time
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import (
    AccessDeniedError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    StaleFileError,
    UnavailableError,
    UnsupportedError,
)


def dataset(place, **options):
    return pf.parquet(
        place.urls, column="input_ids", storage_options=place.options | options
    )


def tokens_of(data):
    return [batch["input_ids"].tolist() for batch in numbered_loader(data)]


def every(number, act):
    """A fault that strikes every so many requests."""
    lock, count = threading.Lock(), [0]

    def fault(handler):
        with lock:
            count[0] += 1
            due = count[0] % number == 0
        return bool(due and act(handler))

    return fault


def after(number, act):
    """A fault that strikes all requests but so many first ones."""
    lock, count = threading.Lock(), [0]

    def fault(handler):
        with lock:
            count[0] += 1
            due = count[0] > number
        return bool(due and act(handler))

    return fault


def busy(handler):
    handler.send(503, b"later", {"Retry-After": "0"})
    return True


def limited(handler):
    handler.send(429, b"slow down")
    return True


def reset(handler):
    handler.connection.close()
    return True


def short(handler):
    """Less of a body than was promised."""
    asked = handler.headers.get("Range")
    if asked is None or handler.command == "HEAD":
        return False
    first, _, last = asked.removeprefix("bytes=").partition("-")
    length = int(last) + 1 - int(first)
    handler.send_response(206)
    handler.send_header("Content-Length", str(length))
    handler.send_header("Content-Range", f"bytes {first}-{last}/{10**9}")
    handler.end_headers()
    handler.wfile.write(b"x" * (length // 2))
    handler.close_connection = True
    return True


def other_range(handler):
    """A range that was not asked for."""
    if "Range" not in handler.headers or handler.command == "HEAD":
        return False
    handler.send(206, b"wrong", {"Content-Range": "bytes 1-5/100"})
    return True


@pytest.mark.parametrize("act", [busy, limited, reset, short, other_range])
def test_an_epoch_is_complete_whatever_fails(web, web_server, act):
    expected = tokens_of(pf.parquet(web.folder, column="input_ids"))
    web_server.fault = every(5, act)
    data = dataset(web)
    assert tokens_of(data) == expected
    assert data.storage.counts()["retries"] > 0


def test_a_request_that_hangs_is_sent_a_second_time(web, web_server):
    expected = tokens_of(pf.parquet(web.folder, column="input_ids"))
    data = dataset(web)
    assert len(data) == 600
    hung = threading.Event()

    def hang(handler):
        if "Range" in handler.headers and not hung.is_set():
            hung.set()
            time.sleep(10)
        return False

    web_server.fault = hang
    assert tokens_of(data) == expected
    assert data.storage.counts()["hedges"] >= 1


def test_credentials_that_expire_are_told_at_once(web, web_server):
    data = dataset(web)
    assert len(data) == 600
    web_server.asked.clear()
    assert tokens_of(data)
    half = len(web_server.asked) // 2
    web_server.fault = after(
        half, lambda handler: handler.send(403, b"expired") is None
    )
    loader = numbered_loader(data)
    with pytest.raises(AccessDeniedError, match="give credentials that are valid"):
        list(loader)
    state = loader.state_dict()
    web_server.fault = None
    again = numbered_loader(dataset(web))
    again.load_state_dict(state)
    assert len(list(again)) > 10


def test_a_server_that_is_gone_is_told_within_the_deadline(web, web_server):
    data = dataset(web, deadline=1)
    assert len(data) == 600
    web_server.fault = busy
    begin = time.monotonic()
    with pytest.raises(UnavailableError, match="503") as caught:
        tokens_of(data)
    assert caught.value.file in web.urls
    assert time.monotonic() - begin < 60
    nobody = "http://127.0.0.1:1/a.parquet"
    with pytest.raises(UnavailableError, match="refused") as caught:
        pf.parquet(nobody, column="a", storage_options={"deadline": 0.5})
    assert caught.value.file == nobody


def test_a_silent_server_is_given_up(web, web_server):
    def wait(_handler):
        time.sleep(3)
        return False

    web_server.fault = wait
    with pytest.raises(UnavailableError, match=r"no answer|timed out"):
        dataset(web, deadline=0.3)


def test_objects_that_change_are_refused(web):
    path = web.folder / "part-1.parquet"
    before = path.read_bytes()
    data = dataset(web)
    assert len(data) == 600
    try:
        path.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
        with pytest.raises(
            StaleFileError, match=r"part-1.*changed since it was indexed"
        ):
            tokens_of(data)
        path.unlink()
        with pytest.raises(MissingFileError, match=r"part-1.*does not exist"):
            tokens_of(data)
    finally:
        path.write_bytes(before)


def test_an_object_replaced_in_the_middle_is_refused(web, web_server):
    path = web.folder / "part-0.parquet"
    before = path.read_bytes()
    data = dataset(web)
    assert len(data) == 600
    # Once: what is asked late would else replace it again after the test.
    reads, writes = threading.Semaphore(1), threading.Semaphore(1)

    def replace(handler):
        is_read = handler.path.endswith(path.name) and "Range" in handler.headers
        is_second = is_read and not reads.acquire(blocking=False)
        if is_second and writes.acquire(blocking=False):
            path.write_bytes(before + b"longer")
        return False

    web_server.fault = replace
    try:
        with pytest.raises(
            StaleFileError, match=r"part-0.*changed since it was indexed"
        ):
            tokens_of(data)
    finally:
        path.write_bytes(before)


def test_what_does_not_exist(s3, web):
    for url in (f"{s3.base}/none.parquet", f"{web.base}/none.parquet"):
        with pytest.raises(MissingFileError, match=r"none.parquet.*does not exist"):
            pf.parquet(url, column="a", storage_options=s3.options)
    for url in ("s3://corpus/nothing/", "s3://corpus/tokens/*.csv"):
        with pytest.raises(MissingFileError, match="holds no Parquet files"):
            pf.parquet(url, column="a", storage_options=s3.options)


def test_wrong_credentials_are_told_at_once(s3):
    begin = time.monotonic()
    with pytest.raises(AccessDeniedError, match="access is denied") as caught:
        dataset(s3, secret_access_key="wrongSecret")
    assert caught.value.file in s3.urls
    assert "wrongSecret" not in str(caught.value)
    assert time.monotonic() - begin < 30


def test_a_server_without_ranges_is_refused(web, web_server):
    def whole(handler):
        if "Range" not in handler.headers:
            return False
        handler.send(200, b"x" * 100_000)
        return True

    web_server.fault = whole
    with pytest.raises(FileAccessError, match="does not answer ranges"):
        len(dataset(web))


def test_arguments_are_checked(s3, web):
    cases: list[tuple[str, Any, type[Exception], str]] = [
        (s3.urls[0], {"regoin": "x"}, InvalidArgumentError, "regoin"),
        (s3.urls[0], {"deadline": -1}, InvalidArgumentError, "deadline"),
        (s3.urls[0], {"region": None}, InvalidArgumentError, "region"),
        (s3.urls[0], ["region"], InvalidArgumentError, "must be a dict"),
        (s3.urls[0], {"max_in_flight": 10**9}, InvalidArgumentError, "give fewer"),
        (s3.urls[0], {"allow_http": "ture"}, InvalidArgumentError, "true or false"),
        (s3.urls[0], {"storage_cache": 200}, InvalidArgumentError, "holds no page"),
        (s3.urls[0], {"endpoint_url": "host:9000"}, InvalidArgumentError, "web addr"),
        (s3.urls[0], {"endpoint_url": ""}, InvalidArgumentError, "web address"),
        (s3.urls[0], {"endpoint_url": "htp://h"}, InvalidArgumentError, "web address"),
        ("hf://datasets/a/b", {"hf_endpoint": "hf.co"}, InvalidArgumentError, "web ad"),
        (f"{web.base}/", None, UnsupportedError, "name the files one by one"),
        ("ftp://host/a.parquet", None, UnsupportedError, "ftp:// is not read"),
        ("s3://", None, InvalidArgumentError, "s3://BUCKET"),
        (str(web.folder), {"region": "x"}, InvalidArgumentError, "paths are local"),
    ]
    for url, options, error, words in cases:
        with pytest.raises(error, match=words):
            pf.parquet(url, column="a", storage_options=options)


def test_retries_are_counted_by_file(web, web_server):
    loader = numbered_loader(dataset(web))
    before, counts_before = loader.stats(by="file"), loader.stats()
    web_server.fault = every(3, busy)
    assert list(loader)
    reads, counts = loader.stats(by="file"), loader.stats()

    def grown(name):
        of_file = [reads[url][name] for url in web.urls]
        return sum(of_file) - sum(before.get(url, {}).get(name, 0) for url in web.urls)

    retries = counts["storage/retries"] - counts_before["storage/retries"]
    assert grown("retries") == retries > 0
    assert grown("requests") > retries
    assert grown("bytes") >= counts["bytes_read"]
