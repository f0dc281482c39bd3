"""A process between client and server: latency, a narrow pipe, failures.

It forwards HTTP/1.1 requests, each after a pause, and bodies both ways at one rate
for all connections together, which may stop for ever after some. By chance, the same
for a seed, it answers 500, breaks a body off, or tells another ETag::

    python tests/servers/slow_proxy.py --to 8014 --latency 0.05 --bytes-per-second 60e6

``/proxy-counts`` tells how many requests and bytes of bodies went through.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = 1 << 16
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
TAG = re.compile(rb'(\r\netag: *")', re.IGNORECASE)
COUNTS = b"GET /proxy-counts "
FAILED = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"


class Pipe:
    """Lets so many bytes a second pass, of all connections together."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free_at = rate, 0.0

    async def passes(self, size: int) -> None:
        """Wait for the turn of some bytes."""
        loop = asyncio.get_running_loop()
        self.free_at = max(self.free_at, loop.time()) + size / self.rate
        await asyncio.sleep(self.free_at - loop.time())


class Proxy:
    """What stands between client and server."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.pipe = Pipe(options.bytes_per_second)
        self.random = random.Random(options.seed)
        self.requests = self.bytes = 0

    async def connected(
        self, client: asyncio.StreamReader, answer: asyncio.StreamWriter
    ) -> None:
        """Serve a connection until one side ends it."""
        upstream = None
        try:
            server, upstream = await asyncio.open_connection(
                "127.0.0.1", self.options.to
            )
            while await self.forward(client, answer, server, upstream):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for writer in (answer, upstream):
                if writer is not None:
                    writer.close()

    async def forward(
        self,
        client: asyncio.StreamReader,
        answer: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> bool:
        """Forward one request and its response; whether there may be another."""
        head = await client.readuntil(b"\r\n\r\n")
        if head.startswith(COUNTS):
            text = f"{self.requests} {self.bytes}".encode()
            answer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text))
            answer.write(text)
            return False
        self.requests += 1
        await asyncio.sleep(self.options.latency)
        fault = self.fault() if b"\r\nrange:" in head.lower() else ""
        if fault == "500":
            answer.write(FAILED)
            await answer.drain()
            return True
        upstream.write(head)
        found = LENGTH.search(head)
        await self.send(client, upstream, 0 if found is None else int(found[1]))
        head_back = await server.readuntil(b"\r\n\r\n")
        if fault == "tag":
            head_back = TAG.sub(rb"\1other", head_back)
        found = LENGTH.search(head_back)
        left = 0 if found is None or head.startswith(b"HEAD") else int(found[1])
        answer.write(head_back)
        stop = left // 2 if fault == "reset" else 0
        while left > stop:
            body = await server.read(min(CHUNK, left - stop))
            if not body:
                return False
            await self.pipe.passes(len(body))
            if self.bytes > self.options.stop_after:
                await asyncio.sleep(1e6)
            self.bytes += len(body)
            answer.write(body)
            await answer.drain()
            left -= len(body)
        return left == 0

    async def send(
        self, client: asyncio.StreamReader, upstream: asyncio.StreamWriter, left: int
    ) -> None:
        """Forward the body of a request."""
        while left:
            body = await client.read(min(CHUNK, left))
            if not body:
                raise ConnectionResetError
            await self.pipe.passes(len(body))
            if self.bytes > self.options.stop_after:
                await asyncio.sleep(1e6)
            self.bytes += len(body)
            upstream.write(body)
            await upstream.drain()
            left -= len(body)

    def fault(self) -> str:
        """What is to go wrong with a request."""
        chance = self.random.random()
        for kind in ("500", "reset", "tag"):
            share = getattr(self.options, f"share_{kind}")
            if chance < share:
                return kind
            chance -= share
        return ""


async def serve(options: argparse.Namespace) -> None:
    listening = socket.create_server(("127.0.0.1", options.port), backlog=512)
    # As on a slow line, little of an upload waits in the buffers of the system.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
    server = await asyncio.start_server(Proxy(options).connected, sock=listening)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def slow_proxy(to: int, **options: float) -> Iterator[int]:
    """Run the proxy as a process; yields its port."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [sys.executable, str(Path(__file__)), f"--to={to}", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=int, required=True, help="port of the server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--bytes-per-second", type=float, default=1e12)
    parser.add_argument("--stop-after", type=float, default=1e18)
    parser.add_argument("--seed", type=int, default=0)
    for kind in ("500", "reset", "tag"):
        parser.add_argument(f"--share-{kind}", type=float, default=0.0)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
