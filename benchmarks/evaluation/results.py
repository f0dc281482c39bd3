"""The page and the figure of what was measured."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["draw", "page"]

BEGINNING = """# Evaluation

After this page you know what an order costs a model, and how long starts take.
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
        f"A transformer of {model['layers']} layers, {model['width']} wide, is trained "
        f"for one epoch of {of['documents']:,} documents. They lie in the order of "
        f"their sources: {of['pages']:,} pages, {of['sequences']:,} sequences of "
        f"{model['length']} tokens, {of['steps']:,} steps. The table shows the "
        "perplexity of held-out documents: median and range of the seeds. An epoch "
        "without a shuffle has the share 100%, one in a random order of rows 0%. "
        "Differences below the range of the order of rows are noise."
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
    yield "![Share of the loss that remains, by order](evaluation.svg)"


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
    from matplotlib.figure import Figure

    shown = [
        row
        for row in part["results"]["orders"]
        if row["window_share"] and row["share_kept"] is not None
    ]
    names = list(dict.fromkeys(row["order"] for row in shown))
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    for share, offset in ((0.1, -0.2), (0.01, 0.2)):
        kept = {
            r["order"]: r["share_kept"] for r in shown if r["window_share"] == share
        }
        axes.bar(
            [place + offset for place in range(len(names))],
            [100 * kept.get(name, 0.0) for name in names],
            width=0.4,
            label=f"{share:.0%} of the data in the window",
        )
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="% of the loss of no shuffling that remains")
    axes.legend()
    figure.savefig(path)
