"""Fuzz the reader: mutated files must be read, or refused by a typed error.

Damaged indexes and arrays of a cache folder must change nothing of what is read.

    make fuzz ARGS="--seconds 600 --seed 7"

``tests/fuzz/tokenizer_ids.py`` is another: the ids of tokenizers.

Files are read in processes of their own under a memory limit and a timeout. Findings
are an abort, a hang, too much memory, a panic, an untyped error and an InternalError;
their files are kept, and the exit status is 1.
"""

import argparse
import random
import re
import secrets
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path

from fuzzing import SAVED, Child, Finding, case_of, make_seeds, saved_case, seeds
from saved_files import Saved, saved

KINDS_SHOWN = 40


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--files", type=int, help="stop after so many")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes of each")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a file")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="for findings")
    parser.add_argument("--make-seeds", action="store_true", help="write them anew")
    return parser.parse_args()


def run(
    options: argparse.Namespace, number: int, folder: Path, cached: Saved
) -> list[Finding]:
    """One process after the other, with draws of its own, until the end."""
    draw = random.Random(f"{options.seed} {number}")
    child = Child(options.memory, options.timeout)
    end, found, here = time.monotonic() + options.seconds, [], seeds()
    folder = folder / str(number)
    folder.mkdir()
    most = None if options.files is None else options.files // options.jobs
    for _ in islice(count(), most):
        if time.monotonic() > end:
            break
        if draw.random() < SAVED:
            case = saved_case(cached, draw, folder)
        else:
            case = case_of(here, draw, folder)
        if outcome := child.run(case):
            found.append(Finding(case.name, outcome, case.data, case.job))
        COUNTS[case.name.split("-")[0]] += 1
    child.close()
    return found


COUNTS: Counter[str] = Counter()


def kind_of(finding: Finding) -> str:
    """The outcome without its numbers and paths: what tells findings apart."""
    return re.sub(r"\S*/\S*|\d+", "#", finding.outcome)[:160]


def main() -> int:
    options = arguments()
    if options.make_seeds:
        make_seeds()
        return 0
    cached = saved()
    with (
        tempfile.TemporaryDirectory(prefix="pagefeed-fuzz-") as folder,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        runs = [
            pool.submit(run, options, number, Path(folder), cached)
            for number in range(options.jobs)
        ]
        found = [finding for one in runs for finding in one.result()]
    print(f"seed {options.seed}: {COUNTS.total()} files, {dict(COUNTS)}")
    smallest: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda finding: len(finding.data)):
        smallest.setdefault(kind_of(finding), finding)
    for number, finding in enumerate(list(smallest.values())[:KINDS_SHOWN]):
        options.keep.mkdir(parents=True, exist_ok=True)
        path = options.keep / f"{number}-{finding.name}.parquet"
        path.write_bytes(finding.data)
        times = sum(kind_of(one) == kind_of(finding) for one in found)
        print(f"{path} {finding.job} x{times}: {finding.outcome[:300]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
