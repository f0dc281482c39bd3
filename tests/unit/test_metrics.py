"""A run's numbers: rates, names that trackers accept, Prometheus, GPUs, the alarm."""

import importlib.util
import re
import socket
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from pagefeed.core.batches import Waits
from pagefeed.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    UnsupportedError,
)
from pagefeed.metrics import serve
from pagefeed.metrics.gpu import gpu_numbers
from pagefeed.metrics.meter import Meter, RunNumbers, over_ranks

COUNTERS = {
    "tokens": 1000,
    "padding_tokens": 100,
    "wait_seconds": 0.5,
    "batches": 3,
    "batches_ready": 2,
    "peak_bytes": 10,
    "pages_loaded": 4,
    "pages_reloaded": 1,
}
MIXED = COUNTERS | {
    "web/sequences": 9,
    "web/tokens": 600,
    "code % (x)/sequences": 1,
    "code % (x)/tokens": 200,
}
MLFLOW = re.compile(r"[\w./ \-]+")
"""Names as MLflow takes them; slashes group in the others."""


def meter_at(*seconds):
    clock = iter(seconds)
    return Meter(next(clock), lambda: next(clock))


def test_rates_are_over_the_time_since_the_last_reading():
    meter = meter_at(0.0, 2.0, 4.0)
    first = meter.read(COUNTERS)
    assert first["data/tokens_per_second"] == 450
    assert first["data/wait_fraction"] == 0.25
    assert first["data/padding_fraction"] == 0.1
    later = COUNTERS | {"tokens": 3000, "wait_seconds": 2.5}
    second = meter.read(later)
    assert second["data/tokens_per_second"] == 1000
    assert second["data/wait_fraction"] == 1.0
    assert second["data/wait_seconds_total"] == 2.5


def test_the_part_of_batches_that_were_ready_is_told():
    meter = meter_at(0.0, 1.0, 2.0, 3.0, 4.0)
    ready = [
        meter.read(COUNTERS | {"batches": batches, "batches_ready": ready})
        for batches, ready in ((0, 0), (4, 3), (6, 5), (6, 5))
    ]
    # Of none, none was late.
    assert [found["data/prefetch_ready"] for found in ready] == [1, 0.75, 1, 1]


def test_mixtures_tell_their_shares_under_names_all_trackers_take():
    found = meter_at(0, 1).read(MIXED)
    assert found["data/mix/web_share"] == 0.75
    [code] = [name for name in found if "code" in name and "total" in name]
    assert found[code] == 200
    assert all(MLFLOW.fullmatch(name) for name in found)
    rows = {name: n for name, n in MIXED.items() if not name.endswith("/tokens")}
    assert meter_at(0, 1).read(rows)["data/mix/web_share"] == 0.9


def test_names_that_differ_in_signs_alone_have_metrics_of_their_own():
    names = ["a b", "a_b", 'a"b', "a\nb", "\ud800"]
    stats = MIXED | {f"{name}/tokens": 10 for name in names}
    found = meter_at(0, 1).read(stats)
    assert len([name for name in found if "_tokens_total" in name]) == 2 + len(names)
    assert all(MLFLOW.fullmatch(name) for name in found)


def test_the_slowest_rank_counts():
    ranks = [
        {
            "data/wait_fraction": wait,
            "data/prefetch_ready": 1 - wait,
            "data/tokens_per_second": 5,
            "data/step": 7,
        }
        for wait in (0.1, 0.6, 0.2)
    ]
    assert over_ranks(ranks) == {
        "data/wait_fraction": 0.6,
        "data/prefetch_ready": 0.4,
        "data/tokens_per_second": 15,
        "data/step": 7,
    }


def test_silent_clients_are_few_and_do_not_stay(monkeypatch):
    pytest.importorskip("prometheus_client", reason="prometheus is not installed")
    monkeypatch.setattr("pagefeed.metrics.prometheus.MOST_SECONDS", 0.3)
    with ExitStack() as stack:
        endpoint = stack.enter_context(serve(dict, port=0))
        address = "127.0.0.1", endpoint.port
        clients = [
            stack.enter_context(socket.create_connection(address, 5)) for _ in range(33)
        ]
        for client in reversed(clients):  # The last one at once, the others in time.
            assert client.recv(1) == b""
        with urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=5) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("port", [-1, 65536, "http"])
