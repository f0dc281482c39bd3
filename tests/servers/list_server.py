"""A bucket of S3 that lists any number of objects, most of them without bytes."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["ListServer"]

_OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2026-11-22T03:26:39.000Z</LastModified>"
    '<ETag>"tag"</ETag><Size>{}</Size></Contents>'
)


_WRITTEN = "Sun, 22 Nov 2026 03:26:39 GMT"


class ListServer(ThreadingHTTPServer):
    """Lists one bucket, ``corpus``, by pages.

    Args:
        keys: Names of the objects, sorted.
        latency: Seconds until each answer.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, keys: Sequence[str], latency: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keys, self.latency = keys, latency
        self.asked: list[dict[str, str]] = []
        """Parameters of all requests."""
        self.fails: Callable[[dict[str, str]], bool] = lambda _asked: False
        """Whether a request is answered with 503."""
        self.spoils: Callable[[str], str] = lambda page: page
        """What is answered in place of a page."""
        self.page_size = 1000
        self.objects: dict[str, bytes] = {}
        """Bytes of objects that can be read."""
        self.lock = threading.Lock()

    @property
    def options(self) -> Any:
        """Settings that lead there."""
        return {
            "endpoint_url": f"http://127.0.0.1:{self.server_port}",
            "region": "us-east-1",
            "skip_signature": "true",
            "allow_http": "true",
        }

    def page(self, asked: dict[str, str]) -> str:
        """Answer a request: objects, folders, and where the list goes on."""
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
        after = max(asked.get("continuation-token", ""), prefix)
        at = bisect_left(self.keys, prefix)
        if "continuation-token" in asked:
            at = bisect_right(self.keys, after)
        found, count, last = [], 0, ""
        end = at
        while end < len(self.keys) and self.keys[end].startswith(prefix):
            end += 1
        while at < end and count < self.page_size:
            last, name = self.keys[at], self.keys[at].removeprefix(prefix)
            count += 1
            if delimiter and delimiter in name:
                folder = prefix + name.partition(delimiter)[0] + delimiter
                found.append(
                    f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
                )
                last = folder + "\U0010ffff"
                at = bisect_right(self.keys, last)
            else:
                size = len(self.objects.get(last, b"")) or 1000
                found.append(_OBJECT.format(last, size))
                at += 1
        more = at < end
        told = f"<IsTruncated>{str(more).lower()}</IsTruncated>" + "".join(found)
        if more:
            told += f"<NextContinuationToken>{last}</NextContinuationToken>"
        return f"<ListBucketResult>{told}</ListBucketResult>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        is_there = (
            self.path.removeprefix("/corpus/") in cast("ListServer", self.server).keys
        )
        self.send_response(200 if is_there else 404)
        named = {"ETag": '"tag"', "Content-Length": "1000", "Last-Modified": _WRITTEN}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        server = cast("ListServer", self.server)
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        asked = {name: one for name, [one] in query.items()}
        with server.lock:
            server.asked.append(asked)
            fails = server.fails(asked)
        time.sleep(server.latency)
        body = server.objects.get(unquote(path).removeprefix("/corpus/"))
        is_there = body is not None or "list-type" in asked
        if body is None:
            body = b"" if fails else server.spoils(server.page(asked)).encode()
        self.send_response(503 if fails else 200 if is_there else 404)
        for name, value in (("ETag", '"tag"'), ("Last-Modified", _WRITTEN)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
