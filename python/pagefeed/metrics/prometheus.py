"""The numbers of a run for Prometheus, by its own client."""

from __future__ import annotations

import contextlib
import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from pagefeed.core._base import check_callable, check_whole, require
from pagefeed.core.batches import EDGES, Waits
from pagefeed.metrics.meter import RunNumbers

LABELLED = re.compile(
    r"data/(mix|file)/(.+)_(share|(?:p50|p99)_seconds|bad_pages|[a-z]+_total)"
)
LABELS = {"mix": "source", "file": "file"}
MOST_CLIENTS = 32
"""Connections at once; a further one is closed."""
MOST_SECONDS = 5
"""Seconds of a connection, after which it is closed."""


class _Collector:
    """Makes metrics of the client from numbers; datasets of a mixture become labels."""

    def __init__(self, client: Any, metrics: Callable[[], Mapping[str, float]]) -> None:
        self._client, self._metrics = client, metrics

    def collect(self) -> Iterator[Any]:
        """Yield the metrics as they are now."""
        found: dict[str, Any] = {}
        metrics = self._metrics()
        if isinstance(metrics, RunNumbers):
            yield self._histogram(metrics.waits)
        for key, value in metrics.items():
            of = LABELLED.fullmatch(key)
            own = f"{of[1]}_{of[3]}" if of else key.removeprefix("data/")
            name = f"pagefeed_{own.replace('/', '_')}"
            if name not in found:
                kind = "counter" if name.endswith("_total") else "gauge"
                found[name] = self._client.Metric(name.removesuffix("_total"), "", kind)
            labels = {LABELS[of[1]]: of[2]} if of else {}
            found[name].add_sample(name, labels, value)
        yield from found.values()

    def _histogram(self, waits: Waits) -> Any:
        """Return the waits so far as a histogram."""
        waits.sort()
        name = "pagefeed_batch_wait_seconds"
        histogram = self._client.Metric(name, "", "histogram")
        sums = waits.counts.cumsum().tolist()
        for edge, count in zip([*EDGES.tolist(), math.inf], sums, strict=True):
            bound = "+Inf" if edge == math.inf else f"{edge:g}"
            histogram.add_sample(f"{name}_bucket", {"le": bound}, count)
        histogram.add_sample(f"{name}_count", {}, sums[-1])
        histogram.add_sample(f"{name}_sum", {}, waits.seconds)
        return histogram


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    """Answers few clients at once, and none for long."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._ends: dict[Any, float] = {}
        super().__init__((host, port), _Silent)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._ends) >= MOST_CLIENTS:
            return self.shutdown_request(request)
        self._ends[request] = time.monotonic() + MOST_SECONDS
        return super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._ends.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        for request, end in [*self._ends.items()]:
            if time.monotonic() > end:
                with contextlib.suppress(OSError):  # It has ended by itself.
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        pass  # A client that went away.


class Endpoint:
    """A running endpoint; a context manager that stops it."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._thread = Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self.close()


def serve(
    metrics: Callable[[], Mapping[str, float]],
    *,
    port: int = 9464,
    host: str = "127.0.0.1",
) -> Endpoint:
    """Serve numbers to Prometheus until closed, or to the end of the process.

    Up to 32 clients are answered at once, each for a few seconds.

    Args:
        metrics: Function that returns them: ``loader.metrics``. Its rates cover the
            time between two requests, so that queries should derive rates from the
            counters. A histogram of all waits of the process comes too.
        port: Port to listen on; 0 for any free port.
        host: Address to listen at, by default this machine's own. Anybody who reaches
            another one, such as ``"0.0.0.0"``, can read the numbers.

    Raises:
        MissingDependencyError: If prometheus-client is not installed.

    For example::

        with serve(loader.metrics, port=9090):
            train(loader)
    """
    check_callable(metrics, "metrics")
    port = check_whole(port, "port", least=0, most=65535)
    client = require("prometheus_client", extra="prometheus", purpose="serving metrics")
    registry = client.CollectorRegistry()
    registry.register(_Collector(client, metrics))
    server = _Server(host, port)
    server.set_app(client.make_wsgi_app(registry))
    return Endpoint(server)
