"""Web servers of files, as threads: plain ones with ranges, and the hub's protocol."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from servers.xet_store import XetStore

TOKEN = "hf_secretTokenOfTests"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

Fault = Callable[["Handler"], bool]
"""What may answer a request in the server's place: whether it did."""


class WebServer(ThreadingHTTPServer):
    """Serves the files of a folder, and remembers what was asked."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, root: Path, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.root = root
        self.fault: Fault | None = None
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        """Methods, paths and headers by their names in small letters."""
        self.served: Counter[str] = Counter()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Clients go away in the middle: that is what is tested."""


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with ranges, tags and conditions."""

    protocol_version = "HTTP/1.1"
    server: WebServer
    timeout = 30
    is_untagged = False
    """Whether the answer to this request has no tag."""
    extra: ClassVar[dict[str, str]] = {}
    """Further headers of files."""
    of_this: dict[str, str] = {}  # noqa: RUF012 - set for each request
    """Further headers of the file of this request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers))
        self.is_untagged, self.of_this = False, {}
        if self.server.fault is None or not self.server.fault(self):
            self.answer()

    def answer(self) -> None:
        """Answer as the server does."""
        self.send_file(self.server.root / unquote(urlsplit(self.path).path).lstrip("/"))

    def send_file(self, path: Path) -> None:
        """Send a file, or the range of it that is asked for."""
        if not path.is_file():
            self.send(404, b"not here")
            return
        content, tag = path.read_bytes(), tag_of(path)
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != tag:
            self.send(412)
            return
        status, headers = 200, {"Accept-Ranges": "bytes"} | self.extra | self.of_this
        if not self.is_untagged:
            headers["ETag"] = tag
        asked = self.headers.get("Range")
        if asked is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            size, begin, end = len(content), int(first), int(last) + 1
            if begin >= size:
                self.send(416)
                return
            content = content[begin:end]
            last_byte = begin + len(content) - 1
            headers["Content-Range"] = f"bytes {begin}-{last_byte}/{size}"
            status = 206
        self.server.served[path.name] += len(content)
        self.send(status, content, headers)

    def send(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        """Send a response; of its body what a HEAD may have: nothing."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def cut(self, body: bytes, length: int) -> None:
        """Promise a body, send less of it, and close the connection."""
        self.send_response(206)
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Range", f"bytes 0-{length - 1}/{length}")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


def tag_of(path: Path) -> str:
    """A strong ETag of contents."""
    return f'"{hashlib.md5(path.read_bytes()).hexdigest()}"'


def xet_hash(path: Path) -> str:
    """A hash of contents as Xet has: 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class HubHandler(Handler):
    """The hub: revisions, trees of files, and redirects to signed URLs elsewhere."""

    cdn: ClassVar[WebServer | None] = None

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hub = self.server
        assert isinstance(hub, Hub)
        if hub.fault is not None and hub.fault(self):
            return
        if any(part in self.path for part in ("/xorb-grants/", "/v2/", "/telemetry")):
            self.send(404)  # Clients then upload as they did before.
        elif self.path.endswith("/batch"):
            hub.xet.change(hub.root, body)
            self.send(200, as_json({"failed": []}))
        else:
            assert self.headers["Authorization"] == "Bearer cas"
            self.send(200, hub.xet.take(self.path, body))

    def answer(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        if self.path.endswith("/xet-write-token"):
            self.send(200, hub.xet.connection(hub.url))
            return
        if "/chunks/" in self.path:
            self.send(404)
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, b'{"error": "gated"}')
            return
        parts = urlsplit(self.path)
        kind, _, rest = unquote(parts.path).lstrip("/").partition("/")
        if kind == "api":
            self.api(rest, parse_qs(parts.query))
            return
        if kind == "buckets":
            (_, _, _, path), commit = rest.split("/", 3), COMMIT
        else:
            _, _, _, commit, path = rest.split("/", 4)
        file = hub.root / path
        if commit != COMMIT or not file.is_file():
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        if kind == "buckets" and hub.serves_itself:
            self.of_this = {"X-Xet-Hash": xet_hash(file)}
            self.send_file(file)
            return
        until = time.monotonic() + hub.seconds_valid
        hub.signatures[f"s{len(hub.signatures)}"] = until
        location = f"{hub.cdn.url}/{quote(path)}?signature=s{len(hub.signatures) - 1}"
        headers = {
            "Location": location,
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(file.stat().st_size),
        }
        if kind == "buckets":
            headers["X-Xet-Hash"] = xet_hash(file)
        else:
            headers["X-Linked-Etag"] = tag_of(file)
        self.send(302, b"", headers)

    def api(self, path: str, query: dict[str, list[str]]) -> None:
        """Say what a revision is, or which files a folder has: two at a time."""
        is_bucket = path.startswith("buckets/")
        if path == "buckets/owner/name":
            told = {"id": "owner/name", "private": True, "size": 0, "totalFiles": 2}
            self.send(200, as_json(told | {"createdAt": "2026-01-01T00:00:00.000Z"}))
            return
        if is_bucket:
            _, _, _, verb, *folder = path.split("/", 4)
        else:
            _, _, _, verb, _, *folder = path.split("/", 5)
        if verb == "revision":
            known = ("main", "v1.0", "refs/convert/parquet", "refs/pr/1")
            found = COMMIT if path.split("/", 4)[4] in known else None
            self.send(
                *((404, b"") if found is None else (200, as_json({"sha": found})))
            )
            return
        root = self.server.root
        prefix = "/".join(folder)
        files = sorted(
            file.relative_to(root).as_posix()
            for file in root.rglob("*")
            if file.is_file()
        )
        entries: list[dict[str, Any]] = [
            {
                "type": "file",
                "path": name,
                "size": (root / name).stat().st_size,
                **(
                    {"xetHash": xet_hash(root / name), "mtime": None}
                    if is_bucket
                    else {
                        "oid": "0" * 40,
                        "lfs": {"oid": tag_of(root / name).strip('"')},
                    }
                ),
            }
            for name in files
            if name.startswith(prefix)
        ]
        at = int(query.get("cursor", ["0"])[0])
        headers = {}
        if at + 2 < len(entries):
            base = urlsplit(self.path).path
            target = f"{self.server.url}{base}?recursive=true&cursor={at + 2}"
            headers["Link"] = f'<{target}>; rel="next"'
        self.send(200, as_json(entries[at : at + 2]), headers)


class CdnHandler(Handler):
    """Serves who has a valid signature; a token has no business here."""

    def answer(self) -> None:
        cdn = self.server
        assert isinstance(cdn, Cdn)
        parts = urlsplit(self.path)
        signature = parse_qs(parts.query).get("signature", [""])[0]
        if time.monotonic() > cdn.signatures.get(signature, 0):
            self.send(403, b"<Code>AccessDenied</Code>")
            return
        super().answer()


class Cdn(WebServer):
    """Where the hub's signed URLs lead."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, CdnHandler)
        self.signatures: dict[str, float] = {}


class Hub(WebServer):
    """The hub: a dataset and a bucket ``owner/name``, of the files of a folder."""

    def __init__(self, root: Path, cdn: Cdn) -> None:
        super().__init__(root, HubHandler)
        self.cdn, self.signatures = cdn, cdn.signatures
        self.seconds_valid = 3600.0
        self.xet = XetStore()
        self.serves_itself = False
        """Whether files of the bucket come from the hub, without a redirect."""


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def running(*servers: ThreadingHTTPServer) -> Iterator[None]:
    """Run servers until the end of the context."""
    threads = [threading.Thread(target=each.serve_forever) for each in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
