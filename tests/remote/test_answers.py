"""What servers answer is told as what it is."""

import shutil
import time
from collections import Counter
from email.utils import formatdate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import (
    AccessDeniedError,
    FileAccessError,
    MissingFileError,
    StaleFileError,
    UnavailableError,
)
from servers.web_servers import Handler, WebServer, running, tag_of


@pytest.fixture
def bucket(web, web_server) -> Any:
    """The web server, named as a bucket of S3."""
    options: Any = {
        "endpoint_url": web_server.url,
        "region": "us-east-1",
        "skip_signature": True,
        "allow_http": True,
    }

    def opened(name="part-0.parquet", **more):
        url = f"s3://corpus/{name if '/' in name else f'tokens/{name}'}"
        return pf.parquet(url, column="input_ids", storage_options=options | more)

    assert web.urls
    return opened


def test_a_wait_beyond_the_deadline_is_waited_for(web, web_server):
    left = [2]

    def limited(handler):
        left[0] -= 1
        if left[0] < 0:
            return False
        handler.send(429, b"", {"Retry-After": "2"})
        return True

    web_server.fault = limited
    options: Any = {"deadline": 1}
    begin = time.monotonic()
    assert len(pf.parquet(web.urls, column="input_ids", storage_options=options)) == 600
    assert time.monotonic() - begin > 2


def test_a_wait_that_is_too_long_is_told_in_seconds(web, web_server):
    def limited(handler):
        handler.send(429, b"", {"Retry-After": "3600"})
        return True

    web_server.fault = limited
    with pytest.raises(UnavailableError, match=r"wait 3600 s.*max_wait"):
        pf.parquet(web.urls, column="input_ids", storage_options={"max_wait": 60})


def test_a_bucket_in_another_region_is_read_there(bucket, web_server):
    def elsewhere(handler):
        if "/eu-west-1/s3/" in handler.headers.get("Authorization", ""):
            return False
        handler.send(301, b"", {"x-amz-bucket-region": "eu-west-1"})
        return True

    web_server.fault = elsewhere
    keys = {"skip_signature": False, "key": "a", "secret": "b"}
    assert len(bucket(**keys)) == 300
    # Where it is there and answers so again, an endpoint leads to the wrong place.
    web_server.fault = lambda handler: (
        handler.send(301, b"", {"x-amz-bucket-region": "eu-west-1"}) is None
    )
    with pytest.raises(FileAccessError, match="the bucket is in region eu-west-1"):
        bucket(**keys)


def test_a_clock_that_is_wrong_is_told(bucket, web_server):
    class Late(Handler):
        def date_time_string(self, timestamp=None):  # noqa: ARG002
            return formatdate(time.time() + 3600, usegmt=True)

        def answer(self):
            self.send(403, b"<Code>RequestTimeTooSkewed</Code>")

    late = WebServer(web_server.root, Late)
    told = pytest.raises(AccessDeniedError, match=r"clock .* s behind the server's")
    with running(late), told:
        bucket(endpoint_url=late.url)


def test_an_archived_object_is_told(bucket, web_server):
    def archived(handler):
        handler.send(403, b"<Error><Code>InvalidObjectState</Code></Error>")
        return True

    web_server.fault = archived
    with pytest.raises(FileAccessError, match=r"archived .*restore it first"):
        bucket()


def untagged(times):
    """Answers of ranges without a tag, so many of each range."""
    seen: Counter[str] = Counter()

    def fault(handler):
        asked = handler.headers.get("Range", "")
        seen[asked] += 1
        handler.is_untagged = bool(asked) and seen[asked] <= times
        return False

    return fault


@pytest.mark.parametrize("headers", [{}, {"Last-Modified": formatdate(0)}])
def test_one_answer_with_no_more_than_a_date_is_asked_for_again(
    web, web_server, headers
):
    data = pf.parquet(web.urls[0], column="input_ids")
    assert len(data) == 300
    Handler.extra = headers
    try:
        web_server.fault = untagged(1)
        assert list(numbered_loader(data))
        web_server.fault = untagged(99)
        error = StaleFileError if headers else FileAccessError
        with pytest.raises(error, match="ETag"):
            list(numbered_loader(data))
    finally:
        Handler.extra = {}


