r"""Say where a batch came from, when a document is seen, or write steps again.

--weights prints the weights of a mixture, and from which step on they hold, as a state
records them. --step S prints where each row of that batch came from, page and row of
the file, with its tokens; --row selects one row. --state FILE sets the run to the
position of a saved state (JSON), with all steps that it skips; --step is then by
default the next one. --document FILE:ROW prints at which steps, ranks and rows a
document is seen. --steps FIRST:END writes exactly those batches again, as
FOLDER/step-N-rank-R.npz (documents without --length as Parquet), to look into a loss
spike.

Exits with 0, or with 1 if something cannot be read: it is reported, and the rest is
shown.

For example:
  pagefeed trace corpus/ --column input_ids --length 2048 --step 1200 --row 3
  pagefeed trace corpus/ --column input_ids --length 2048 --state loader.json \
      --tokenizer tokenizer.json
  pagefeed trace corpus/ --column input_ids --length 2048 --document part-7.parquet:812
  pagefeed trace corpus/ --column input_ids --length 2048 --steps 1190:1210 \
      --output spike
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pagefeed.cli.common import (
    RUN,
    TEXT_TOKENIZER,
    arg,
    make_loader,
    make_sound_dataset,
    make_text_tokenizer,
    range_of,
    read_json,
    table_lines,
    tell,
)
from pagefeed.core._base import Work, require
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.core.run import Slot
from pagefeed.errors import InvalidArgumentError, PaddingWarning
from pagefeed.remote import checked_output, make_folder
from pagefeed.reports import (
    UNREADABLE,
    Damage,
    damage_of,
    mixture_weights,
)
from pagefeed.reports import replay as steps_again
from pagefeed.reports import trace as trace_rows

ARGUMENTS = RUN | {
    "--weights": arg(bool, "the shares of a mixture's datasets over time"),
    "--step": arg(int, "step of the epoch"),
    "--row": arg(int, "row of its batch; by default all"),
    "--rank": arg(0, "the rank whose batch it is"),
    "--state": arg(str, "what state_dict() returned, as JSON", metavar="FILE"),
    "--document": arg(str, "when it is seen", metavar="FILE:ROW"),
    "--steps": arg(str, "batches to write again", metavar="FIRST:END"),
    "--output": arg(str, "where --steps writes", metavar="FOLDER"),
    "--fields": arg(["input_ids"], "what --steps writes"),
    "--dtype": arg("int64", "type of its tokens"),
    "--padding": arg(0, "token that fills up"),
    **TEXT_TOKENIZER,
}


def run(options: argparse.Namespace) -> int:
    """Trace and report; 1 if something cannot be read."""
    _check(options)
    data, damage = make_sound_dataset(options)
    if damage:
        why = "The order is of all files: nothing can be traced without these."
        return tell(options, {"problem": why}, [why], damage)
    loader = make_loader(options, data)
    if options.state:
        wrong = f"--state {options.state} is no JSON file of what state_dict() returned"
        loader.load_state_dict(read_json(options.state, wrong))
    if options.weights:
        return _trace_weights(loader, options)
    if options.document:
        return _trace_document(loader, options)
    if options.steps:
        return _write_steps(loader, options)
    return _trace_rows(loader, options)


def _check(options: argparse.Namespace) -> None:
    wanted = options.step is not None, options.document, options.weights, options.steps
    chosen = sum(map(bool, wanted))
    if chosen > 1 or not (chosen or options.state):
        names = "--step or --state, --document, --weights, --steps"
        raise InvalidArgumentError(f"give one of {names}")
    if bool(options.steps) != bool(options.output):
        raise InvalidArgumentError("--steps FIRST:END goes with --output FOLDER")


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
    lines = [*table_lines(("from step", *names), rows)]
    listed = [{"step": step, "shares": shares} for step, shares in weights]
    return tell(options, listed, lines)


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


def _write_steps(loader: Loader, options: argparse.Namespace) -> int:
    steps = range_of(options.steps, "--steps FIRST:END, such as 1190:1210")
    folder = Path(checked_output(options.output, None, "--output", buckets=False))
    make_folder(str(folder))
    written: list[str] = []
    damage: list[Damage] = []
    with (
        Work("writing batches", total=len(steps), unit="steps") as work,
        warnings.catch_warnings(action="ignore", category=PaddingWarning),
    ):
        for wanted in steps:
            try:
                for step, batch in steps_again(loader, [wanted]):
                    name = f"step-{step:08d}-rank-{loader.rank}"
                    written.append(str(_write(folder / name, batch)))
            except UNREADABLE as error:
                damage.append(damage_of(error, (wanted,)))
            work.advance()
    lines = [f"{len(written):,} of {len(steps):,} steps written to {folder}"]
    return tell(options, {"files": written}, lines, damage)


def _write(path: Path, batch: Batch) -> Path:
    if all(isinstance(value, np.ndarray | int) for value in batch.values()):
        path = path.with_suffix(".npz")
        np.savez(path, **batch)
        return path
    pyarrow: Any = require("pyarrow", extra="pyarrow", purpose="writing documents")
    parquet: Any = require("pyarrow.parquet", extra="pyarrow", purpose="writing them")
    path = path.with_suffix(".parquet")
    columns = {
        name: list(value) if isinstance(value, np.ndarray) else pyarrow.array(value)
        for name, value in batch.items()
    }
    parquet.write_table(pyarrow.table(columns), path, write_page_checksum=True)
    return path
