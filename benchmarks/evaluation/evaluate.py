"""What shuffling by pages costs a model, and how long starts take: one command.

    python benchmarks/evaluation/evaluate.py [--small] [--seeds 3] [--corpus FOLDER]
        [--only perplexity|startup] [--json results.json] [--plot evaluation.svg]

A small transformer is trained for one epoch on a corpus that lies in the order of its
sources, in pages of 32 documents, in each order: row-exact, by pages with 1 to 8
passes, by row groups, a streaming buffer, none; with 10 % and 1 % of the data in the
window. Perplexity is that of held-out documents. What an order keeps of the loss that
no shuffling costs is its share. `--small` only shows that all of it runs.
"""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

from clustered import make_corpus, shared_corpus
from model import FULL, SMALL
from perplexity import described, measure, shares
from startup import measure as measure_start

SMALL_DOCUMENTS = 150


def main() -> None:
    """Measure, print and write what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="only see that it runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=["perplexity", "startup"])
    parser.add_argument("--corpus", type=Path, help="a folder with a column text")
    parser.add_argument("--json", type=Path, help="where results go")
    parser.add_argument("--plot", type=Path, help="where a plot goes: .svg or .png")
    options = parser.parse_args()
    results: dict[str, Any] = {
        "machine": {"processors": os.cpu_count(), "system": platform.platform()},
        "load": os.getloadavg(),
    }
    if options.only != "startup":
        results["perplexity"] = _perplexity(options)
    if options.only != "perplexity":
        counts, rounds = ((20, 50), 1) if options.small else ((1000, 10_000), 5)
        results["startup"] = [measure_start(count, rounds) for count in counts]
        for row in results["startup"]:
            print(
                f"{row['files']:>7,} files: first batch after {row['cold_seconds']:.2f}"
                f" s, with an index {row['warm_seconds']:.2f} s"
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    if options.plot and "perplexity" in results:
        _plot(results["perplexity"]["orders"], options.plot)


def _perplexity(options: argparse.Namespace) -> dict[str, Any]:
    size = SMALL if options.small else FULL
    folder = options.corpus or shared_corpus()
    corpus = make_corpus(folder, SMALL_DOCUMENTS if options.small else None)
    rows = []
    seeds = 1 if options.small else options.seeds
    for row in measure(corpus, size, seeds, small=options.small):
        rows.append(row)
        window = f"{row['window_share']:.0%}" if row["window_share"] else "-"
        print(
            f"{row['order']:16} window {window:>4}  {row['median']:10.3f}", flush=True
        )
    found = shares(rows)
    print()
    for row in found:
        kept = "-" if row["share_kept"] is None else f"{row['share_kept']:.2%}"
        print(f"{_named(row)}  keeps {kept:>8} of the loss")
    return {"of": described(corpus, size), "orders": found}


def _named(row: dict[str, Any]) -> str:
    window = f"{row['window_share']:.0%}" if row["window_share"] else "-"
    return f"{row['order']:16} window {window:>4}"


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    shown = [
        row for row in rows if row["window_share"] and row["share_kept"] is not None
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


if __name__ == "__main__":
    main()
