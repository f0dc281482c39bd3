"""The numbers of a run for Prometheus, by its own client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from pagefeed.core._base import check_callable, check_whole, require

MIX = re.compile(r"data/mix/(.+)_(share|tokens_total)")


class _Collector:
    """Numbers as metrics of the client, datasets of a mixture as labels."""

    def __init__(self, client: Any, metrics: Callable[[], Mapping[str, float]]) -> None:
        self._client, self._metrics = client, metrics

    def collect(self) -> Iterator[Any]:
        """Yield the metrics as they are now."""
        found: dict[str, Any] = {}
        for key, value in self._metrics().items():
            mixed = MIX.fullmatch(key)
            own = f"mix_{mixed[2]}" if mixed else key.removeprefix("data/")
            name = f"pagefeed_{own.replace('/', '_')}"
            if name not in found:
                kind = "counter" if name.endswith("_total") else "gauge"
                found[name] = self._client.Metric(name.removesuffix("_total"), "", kind)
            labels = {"source": mixed[1]} if mixed else {}
            found[name].add_sample(name, labels, value)
        yield from found.values()


class Endpoint:
    """A running endpoint; a context manager that stops it."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread

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
    host: str = "0.0.0.0",  # noqa: S104 - Prometheus asks from another machine
) -> Endpoint:
    """Serve numbers to Prometheus until closed, or to the end of the process.

    Args:
        metrics: Function that returns them: ``loader.metrics``. Its rates cover the
            time between two requests, so that queries should derive rates from the
            counters.
        port: Port to listen on; 0 for any free port.
        host: Address to listen at, by default all.

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
    return Endpoint(*client.start_http_server(port, addr=host, registry=registry))
