"""Measure loaders of training data side by side, on the same tokens.

    python -m loaders [--only pagefeed memmap] [--adapter my_loader.py]
        [--tokens 512e6] [--rounds 3] [--seconds 5]
        [--json results.json] [--page loaders.md] [--picture rates.svg] [--publish]

Rate, CPU time, time to the first batch, waits, memory, quality of the shuffle, and
whether a saved state resumes exactly. Loaders that are not installed are passed over.
"""

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import data
from loaders.adapters import built_in, load
from loaders.child import AFTER_STATE, LEAST_BATCHES
from loaders.measure import Settings, measure, measure_orders
from loaders.picture import draw
from loaders.protocol import Adapter
from loaders.results import page, table

ROOT = Path(__file__).parents[2]
PUBLISHED = {
    "json": ROOT / "benchmarks/loaders/results.json",
    "page": ROOT / "docs/explanation/loaders.md",
    "picture": ROOT / "docs/pictures/rates.svg",
}
"""Where the repository keeps what one run found."""


def main() -> None:
    """Measure, print and write what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m loaders",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", default=[], help="words of their names")
    parser.add_argument("--adapter", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print names, and end")
    parser.add_argument("--tokens", type=float, default=data.LONG_EPOCH)
    parser.add_argument("--length", type=int, default=2048, help="of a sample")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of a rate, at most")
    parser.add_argument(
        "--orders",
        action="store_true",
        help="measure the orders alone, and add them to the results of --json",
    )
    parser.add_argument("--json", type=Path, help="write results there")
    parser.add_argument("--page", type=Path, help="write a page of Markdown")
    parser.add_argument("--picture", type=Path, help="write the rates as SVG")
    parser.add_argument(
        "--publish",
        action="store_const",
        const=PUBLISHED,
        default={},
        help="write all three where the repository keeps them",
    )
    options = parser.parse_args()
    vars(options).update(options.publish)
    least = LEAST_BATCHES * options.batch_size * options.length
    if options.tokens < least and not options.orders:
        parser.error(f"--tokens {options.tokens:.3g} are too few: give {least:,}")
    adapters = _chosen(options)
    if options.list:
        print("\n".join(name for named in adapters.values() for name in named))
        return
    settings = Settings(
        num_tokens=int(options.tokens),
        length=options.length,
        batch_size=options.batch_size,
        workers=options.workers,
        rounds=options.rounds,
        seconds=options.seconds,
    )
    if options.orders:
        found = json.loads(options.json.read_text())
        orders = measure_orders(adapters, settings)
        for row in found["results"]:
            row["orders"] = orders.get(row["loader"], row.get("orders"))
        _write(found, options)
        print("\n".join(table(found["results"], ("order fails",))))
        return
    rows = measure(adapters, settings)
    orders = measure_orders(adapters, settings)
    for row in rows:
        row["orders"] = orders.get(row["loader"])
    found = {
        "settings": asdict(settings) | {"files": data.NUM_FILES},
        "machine": {
            "processors": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
            "load": round(os.getloadavg()[0], 1),
        },
        "after_state": AFTER_STATE,
        "results": rows,
    }
    print("\n".join(table(rows)))
    _write(found, options)


def _chosen(options: argparse.Namespace) -> dict[Path, dict[str, Adapter]]:
    """The adapters of each file whose names have one of the words."""
    found = {file.resolve(): load(file) for file in (*built_in(), *options.adapter)}
    for word in options.only:
        if not any(word in name for named in found.values() for name in named):
            raise SystemExit(f"no loader has {word!r} in its name: see --list")
    return {
        file: {
            name: adapter
            for name, adapter in named.items()
            if not options.only or any(word in name for word in options.only)
        }
        for file, named in found.items()
    }


def _write(found: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.picture:
        options.picture.write_text(draw(found))
    if options.page:
        folder = options.page.resolve().parent
        picture = None
        if options.picture:
            picture = Path(os.path.relpath(options.picture.resolve(), folder))
        options.page.write_text(page(found, picture.as_posix() if picture else None))


if __name__ == "__main__":
    main()
