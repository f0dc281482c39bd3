"""The page of a report holds what the data holds, and needs nothing but itself."""

import base64
import re
import struct
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered
from models.mixing import make, staged, write_datasets
from pagefeed.cli import main
from pagefeed.reports.page.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from pagefeed.reports.page.order import order_counts
from pagefeed.reports.page.writing import heat_map, png

VOID = {"meta", "img", "line", "polyline"}


class Page(HTMLParser):
    """Text and titles of a page whose tags are closed in their order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href")]
        if tag not in VOID or (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Nothing stays open."""

    def handle_endtag(self, tag):
        if tag in VOID:
            self.open = [one for one in self.open if one not in VOID]
            return
        while self.open and self.open[-1] in VOID:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["h2"]:
            self.titles.append(data)
        self.text += f" {data}"


def corners(page: str) -> np.ndarray:
    """Where the shapes of all charts of a page have their corners: [corners, 2]."""
    found = [
        corner.split(",")
        for points in re.findall('points="([^"]+)"', page)
        for corner in points.split()
    ]
    return np.array(found, dtype=float)


def assert_inside(page: str) -> None:
    """Nothing is drawn beyond the axes of its chart."""
    places = corners(page)
    assert len(places)
    assert (places >= [LEFT - 0.1, TOP - 0.1]).all()
    assert (places <= [WIDTH - RIGHT + 0.1, HEIGHT - BOTTOM + 0.1]).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("report")
    write_numbered(path)
    return path


def test_a_page_of_one_dataset(folder):
    loader = numbered_loader(folder)
    made = pf.report(loader)
    page = Page(made)
    assert page.titles == [
        "Dataset",
        "Lengths of documents",
        "Plan",
        "Packing",
        "Reads by file",
        "Order",
    ]
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert "http" not in made
    assert "<script" not in made
    assert made.count('class="bar"') > 3
    for number in (600, loader.num_sequences, len(loader)):
        assert f"{number:,}" in page.text


@pytest.mark.parametrize("batch_size", [2, 10_000])
def test_a_page_draws_what_steps_cost(folder, batch_size):
    loader = numbered_loader(
        folder,
        sequences=pf.Packed(LENGTH),
        balance="attention",
        batch_size=batch_size,
        drop_last=False,
        world_size=2,
        rank=0,
    )
    num_steps = loader.num_sequences // (2 * batch_size)  # Those that are complete.
    made = pf.report(loader)
    if num_steps:
        assert_inside(made)
    page = Page(made)
    assert "Costs of steps" in page.titles
    assert "slowest rank of a step" in page.text
    charts = made.partition("Costs of steps")[2].partition("</section>")[0]
    points = re.findall('polyline class="series" points="([^"]*)"', charts)
    assert [len(line.split()) for line in points] == [num_steps] * 2


def test_a_page_of_a_mixture(tmp_path):
    datasets = write_datasets(tmp_path)
    loader = make(
        staged(datasets, max_steps=100), sequences=pf.Packed(LENGTH), batch_size=4
    )
    made = pf.report(loader)
    assert_inside(made)
    page = Page(made)
    assert set(page.titles) >= {
        *("Dataset: web", "Mixture over training", "Packing", "Order"),
    }
    for word in ("planned share", "documents in a sequence (least"):
        assert word in page.text


