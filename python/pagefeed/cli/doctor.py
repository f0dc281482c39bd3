"""Find what limits training (data, compute or their overlap), and what to change.

Measures the loader alone, then a step alone on a fixed batch, then both together.
--train FILE.py:NAME is a function that runs one training step on a batch.
--step-seconds simulates a step on an accelerator: it takes that long, and leaves the
processors free. Without either, only the loader is measured. In a script of your own:
`with pagefeed.diagnose(loader) as diagnosis: ...`.

Exits with 0, or with 1 if something cannot be read: it is reported and skipped.

For example:
  pagefeed doctor train.py:make_loader --train train.py:train_step
  pagefeed doctor corpus/ --column input_ids --length 2048 --step-seconds 0.25
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict

from pagefeed.cli.common import (
    RUN,
    arg,
    group,
    make_sound_loader,
    named_function,
    parameters,
    same_named,
    tell,
)
from pagefeed.core.batches import Batch
from pagefeed.reports import doctor as find_limit

STEP = {
    "--train": arg(str, "function that does a step", metavar="FILE.py:NAME"),
    "--step-seconds": arg(float, "time of a step on an accelerator"),
}
ARGUMENTS = RUN | {
    **group(STEP),
    **parameters(find_limit, "seconds accelerators tokens"),
}


def run(options: argparse.Namespace) -> int:
    """Measure and report."""
    loader, damage = make_sound_loader(options)
    given = same_named(options, find_limit) | {"train": _train(options)}
    diagnosis = find_limit(loader, **given)
    damage += diagnosis.damage
    return tell(options, asdict(diagnosis), [str(diagnosis)], damage)


def _train(options: argparse.Namespace) -> Callable[[Batch], object] | None:
    if options.step_seconds is not None:
        return lambda _: time.sleep(options.step_seconds)
    return named_function(options.train, "--train") if options.train else None
