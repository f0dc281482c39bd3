"""The page and the figure of what was measured."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from loaders.picture import Bar, bars

__all__ = ["draw", "page"]

BEGINNING = """# Orders measured on a model

What does an order cost a model, and how long do starts take?
`make evaluation ARGS="--json results.json --page evaluation.md"` measures all of it and
writes this page.
"""

ENDING = """\
How pagefeed compares with other loaders: [Loaders compared](loaders.md).
"""


def page(results: dict[str, Any]) -> str:
    """Write the page in Markdown."""
    parts: dict[str, Callable[[Any], Iterator[str]]] = {
        "perplexity": _orders,
        "balance": _balanced,
        "startup": _starts,
    }
    lines = [BEGINNING]
    for name, tell in parts.items():
        if name in results:
            lines += [*tell(results[name]["results"]), "", _measured(results[name]), ""]
    return "\n".join([*lines, ENDING])


def _measured(part: dict[str, Any]) -> str:
    machine = part["machine"]
    device = f" and an {machine['device']}" if "device" in machine else ""
    return (
        f"Measured on {machine['processors']} processors{device} "
        f"({machine['system']}), at a "
        f"load of {part['load']} when it ended."
    )


def _orders(found: dict[str, Any]) -> Iterator[str]:
    of = found["of"]
    model = of["model"]
    yield "## Orders"
    yield ""
    yield (
        f"A transformer of {model['layers']} layers, {model['width']} wide, trains for "
        f"one epoch on {of['documents']:,} documents, stored source by source. These "
        f"are {of['pages']:,} pages, {of['sequences']:,} sequences of "
        f"{model['length']} tokens, {of['steps']:,} steps. The table shows the "
        "perplexity of held-out documents: median and range of the seeds. The share "
        "is 100% for file order, and 0% for a random order of rows. Differences below "
        "the range of the random order are noise."
    )
    yield ""
    yield "| order | data in the window | perplexity | range | share |"
    yield "|---|---|---|---|---|"
    for row in found["orders"]:
        window = f"{row['window_share']:.0%}" if row["window_share"] else "-"
        low, high = min(row["perplexities"]), max(row["perplexities"])
        kept = "-" if row["share_kept"] is None else f"{row['share_kept']:.1%}"
        yield (
            f"| {row['order']} | {window} | {row['median']:.2f} "
            f"| {low:.2f} to {high:.2f} | {kept} |"
        )
    yield ""
    yield "![What each order still costs a model](evaluation.svg)"


def _balanced(found: dict[str, Any]) -> Iterator[str]:
    of = found["of"]
    yield "## Balanced ranks"
    yield ""
    yield (
        f"A transformer of {of['layers']} layers, {of['width']} wide, is trained on "
        f"{of['documents']:,} documents. Some sources have short ones, others long "
        f"ones. They are packed into {of['sequences']:,} sequences of {of['length']} "
        f"tokens. Epochs are repeated up to {of['least_steps']} steps. The table shows "
        'the perplexity of held-out documents without and with `balance="attention"`: '
        "median and range of the seeds. The ratio compares both with one seed, and is "
        "a median. Differences below the range without are noise."
    )
    yield ""
    yield "| ranks x sequences a rank | steps | without | balanced | ratio |"
    yield "|---|---|---|---|---|"
    for row in found["cases"]:
        both = " | ".join(_range(row[name]) for name in ("without", "balanced"))
        yield (
            f"| {row['ranks']} x {row['batch_size']} | {row['steps']:,} | {both} "
            f"| {row['ratio']:.3f} |"
        )


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{median(values):.2f} ({low:.2f} to {high:.2f})"


def _starts(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "## Starts"
    yield ""
    yield "| files | first batch, nothing cached | with a page index | peak memory |"
    yield "|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['files']:,} | {row['cold_seconds']:.2f} s "
            f"| {row['warm_seconds']:.2f} s | {row['peak_bytes'] / 2**20:.0f} MiB |"
        )


def draw(part: dict[str, Any], path: Path) -> None:
    """Draw the shares that remain, by order."""
    shown = [
        row
        for row in part["results"]["orders"]
        if row["window_share"] and row["share_kept"] is not None
    ]
    rows = [
        Bar(
            f"{row['order']}, {row['window_share']:.0%} of the data in the window",
            100 * row["share_kept"],
            f"{100 * row['share_kept']:.1f}",
            row["order"] == "page, passes 1",  # The default.
        )
        for row in shown
    ]
    note = "% of the loss of file order; the default is highlighted"
    path.write_text(bars("What each order still costs a model", note, rows))
