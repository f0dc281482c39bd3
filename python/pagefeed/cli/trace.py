r"""Say where a batch came from, or when a document is seen.

--weights prints the weights of a mixture, and from which step on they hold, as a state
records them. --step S prints where each row of that batch came from, page and row of
the file, with its tokens; --row selects one row. --state FILE sets the run to the
position of a saved state (JSON), with all steps that it skips; --step is then by
default the next one. --document FILE:ROW prints at which steps, ranks and rows a
document is seen.

Exits with 0, or with 1 if something cannot be read: it is reported, and the rest is
shown.

For example:
  pagefeed trace train.py:make_loader --step 1200 --row 3 --tokenizer tokenizer.json
  pagefeed trace train.py:make_loader --state loader.json
  pagefeed trace corpus/ --column input_ids --length 2048 --document part-7.parquet:812
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import (
    RUN,
    TEXT_TOKENIZER,
    arg,
    make_sound_loader,
    make_text_tokenizer,
    read_json,
    tell,
)
from pagefeed.core.loader import Loader
from pagefeed.core.run import Slot
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import Table, mixture_weights
from pagefeed.reports import trace as trace_rows

ARGUMENTS = RUN | {
    "--weights": arg(bool, "the shares of a mixture's datasets over time"),
    "--step": arg(int, "step of the epoch"),
    "--row": arg(int, "row of its batch; by default all"),
    "--rank": arg(0, "the rank whose batch it is"),
    "--state": arg(str, "what state_dict() returned, as JSON", metavar="FILE"),
    "--document": arg(str, "when it is seen", metavar="FILE:ROW"),
    **TEXT_TOKENIZER,
}


def run(options: argparse.Namespace) -> int:
    """Trace and report; 1 if something cannot be read."""
    _check(options)
    loader, damage = make_sound_loader(options)
    if damage:
        why = "The order is of all files: nothing can be traced without these."
        return tell(options, {"problem": why}, [why], damage)
    if options.state:
        wrong = (
            f"--state {options.state} is not a JSON file with what state_dict() "
            "returned"
        )
        loader.load_state_dict(read_json(options.state, wrong))
    if options.weights:
        return _trace_weights(loader, options)
    if options.document:
        return _trace_document(loader, options)
    return _trace_rows(loader, options)


def _check(options: argparse.Namespace) -> None:
    wanted = options.step is not None, options.document, options.weights
    chosen = sum(map(bool, wanted))
    if chosen > 1 or not (chosen or options.state):
        names = "--step or --state, --document, --weights"
        raise InvalidArgumentError(f"give one of {names}")


def _trace_rows(loader: Loader, options: argparse.Namespace) -> int:
    tokenizer = make_text_tokenizer(options, loader.dataset)
    step = loader.step if options.step is None else options.step
    rows = trace_rows(loader, step, options.row, tokenizer=tokenizer)
    damage = [row.damage for row in rows if row.damage is not None]
    return tell(options, [asdict(row) for row in rows], map(str, rows), damage)


def _trace_weights(loader: Loader, options: argparse.Namespace) -> int:
    weights = mixture_weights(loader)
    names = [*weights[0][1]]
    rows = [
        (f"{step:,}", *(f"{shares[name]:.2%}" for name in names))
        for step, shares in weights
    ]
    table = Table("", ("from step", *names), rows)
    listed = [{"step": step, "shares": shares} for step, shares in weights]
    return tell(options, listed, [table])


def _trace_document(loader: Loader, options: argparse.Namespace) -> int:
    file, colon, row = options.document.rpartition(":")
    if not colon or not row.isdecimal():
        raise InvalidArgumentError(
            f"--document {options.document} is not FILE:ROW, such as part-7.parquet:812"
        )
    slots: list[Slot] = loader.steps_of(file, int(row))
    lines = [f"step {slot.step:,}, rank {slot.rank}, row {slot.row}" for slot in slots]
    lines = lines or [
        "it is not seen in this epoch: not selected, skipped, dropped, or empty"
    ]
    return tell(options, [slot._asdict() for slot in slots], lines)
