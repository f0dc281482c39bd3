"""Reads of each file: counted when asked for, named in metrics and reports."""

import json
import re
from typing import Any, cast
from urllib.request import urlopen

import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from made.shared_data import ROOT
from pagefeed.errors import ChecksumError, InvalidArgumentError
from pagefeed.metrics import serve

NUMBERS = ("requests", "bytes", "retries", "seconds", "p50_seconds", "p99_seconds")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("by-file")
    write_numbered(path, num_files=12)
    return path


def test_each_file_has_its_reads(folder):
    loader = numbered_loader(folder)
    loader.stats(by="file")  # From here on reads are counted.
    list(loader)
    reads = loader.stats(by="file")
    ours = {file: reads[file] for file in reads if str(folder) in file}
    assert len(ours) == 12
    stats = loader.stats()
    assert sum(file["bytes"] for file in ours.values()) >= stats["bytes_read"]
    for file in ours.values():
        assert [*file] == [*NUMBERS, "bad_pages"]
        assert file["requests"] > 0 == file["retries"] == file["bad_pages"]
        assert 0 < file["p50_seconds"] <= file["p99_seconds"]
        assert file["seconds"] > 0
    seconds = [file["seconds"] for file in reads.values()]
    assert seconds == sorted(seconds, reverse=True)
    with pytest.raises(InvalidArgumentError, match="one of file"):
        loader.stats(by=cast("Any", "page"))


def test_bad_pages_are_counted(tmp_path):
    write_numbered(
        tmp_path, num_files=1, write_page_checksum=True, write_page_index=True
    )
    [path] = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    where = pf.PageIndex.build(tmp_path, "input_ids").locate(5)
    data[where.offset + where.compressed_size - 1] ^= 0xFF
    path.write_bytes(data)
    loader = numbered_loader(tmp_path)
    loader.stats(by="file")
    for _ in range(2):  # Trying again makes no other page bad.
        with pytest.raises(ChecksumError):
            list(loader)
    assert loader.stats(by="file")[str(path)]["bad_pages"] == 1


def test_metrics_and_reports_name_the_ten_slowest(folder):
    loader = numbered_loader(folder)
    loader.stats(by="file")
    list(loader)
    assert not any("file/" in name for name in loader.metrics())
    names = [name for name in loader.metrics(by_file=True) if "file/" in name]
    assert len(names) == 10 * 7
    kinds = {re.sub(r".*parquet(_[0-9a-f]{8})?_", "", name) for name in names}
    totals = {f"{name}_total" for name in NUMBERS[:4]}
    assert kinds == totals | {"p50_seconds", "p99_seconds", "bad_pages"}
    page = pf.reports.report(loader)
    assert "Reads by file" in page
    assert "p99" in page


def served(loader) -> list[Any]:
    """All samples that Prometheus would read."""
    parser = pytest.importorskip("prometheus_client.parser")
    with serve(lambda: loader.metrics(by_file=True), port=0) as endpoint:
        text = urlopen(f"http://127.0.0.1:{endpoint.port}/metrics").read().decode()
    families = parser.text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples]


def test_a_dashboard_asks_for_numbers_that_there_are(folder):
    web = pf.parquet(folder, column="input_ids")
    loader = numbered_loader(pf.mix({"a": (web, 1), "b": (web, 2)}, max_steps=20))
    loader.stats(by="file")
    list(loader)
    samples = served(loader)
    board = json.loads((ROOT / "examples/grafana.json").read_text())
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    for target in targets:
        [name] = re.findall(r"pagefeed_\w+", target["expr"])
        [labels, *_] = [sample.labels for sample in samples if sample.name == name]
        asked = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        assert {*asked} <= {*labels, "instance"}, name
    assert len(targets) >= 10


def test_prometheus_gets_the_file_as_a_label(folder):
    loader = numbered_loader(folder)
    loader.stats(by="file")
    list(loader)
    samples = [sample for sample in served(loader) if "file" in sample.labels]
    assert len({sample.labels["file"] for sample in samples}) == 10
    assert {sample.name for sample in samples} >= {
        "pagefeed_file_requests_total",
        "pagefeed_file_p99_seconds",
    }
