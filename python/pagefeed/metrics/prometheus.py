"""The numbers of a run for Prometheus, by the standard library's server."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from pagefeed.core._base import check_callable, check_whole

__all__ = ["Endpoint", "exposition", "serve"]

MIX = re.compile(r"data/mix/(.+)_(share|tokens_total)")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(metrics: Mapping[str, float]) -> str:
    """Return numbers in Prometheus' text format, datasets of a mixture as labels.

    Example:
        >>> print(exposition({"data/mix/web_share": 0.5}), end="")
        # TYPE pagefeed_mix_share gauge
        pagefeed_mix_share{source="web"} 0.5
    """
    series: dict[str, list[str]] = {}
    for key, value in metrics.items():
        mixed = MIX.fullmatch(key)
        own = (
            f"mix_{mixed[2]}" if mixed else key.removeprefix("data/").replace("/", "_")
        )
        name, label = f"pagefeed_{own}", f'{{source="{mixed[1]}"}}' if mixed else ""
        series.setdefault(name, []).append(f"{name}{label} {value!r}")
    lines = []
    for name, samples in series.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", *samples]
    return "\n".join(lines) + "\n"


class Endpoint:
    """A running endpoint; a context manager that stops it.

    Args:
        metrics: Called for every request, from a thread of its own.
        port: Port to listen on; 0 for any free port.
        host: Address to listen at.
    """

    def __init__(
        self, metrics: Callable[[], Mapping[str, float]], *, port: int, host: str
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exposition(metrics()).encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing on standard error."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(
            target=self._server.serve_forever, name="pagefeed-metrics", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self._server.server_address[1])

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
    metrics: Callable[[], Mapping[str, float]], *, port: int = 9464, host: str = ""
) -> Endpoint:
    """Serve numbers to Prometheus until closed, or to the end of the process.

    Args:
        metrics: Function that returns them: ``loader.metrics``. Its rates cover the
            time between two requests, so that queries should derive rates from the
            counters.
        port: Port to listen on; 0 for any free port.
        host: Address to listen at, by default all.

    For example::

        with serve(loader.metrics, port=9090):
            train(loader)
    """
    check_callable(metrics, "metrics")
    port = check_whole(port, "port", least=0, most=65535)
    return Endpoint(metrics, port=port, host=host)
