"""What orders cost a model, and how long starts take: one command.

    make evaluation ARGS="[--size small|medium|full] [--seeds 3] [--processes 1]
        [--corpus FOLDER] [--only perplexity balance startup]
        [--json results.json] [--page FILE.md]"

A small transformer is trained for one epoch on a corpus that lies in the order of its
sources, in pages of a few documents, in each order: row-exact, by pages with 1 to 8
passes, by row groups, a streaming buffer, none; with 10 % and 1 % of the data in the
window. Perplexity is that of held-out documents. What an order keeps of the loss that
no shuffling costs is its share. Another is trained on documents of unlike lengths, with
ranks balanced and without. Then starts with many files are timed. `--size small` only
shows that all of it runs. Other loaders: `make loaders`.
"""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import balanced
import torch
from clustered import CUTS, make_corpus, shared_corpus
from perplexity import described, measure, shares
from results import draw, page
from startup import measure as measure_start
from transformer import SIZES

PARTS = ("perplexity", "balance", "startup")
MODELS = ("perplexity", "balance")
"""Parts that train models."""


def main() -> None:
    """Measure, print and write what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="models at a time")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--corpus", type=Path, help="a folder with a column text")
    parser.add_argument("--json", type=Path, help="results; parts not run are kept")
    parser.add_argument("--page", type=Path, help="a page of tables, and its figure")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    for part in options.only:
        results[part] = {
            "machine": _machine(part),
            "load": round(os.getloadavg()[0], 1),
            "results": RUNS[part](options),
        }
        if options.json:
            options.json.write_text(json.dumps(results, indent=2) + "\n")
    if options.page:
        options.page.write_text(page(results))
        if "perplexity" in results:
            draw(results["perplexity"], options.page.with_suffix(".svg"))


def _machine(part: str) -> dict[str, Any]:
    machine = {"processors": os.cpu_count(), "system": platform.system()}
    if part in MODELS and torch.cuda.is_available():
        machine["device"] = torch.cuda.get_device_name()
    return machine


def _perplexity(options: argparse.Namespace) -> dict[str, Any]:
    is_small, size = options.size == "small", SIZES[options.size]
    corpus = make_corpus(options.corpus or shared_corpus(), CUTS[options.size])
    rows = []
    seeds = 1 if is_small else options.seeds
    for row in measure(corpus, size, seeds, options.processes, small=is_small):
        rows.append(row)
        window = f"{row['window_share']:.0%}" if row["window_share"] else "-"
        print(
            f"{row['order']:16} window {window:>4}  {row['median']:10.3f}", flush=True
        )
    return {"of": described(corpus, size), "orders": shares(rows)}


def _balance(options: argparse.Namespace) -> dict[str, Any]:
    is_small = options.size == "small"
    cut = balanced.SMALL_CUT if is_small else balanced.CUT
    corpus = make_corpus(options.corpus or shared_corpus(), cut)
    seeds = 1 if is_small else options.seeds
    rows = []
    for row in balanced.measure(corpus, seeds, options.processes, small=is_small):
        rows.append(row)
        print(
            f"{row['ranks']:>3} x {row['batch_size']}: {row['ratio']:.3f}", flush=True
        )
    return {"of": balanced.described(corpus), "cases": rows}


def _startup(options: argparse.Namespace) -> list[dict[str, Any]]:
    counts, rounds = ((20, 50), 1) if options.size == "small" else ((1000, 10_000), 5)
    rows = [measure_start(count, rounds) for count in counts]
    for row in rows:
        print(
            f"{row['files']:>7,} files: first batch after {row['cold_seconds']:.2f}"
            f" s, with an index {row['warm_seconds']:.2f} s"
        )
    return rows


RUNS = {"perplexity": _perplexity, "balance": _balance, "startup": _startup}


if __name__ == "__main__":
    main()
