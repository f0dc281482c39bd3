"""A bucket in memory that counts requests, lists tags as S3 does, and may be slow."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["CountingStore"]

_PAGE = 1000


class CountingStore(ThreadingHTTPServer):
    """Buckets whose objects are bytes in memory.

    Args:
        latency: Seconds until each answer.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, latency: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.latency = latency
        self.objects: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        """Requests by their kind."""
        self.lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """Clients may go away before the end of an answer."""

    @property
    def options(self) -> Any:
        """Settings that lead there."""
        return {
            "endpoint_url": f"http://127.0.0.1:{self.server_port}",
            "region": "us-east-1",
            "skip_signature": "true",
            "allow_http": "true",
        }

    def put(self, key: str, data: bytes) -> str:
        """Put an object, named ``bucket/key``; return its tag."""
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        self.objects[key], self.tags[key] = data, tag
        return tag

    @property
    def total(self) -> int:
        """Requests so far."""
        return self.counts.total()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingStore

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _begin(self, kind: str) -> str:
        with self.server.lock:
            self.server.counts[kind] += 1
        time.sleep(self.server.latency)
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def do_GET(self) -> None:
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._list()
            return
        key = self._begin("GET")
        self._send(key)

    def do_HEAD(self) -> None:
        self._send(self._begin("HEAD"))

    def _send(self, key: str) -> None:
        data = self.server.objects.get(key)
        if data is None:
            self._error(404, "NoSuchKey")
            return
        tag = self.server.tags[key]
        about = {"ETag": tag, "Last_Modified": "Sun, 22 Nov 2026 03:26:39 GMT"}
        if self.headers.get("If-Match", tag) != tag:
            self._error(412, "PreconditionFailed")
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if found is None:
            self._answer(200, data, **about, Content_Length=str(len(data)))
            return
        begin, end = int(found[1]), min(int(found[2]) + 1, len(data))
        if begin >= len(data):
            self._error(416, "InvalidRange")
            return
        place = f"bytes {begin}-{end - 1}/{len(data)}"
        self._answer(206, data[begin:end], **about, Content_Range=place)

    def do_PUT(self) -> None:
        key = self._begin("PUT")
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            tag = self.server.tags.get(key)
            is_new = self.headers.get("If-None-Match") != "*" or tag is None
            if not is_new or self.headers.get("If-Match", tag) != tag:
                status, tag = 412, None
            else:
                status, tag = 200, self.server.put(key, data)
        if tag is None:
            self._error(status, "PreconditionFailed")
        else:
            self._answer(status, ETag=tag)

    def do_DELETE(self) -> None:
        key = self._begin("DELETE")
        with self.server.lock:
            self.server.objects.pop(key, None)
            self.server.tags.pop(key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """Remove several objects."""
        bucket = self._begin("DELETE").strip("/")
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = re.findall("<Key>(.*?)</Key>", body)
        with self.server.lock:
            for name in names:
                self.server.objects.pop(f"{bucket}/{name}", None)
                self.server.tags.pop(f"{bucket}/{name}", None)
        told = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())

    def _list(self) -> None:
        bucket = self._begin("LIST").strip("/")
        asked = parse_qs(urlsplit(self.path).query)
        prefix = f"{bucket}/{asked.get('prefix', [''])[0]}"
        after = asked.get("continuation-token", [""])[0]
        after = max(after, f"{bucket}/{asked.get('start-after', [''])[0]}")
        with self.server.lock:
            keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        keys = [key for key in keys if key > after]
        some = keys[:_PAGE]
        told = "".join(
            f"<Contents><Key>{escape(key.removeprefix(bucket + '/'))}</Key>"
            "<LastModified>2026-11-22T03:26:39.000Z</LastModified>"
            f"<ETag>{escape(self.server.tags[key])}</ETag>"
            f"<Size>{len(self.server.objects[key])}</Size></Contents>"
            for key in some
        )
        more = len(keys) > len(some)
        token = f"<NextContinuationToken>{some[-1]}</NextContinuationToken>"
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{told}"
            f"{token if more else ''}</ListBucketResult>".encode(),
        )