def test_a_port_is_a_number(port):
    with pytest.raises(InvalidArgumentError, match="port"):
        serve(dict, port=port)


def test_prometheus_reads_them_and_a_histogram_of_all_waits():
    pytest.importorskip("prometheus_client", reason="prometheus is not installed")
    waits = Waits()
    waits.new.extend([0.0001, 0.3, 70.0, 200.0])
    waits.look()  # Another reader takes nothing from it.
    numbers = RunNumbers(meter_at(0, 1).read(MIXED) | {"data/epoch": 3}, waits)
    with (
        serve(lambda: numbers, port=0, host="localhost") as endpoint,
        urlopen(f"http://localhost:{endpoint.port}/metrics") as answer,
    ):
        lines = answer.read().decode().splitlines()
    assert "# TYPE pagefeed_wait_seconds_total counter" in lines
    assert 'pagefeed_mix_share{source="web"} 0.75' in lines
    assert "pagefeed_epoch 3.0" in lines
    buckets = {
        line.split('"')[1]: float(line.split()[-1])
        for line in lines
        if line.startswith("pagefeed_batch_wait_seconds_bucket")
    }
    told = [buckets[edge] for edge in ("0.0001", "0.2", "0.5", "50", "100", "+Inf")]
    assert told == [1, 1, 2, 2, 3, 4]
    assert "pagefeed_batch_wait_seconds_count 4.0" in lines
    assert [*buckets.values()] == sorted(buckets.values())


def test_waits_are_those_since_the_last_look_and_none_is_lost():
    waits = Waits()
    for number in range(10_000):
        waits.new.append(number / 1e6)
        waits.room -= 1
        if waits.room <= 0:
            waits.sort()
    first = waits.look()
    assert first["p50"] == pytest.approx(0.005, rel=0.01)
    assert first["p99"] == pytest.approx(0.0099, rel=0.01)
    assert first["longest"] == 0.009999
    assert waits.look() == {"p50": 0, "p99": 0, "longest": 0}
    assert int(waits.counts.sum()) == 10_000
    with waits:
        assert waits.look()["longest"] > 0  # It lasts.
    with pytest.raises(LookupError), waits:
        raise LookupError
    waits.sort()
    assert int(waits.counts.sum()) == 10_001
    assert waits.since is None


class DriverError(Exception):
    """An error of NVIDIA's library."""


def driver(asked: list[object], *, is_there: bool = True) -> SimpleNamespace:
    """NVIDIA's library of a machine with GPUs: this one may have none."""

    def init() -> None:
        if not is_there:
            raise DriverError("Driver Not Loaded")

    return SimpleNamespace(
        NVMLError=DriverError,
        nvmlInit=init,
        nvmlDeviceGetHandleByIndex=asked.append,
        nvmlDeviceGetHandleByUUID=asked.append,
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=87, memory=3),
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=1 << 30, total=4 << 30),
    )


@pytest.mark.parametrize(
    ("visible", "rank", "wanted"),
    [(None, None, 0), (None, "3", 3), ("5,6", "1", 6), ("GPU-a, GPU-b", "1", "GPU-b")],
)
def test_the_gpu_is_that_of_the_process(monkeypatch, visible, rank, wanted):
    asked = list[object]()
    monkeypatch.setitem(sys.modules, "pynvml", driver(asked))
    for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("LOCAL_RANK", rank)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert gpu_numbers() == {
        "gpu/utilisation_fraction": 0.87,
        "gpu/memory_bytes": 1 << 30,
        "gpu/memory_fraction": 0.25,
    }
    assert asked == [wanted]


def test_without_a_gpu_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", driver([], is_there=False))
    with pytest.raises(UnsupportedError, match=r"Driver Not Loaded.*Leave gpu out"):
        gpu_numbers()
    monkeypatch.delitem(sys.modules, "pynvml")
    if importlib.util.find_spec("pynvml") is None:
        with pytest.raises(MissingDependencyError, match=r"pagefeed\[gpu\]"):
            gpu_numbers()
