"""Fuzz the readers: mutated files must be read, or refused by a typed error.

Damaged indexes and arrays of a cache folder must change nothing of what is read.

    make fuzz ARGS="--seconds 600 --seed 7"

``tests/fuzz/tokenizer_ids.py`` is another: the ids of tokenizers.

Parquet takes a share of the files, and every other format, tokenizers, templates of
chats and cache folders one like another of the rest.

Files are read in processes of their own under a memory limit and a timeout. Findings
are an abort, a hang, too much memory, a panic, an untyped error, an InternalError
and a file that is cut and taken for whole; their files are kept, and the exit status
is 1.
"""

import argparse
import random
import re
import secrets
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from fuzzing import Case, make_seeds, parquet_case, seeds, subject_case
from subjects import Subject, subjects

from models.probing import EndedError, Prober

KINDS_SHOWN = 40
PARQUET = 0.4
"""Share of files that are Parquet."""
CHILD = Path(__file__).resolve().with_name("child.py")


class Finding(NamedTuple):
    """A file that was neither read nor refused as it should be."""

    case: Case
    outcome: str


def outcome_of(prober: Prober, case: Case, timeout: float) -> str:
    """What came of it: "" if it was read, or refused by a typed error."""
    try:
        return str(prober.ask(case.job, timeout))
    except EndedError as end:
        return str(end)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--files", type=int, help="stop after so many")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes of each")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a file")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="for findings")
    parser.add_argument("--only", help="formats but Parquet whose names match")
    parser.add_argument("--make-seeds", action="store_true", help="write them anew")
    return parser.parse_args()


def run(
    options: argparse.Namespace,
    number: int,
    folder: Path,
    here: dict[str, bytes],
    others: dict[str, Subject],
) -> list[Finding]:
    """One process after the other, with draws of its own, until the end."""
    draw = random.Random(f"{options.seed} {number}")
    prober = Prober(CHILD, options.memory)
    end, found = time.monotonic() + options.seconds, []
    folder = folder / str(number)
    folder.mkdir()
    for name in sorted(others)[number :: options.jobs]:
        case = subject_case(name, others[name], None, folder)
        if outcome := outcome_of(prober, case, options.timeout):
            found.append(Finding(case, outcome))
    most = None if options.files is None else options.files // options.jobs
    for _ in islice(count(), most):
        if time.monotonic() > end:
            break
        if not others or (not options.only and draw.random() < PARQUET):
            case = parquet_case(here, draw, folder)
        else:
            name = draw.choice(sorted(others))
            case = subject_case(name, others[name], draw, folder)
        began = time.monotonic()
        if outcome := outcome_of(prober, case, options.timeout):
            found.append(Finding(case, outcome))
        what = case.name.split("-")[0]
        COUNTS[what] += 1
        SECONDS[what] += time.monotonic() - began
    prober.close()
    return found


COUNTS: Counter[str] = Counter()
SECONDS: defaultdict[str, float] = defaultdict(float)


def kind_of(finding: Finding) -> str:
    """Format and outcome, without numbers and paths: what tells findings apart."""
    what = finding.case.name.split("-")[0]
    return what + re.sub(r"\S*/\S*|\d+", "#", finding.outcome)[:160]


def main() -> int:
    options = arguments()
    if options.make_seeds:
        make_seeds()
        return 0
    others = {
        name: one
        for name, one in subjects().items()
        if re.search(options.only or "", name)
    }
    with (
        tempfile.TemporaryDirectory(prefix="pagefeed-fuzz-") as folder,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        runs = [
            pool.submit(run, options, number, Path(folder), seeds(), others)
            for number in range(options.jobs)
        ]
        found = [finding for one in runs for finding in one.result()]
    print(f"seed {options.seed}: {COUNTS.total()} files")
    for what, number in COUNTS.most_common():
        print(f"  {number:6} {what}, {SECONDS[what] / number * 1000:.0f} ms each")
    smallest: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda finding: len(finding.case.data)):
        smallest.setdefault(kind_of(finding), finding)
    for number, (case, outcome) in enumerate(list(smallest.values())[:KINDS_SHOWN]):
        options.keep.mkdir(parents=True, exist_ok=True)
        path = options.keep / f"{number}-{case.name}-{case.path.name}".replace(" ", "-")
        path.write_bytes(case.data)
        times = sum(kind_of(one) == kind_of(Finding(case, outcome)) for one in found)
        print(f"{path} {case.job} x{times}: {outcome[:300]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
