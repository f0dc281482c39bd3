"""A report of a run as one page of HTML: with a picture of the order."""

from __future__ import annotations

import base64
import datetime
import html
import itertools
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pagefeed._core import version
from pagefeed.core.dataset import Dataset
from pagefeed.core.loader import Loader
from pagefeed.core.sequences import Packed, SequenceIndex
from pagefeed.errors import shown_path
from pagefeed.metrics import reads_by_file, slowest_files
from pagefeed.reports.forecasts import Forecast, forecast
from pagefeed.reports.inspection import Inspection, inspect
from pagefeed.reports.page.charts import lines
from pagefeed.reports.page.layout import bars, page_of, section, table
from pagefeed.reports.page.order import order_counts
from pagefeed.reports.page.verdict import verdict
from pagefeed.reports.sampling import evenly, plan_digest
from pagefeed.reports.soundness import Damage
from pagefeed.reports.step_costs import slowest_ranks
from pagefeed.reports.tables import (
    facts_of_inspection,
    facts_of_plan,
    mixture_tables,
)
from pagefeed.reports.weights import mixture_shares


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return an image of shades of grey.

    Args:
        pixels: uint8 [height, width], 0 black.

    Example:
        >>> png(np.zeros((2, 3), dtype=np.uint8))[1:4]
        b'PNG'
    """
    height, width = pixels.shape
    # Each line begins with the number of its filter: none.
    raw = np.hstack([np.zeros((height, 1), dtype=np.uint8), pixels]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(raw, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def heat_map(counts: npt.NDArray[np.int64], *, title: str) -> str:
    """Return a picture of counts: int64 [height, width].

    The mean is grey, 0 is white, and everything from twice the mean on is black.
    """
    mean = max(1e-9, float(counts.mean()))
    pixels = (255 - np.minimum(225, 112.5 * counts / mean)).astype(np.uint8)
    data = base64.b64encode(png(pixels)).decode()
    return (
        f'<img class="map" alt="{html.escape(title)}" '
        f'src="data:image/png;base64,{data}">'
    )


SAMPLED_SEQUENCES = 512
MOST_DAMAGE = 50
MOST_POINTS = 480
"""Steps that a chart draws."""


def report(
    loader: Loader,
    *,
    damage: Sequence[Damage] = (),
) -> str:
    """Return a report of a run as one page of HTML, which needs no network.

    A verdict in a few sentences, the dataset and its documents, the mixture over
    training, the packing, the slowest rank of steps if ranks are balanced, the order.

    Args:
        loader: The run.
        damage: Damage that is known already.

    Returns:
        The page.

    Example:
        >>> report(loader).startswith("<!doctype html>")
        True
    """
    reads_by_file()  # Begins to count, unless somebody asked before.
    dataset, plan = loader.dataset, forecast(loader)
    datasets = dataset.parts
    inspections = {name: inspect(data) for name, data in datasets.items()}
    names = [name or _location(data) for name, data in datasets.items()]
    shown = inspections.items()
    all_damage = [*damage, *(defect for _, facts in shown for defect in facts.damage)]
    return page_of(
        f"{', '.join(names)}: report of a run",
        f"{datetime.datetime.now(datetime.UTC):%F %H:%M} UTC, pagefeed {version()}",
        [
            f"<p>{html.escape(verdict(loader, plan, len(all_damage)))}</p>",
            _damage(all_damage),
            *(_dataset(name, datasets[name], facts) for name, facts in shown),
            *(_lengths(name, facts) for name, facts in shown),
            _plan(loader, plan),
            _mixture(loader, plan),
            _packing(loader),
            _costs(loader),
            _reads(),
            _order(loader),
        ],
    )


def _damage(damage: Sequence[Damage]) -> str:
    rows = [(defect.kind, defect.message) for defect in damage[:MOST_DAMAGE]]
    if not rows:
        return ""
    note = f'<p class="bad">{len(damage):,} places cannot be read.</p>'
    return section("Damage", note, table(("error", "where and what"), rows))


def _titled(title: str, name: str) -> str:
    return f"{title}: {name}" if name else title


def _location(dataset: Dataset) -> str:
    """The file of a dataset, or the folder above all of its files."""
    folders = [shown_path(file).split("/") for file in dataset.files]
    same = itertools.takewhile(
        lambda parts: len({*parts}) == 1, zip(*folders, strict=False)
    )
    return "/".join(first for first, *_ in same)


def _dataset(name: str, dataset: Dataset, inspection: Inspection) -> str:
    rows = [
        ("location", _location(dataset)),
        ("fingerprint", dataset.fingerprint),
        *facts_of_inspection(inspection),
    ]
    infill = dataset.facts().get("infill")
    if infill is not None:
        rows.append(("infilling", str(infill)))
    advice = "".join(f"<li>{html.escape(line)}</li>" for line in inspection.advice)
    return section(
        _titled("Dataset", name),
        table((), rows),
        f"<ul>{advice}</ul>" if advice else "",
    )


def _lengths(name: str, inspection: Inspection) -> str:
    lengths = inspection.lengths
    if lengths is None:
        return ""
    counts = [(f"{least:,}+", rows) for least, _, rows, _ in lengths.histogram]
    quantiles = [f"{float(share):.0%}" for share in lengths.quantiles]
    of = "a sample of " * lengths.is_sample + f"{lengths.rows_read:,} documents"
    note = f'<p class="note">{lengths.unit} of {of}, mean {lengths.mean:,.0f}</p>'
    return section(
        _titled("Lengths of documents", name),
        bars((lengths.unit, "documents"), counts),
        note,
        table(quantiles, [list(lengths.quantiles.values())]),
    )


def _plan(loader: Loader, plan: Forecast) -> str:
    rows: list[tuple[str, object]] = [
        ("sequences", repr(loader.sequences)),
        ("shuffle", repr(loader.shuffle)),
        ("seed", loader.seed),
        ("batch size x ranks", f"{loader.batch_size} x {loader.world_size}"),
        ("plan", plan_digest(loader)),
    ]
    rows += facts_of_plan(plan)
    return section("Plan", table((), rows))


def _mixture(loader: Loader, plan: Forecast) -> str:
    if not plan.datasets:
        return ""
    tables = mixture_tables(plan)
    steps, shares = mixture_shares(loader)
    planned = {name: values.tolist() for name, values in shares.items()}
    title = "planned share of the tokens"
    return section(
        "Mixture over training",
        lines(steps.tolist(), planned, title=title, unit=title, most=1),
        *(f"<p>{shown.title}</p>{table(shown.header, shown.rows)}" for shown in tables),
    )


def _packing(loader: Loader) -> str:
    index = loader.view().run.index
    total = max(1, loader.num_sequences * index.length)
    rows: list[tuple[str, object]] = [
        ("padding", f"{loader.num_padding_tokens / total:.3%} of the tokens"),
        ("tokens in no sequence", loader.num_dropped_tokens),
    ]
    if isinstance(loader.sequences, Packed):
        counts = np.concatenate([_documents_of_sequences(own) for own in index.parts])
        few, many = counts.min(), counts.max()
        said = f"{few} / {np.median(counts):.0f} / {counts.mean():.1f} / {many}"
        rows.append(("documents in a sequence (least / median / mean / most)", said))
    return section("Packing", table((), rows))


def _documents_of_sequences(index: SequenceIndex) -> np.ndarray:
    chosen = evenly(index.num_sequences, SAMPLED_SEQUENCES)
    return np.array([len(index.parts(sequence).page) for sequence in chosen.tolist()])


def _costs(loader: Loader) -> str:
    if loader.balance is None:
        return ""
    slowest = slowest_ranks(loader)
    shown = evenly(len(slowest[0]), MOST_POINTS)
    names = ("with the balance", "without")
    series = {
        name: costs[shown].tolist() for name, costs in zip(names, slowest, strict=True)
    }
    unit = "cost of the slowest rank / mean of all ranks"
    chart = lines(shown.tolist(), series, title="slowest rank of steps", unit=unit)
    return section("Costs of steps", chart)


def _reads() -> str:
    rows = [
        (file, *(f"{number:,.6g}" for number in reads.values()))
        for file, reads in slowest_files().items()
    ]
    if not rows:
        return ""
    header = ["file", "requests", "bytes", "retries", "seconds", "p50", "p99"]
    note = '<p class="note">the ten files whose reads took most time so far</p>'
    return section("Reads by file", note, table((*header, "bad pages"), rows))


def _order(loader: Loader) -> str:
    counts = order_counts(loader)
    note = (
        f'<p class="note">The data from above to below ({counts.shape[0]} lines of as '
        "many sequences each, in the order of the files), the epoch from left to "
        "right; darker: more sequences. Grey all over is mixed; a diagonal is file "
        "order.</p>"
    )
    return section("Order", heat_map(counts, title="data over the epoch"), note)