@pytest.mark.parametrize("seconds", [2, -5])
def test_a_wait_until_a_date_is_waited_for(web, web_server, seconds):
    left, begin = [1], time.monotonic()

    def limited(handler):
        left[0] -= 1
        if left[0] < 0:
            return False
        date = formatdate(time.time() + seconds + (seconds > 0), usegmt=True)
        handler.send(429, b"", {"Retry-After": date})
        return True

    web_server.fault = limited
    assert len(pf.parquet(web.urls[0], column="input_ids")) == 300
    assert (time.monotonic() - begin > 1.5) == (seconds > 0)


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "X"])
def test_keys_that_were_replaced_are_looked_for(bucket, web_server, monkeypatch, code):
    """Once: a server that refuses the new ones too is believed."""
    valid = ["first"]

    def checked(handler):
        if f"Credential={valid[0]}/" in handler.headers.get("Authorization", ""):
            return False
        body = f"<Error><Code>{code}</Code></Error>".encode()
        handler.send(403, body)
        return True

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    web_server.fault = checked
    data = bucket(skip_signature=False)
    assert len(data) == 300
    valid[0] = "second"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    assert list(numbered_loader(data))
    valid[0] = "third"
    begin = time.monotonic()
    with pytest.raises(AccessDeniedError, match=code if code != "X" else "403"):
        list(numbered_loader(data))
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("kind", ["web", "bucket"])
def test_a_missing_tag_is_asked_for_again_and_then_told(request, web, web_server, kind):
    open_bucket = request.getfixturevalue("bucket")
    data = (
        pf.parquet(web.urls[0], column="input_ids") if kind == "web" else open_bucket()
    )
    assert len(data) == 300
    web_server.fault = untagged(1)
    assert list(numbered_loader(data))
    assert data.storage.counts()["retries"] > 0
    web_server.fault = untagged(99)
    with pytest.raises(FileAccessError, match="no ETag"):
        list(numbered_loader(data))


@pytest.mark.parametrize("status", [403, 405, 501])
@pytest.mark.parametrize("kind", ["web", "bucket"])
def test_head_may_be_refused_where_get_works(request, web, web_server, kind, status):
    open_bucket = request.getfixturevalue("bucket")
    web_server.fault = lambda handler: (
        handler.command == "HEAD" and handler.send(status) is None
    )
    data = (
        pf.parquet(web.urls[0], column="input_ids") if kind == "web" else open_bucket()
    )
    assert len(data) == 300


@pytest.mark.parametrize(
    ("status", "headers"), [(302, {}), (304, {}), (302, {"Location": "ftp://a/b"})]
)
def test_a_redirect_that_leads_nowhere_is_no_empty_file(
    web, web_server, status, headers
):
    web_server.fault = lambda handler: handler.send(status, b"", headers) is None
    with pytest.raises(FileAccessError, match=f"answers {status}") as caught:
        pf.parquet(web.urls[0], column="input_ids")
    assert not isinstance(caught.value, MissingFileError)


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("kind", ["s3", "web"])
def test_all_of_an_object_may_be_the_answer_to_a_range(
    request, web_server, kind, is_told
):
    """Answered by 200; what is not all of it is refused at once."""
    bucket, web = map(request.getfixturevalue, ("bucket", "web"))
    small = web_server.root / "corpus" / "small" / "0.parquet"
    small.parent.mkdir()
    request.addfinalizer(lambda: shutil.rmtree(small.parent))
    pq.write_table(pa.table({"input_ids": [[1], [2, 3]]}), small)
    size, whole = small.stat().st_size, small.read_bytes()

    def answered(handler):
        asked = handler.headers.get("Range")
        if asked not in (None, f"bytes=0-{size - 1}"):
            return False
        headers = {"ETag": tag_of(small)}
        if is_told and asked is not None:
            headers["Content-Range"] = f"bytes 0-{size - 1}/{size}"
        handler.send(200, whole, headers)
        return True

    def opened(name):
        if kind == "s3":
            return bucket(name)
        return pf.parquet(f"{web_server.url}/corpus/{name}", column="input_ids")

    web_server.fault = answered
    data = opened("small/0.parquet")
    assert [list(data[n]["input_ids"]) for n in range(2)] == [[1], [2, 3]]
    web_server.fault = lambda handler: handler.send(200, bytes(9 << 20)) is None
    begin = time.monotonic()
    with pytest.raises(FileAccessError, match="does not answer ranges"):
        len(opened("small/0.parquet"))
    assert time.monotonic() - begin < 1
    assert web.urls
