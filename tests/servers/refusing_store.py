"""A bucket that refuses what is written, by the headers of requests alone."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["RefusingStore", "refusing"]

_NO_KEY = "<Error><Code>NoSuchKey</Code></Error>"
_REMOVED = "<DeleteResult><Deleted><Key>k</Key></Deleted></DeleteResult>"
_UPLOAD = (
    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>"
    "<UploadId>u</UploadId></InitiateMultipartUploadResult>"
)


class RefusingStore:
    """Answers each write with an error, and closes its connection.

    Args:
        status: Of the answer.
        code: Of the error.
        begins: Whether small objects are written and uploads begin, and only their
            parts are refused.
    """

    def __init__(self, status: int, code: str, *, begins: bool = False) -> None:
        self.status, self.code, self.begins = status, code, begins
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.asked: list[str] = []
        """First lines of requests."""
        self.heads: list[str] = []
        """All lines of these."""
        self.lost = 0
        """Answers that the rest of a body took away, as the system does at random."""

    @property
    def options(self) -> Any:
        """Settings that lead there."""
        return {
            "endpoint_url": f"http://127.0.0.1:{self.socket.getsockname()[1]}",
            "region": "us-east-1",
            "skip_signature": "true",
            "allow_http": "true",
        }

    def serve(self) -> None:
        """Answer until the socket is closed."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[connection]).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30)
            asked = b""
            while b"\r\n\r\n" not in asked:
                some = connection.recv(1 << 16)
                if not some:
                    return
                asked += some
            head, _, body = asked.partition(b"\r\n\r\n")
            line = head.decode().partition("\r\n")[0]
            self.asked.append(line)
            self.heads.append(head.decode())
            sizes = [row for row in head.lower().split(b"\r\n") if b"th:" in row]
            size = int(sizes[0].partition(b":")[2]) if sizes else 0
            if size > 1 << 16 and (body or _has_more(connection)):
                self.lost += 1
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return
            status, text = self._said(line)
            header = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(text)}"
            more = 'Connection: close\r\nETag: "a"'
            connection.sendall(f"{header}\r\n{more}\r\n\r\n{text}".encode())

    def _said(self, line: str) -> tuple[int, str]:
        if line.startswith(("GET", "HEAD")):
            return 404, _NO_KEY
        if self.begins and "delete" in line:
            return 200, _REMOVED
        if self.begins and "partNumber" not in line:
            return 200, _UPLOAD if line.startswith("POST") else ""
        return self.status, f"<Error><Code>{self.code}</Code></Error>"


def _has_more(connection: socket.socket) -> bool:
    """Whether a body begins to come within 0.2 s."""
    waiting = select.poll()  # select() ends at 1,024 open files.
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(200))


@contextmanager
def refusing(
    status: int, code: str, *, begins: bool = False
) -> Iterator[RefusingStore]:
    """Run such a bucket until the end of the context."""
    store = RefusingStore(status, code, begins=begins)
    thread = threading.Thread(target=store.serve)
    thread.start()
    try:
        yield store
    finally:
        store.socket.shutdown(socket.SHUT_RDWR)
        store.socket.close()
        thread.join()
