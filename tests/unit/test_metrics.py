"""A run's numbers: rates, names that trackers accept, Prometheus, the alarm."""

import re
import socket
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from pagefeed.errors import InvalidArgumentError, WaitWarning
from pagefeed.metrics import WaitAlarm, serve
from pagefeed.metrics.meter import Meter, over_ranks

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


def test_prometheus_reads_them():
    pytest.importorskip("prometheus_client", reason="prometheus is not installed")
    metrics = meter_at(0, 1).read(MIXED) | {"data/epoch": 3}
    with (
        serve(lambda: metrics, port=0, host="localhost") as endpoint,
        urlopen(f"http://localhost:{endpoint.port}/metrics") as answer,
    ):
        lines = answer.read().decode().splitlines()
    assert "# TYPE pagefeed_wait_seconds_total counter" in lines
    assert 'pagefeed_mix_share{source="web"} 0.75' in lines
    assert "pagefeed_epoch 3.0" in lines
    samples = [line.partition("{")[0].partition(" ")[0] for line in lines]
    assert all(re.fullmatch(r"#|pagefeed_[a-z_]+", name) for name in samples)
    assert len(lines) > 2 * len(metrics)


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


def test_the_alarm_rings_once_for_each_time_of_waiting():
    heard: list[float] = []
    alarm = WaitAlarm(threshold=0.1, times=2, call=heard.append)
    for wait in (0.5, 0.0, 0.5, 0.6, 0.7, 0.0, 0.2, 0.3):
        alarm.look({"data/wait_fraction": wait})
    assert heard == [0.6, 0.3]
    heard.clear()
    usual = WaitAlarm(call=heard.append)
    for wait in (0.2, 0.3, 0.05, 0.3, 0.4, 0.5):
        usual.look({"data/wait_fraction": wait})
    assert heard == [0.5]
    with pytest.warns(WaitWarning, match="waits for data 90% of the time"):
        WaitAlarm(times=1).look({"data/wait_fraction": 0.9})
    with pytest.raises(InvalidArgumentError, match="fraction"):
        WaitAlarm(threshold=5)