@pytest.mark.parametrize("num_files", [1, None], ids=["one file", "all files"])
def test_the_picture_of_the_order_counts_sequences(folder, num_files):
    files = sorted(folder.glob("*.parquet"))[:num_files]
    data = pf.parquet(files, column="input_ids")
    counts = order_counts(numbered_loader(data, shuffle=None))
    rows, columns = counts.shape
    assert rows > 3
    # In file order there is a diagonal.
    assert counts[: rows // 2, (columns + 1) // 2 + 1 :].sum() == 0
    assert counts[(rows + 1) // 2 + 1 :, : columns // 2].sum() == 0
    loader = numbered_loader(data, shuffle="row")
    mixed = order_counts(loader)
    assert 0.3 < mixed[: rows // 2].sum() / mixed.sum() < 0.7
    assert mixed.sum() == loader.batch_size * len(loader)
    assert 0.3 < mixed[:, : columns // 2].sum() / mixed.sum() < 0.7
    # What is mixed is grey: neither white nor black.
    [image] = re.findall(r"base64,([^\"]+)", heat_map(mixed, title="t"))
    picture = base64.b64decode(image)
    size = struct.unpack(">I", picture[33:37])[0]
    lines = np.frombuffer(zlib.decompress(picture[41 : 41 + size]), np.uint8)
    pixels = lines.reshape(rows, -1)[:, 1:]
    assert 110 < pixels.mean() < 175


@pytest.mark.parametrize("budget", [None, 128])
def test_the_picture_shows_where_the_documents_of_a_block_lie(folder, budget):
    # Of one block: its sequences hold documents from all over it, and their numbers,
    # which would make a diagonal, say nothing of the files.
    cut = pf.Packed(64) if budget is None else pf.Documents([], max_length=64)
    size = {"batch_size": None, "batch_tokens": budget} if budget else {}
    loader = numbered_loader(folder, sequences=cut, shuffle=None, **size)
    counts = order_counts(loader)
    line, column = np.nonzero(counts)
    weights = counts[line, column]
    assert weights.sum() >= len(loader.dataset) * 0.9
    covariance = np.cov(line, column, fweights=weights)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert abs(correlation) < 0.15


def test_an_order_of_a_mixture_has_all_datasets(tmp_path):
    loader = make(staged(write_datasets(tmp_path), max_steps=30), batch_size=4)
    counts = order_counts(loader)
    assert counts.sum() == 120
    assert (counts.sum(axis=1) > 0).sum() > 1


def test_a_page_says_what_it_is_of_and_when_it_was_written(folder):
    [file] = sorted(folder.glob("*.parquet"))[:1]
    data = pf.parquet(file, column="input_ids")
    page = Page(pf.report(numbered_loader(data)))
    assert f"{file}: report of a run" in page.text
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC, pagefeed \d", page.text)
    assert data.fingerprint in page.text


def test_pictures_are_png():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    data = png(pixels)
    assert struct.unpack(">II", data[16:24]) == (4, 3)
    size = struct.unpack(">I", data[33:37])[0]
    raw = zlib.decompress(data[41 : 41 + size])
    lines = np.frombuffer(raw, dtype=np.uint8).reshape(3, 5)
    assert (lines[:, 1:] == pixels).all()


def test_names_are_escaped(folder):
    loader = numbered_loader(
        pf.mix({"<b>&": pf.parquet(folder, column="input_ids")}, max_steps=3)
    )
    page = pf.report(loader)
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


@pytest.mark.parametrize(
    ("shuffle", "said"), [("row", "mixed well"), (None, "not mixed well")]
)
def test_the_page_begins_with_a_verdict(folder, shuffle, said):
    loader = numbered_loader(folder, batch_size=8, shuffle=shuffle)
    page = Page(pf.report(loader))
    first = page.text.partition("Dataset")[0]
    assert said in first
    assert ("not mixed" in first) == (shuffle is None)
    assert f"{len(loader)} steps" in first


def test_the_page_says_how_documents_are_infilled(folder):
    data = pf.parquet(folder, column="input_ids")
    filled = data.infill(pf.Infill(prefix=9001, suffix=9002, middle=9003))
    page = Page(pf.report(numbered_loader(filled)))
    assert str(filled.infilling and filled.infilling.identity) in page.text


def test_the_command_line(folder, tmp_path):
    output = tmp_path / "report.html"
    run = ["report", str(folder), "--column", "input_ids", "--length", str(LENGTH)]
    assert main([*run, "--output", str(output)]) == 0
    [image] = re.findall(r"base64,([^\"]+)", output.read_text())
    assert base64.b64decode(image).startswith(b"\x89PNG")


def test_damage_is_on_the_page(tmp_path, capsys):
    write_numbered(tmp_path)
    broken = tmp_path / "part-1.parquet"
    broken.write_bytes(broken.read_bytes()[:5000])
    output = tmp_path / "report.html"
    run = ["report", str(tmp_path), "--column", "input_ids", "--length", str(LENGTH)]
    assert main([*run, "--output", str(output)]) == 1
    page = Page(output.read_text())
    assert page.titles[0] == "Damage"
    assert "part-1.parquet" in page.text
    assert "DAMAGED" in capsys.readouterr().err
