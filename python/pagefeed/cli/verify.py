"""Prove from the index alone that an epoch delivers every sequence exactly once.

--resume STEPS:WORLD_SIZE[:BATCH_SIZE] stops after STEPS and continues on
another number of ranks; it may be given several times.

For example:
  pagefeed verify train.py:make_loader --world-size 8
  pagefeed verify corpus/ --column input_ids --length 2048 --resume 100:6
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pagefeed.cli.common import RUN, make_loader, repeated, tell
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import Leg, verify

ARGUMENTS = RUN | {
    "--resume": repeated("stop, and continue", "STEPS:WORLD_SIZE[:BATCH]"),
}


def run(options: argparse.Namespace) -> int:
    """Verify and report; 1 if anything is wrong."""
    loader = make_loader(options)
    legs = _legs(options.resume, loader)
    result = verify(loader, legs, epoch=loader.epoch)
    return tell(options, asdict(result) | {"ok": result.ok}, [result], ok=result.ok)


def _legs(resumes: list[str], loader: Loader) -> list[Leg]:
    world_size, batch_size = loader.world_size, loader.batch_size
    legs = []
    for resume in resumes:
        try:
            steps, *sizes = [int(field) for field in resume.split(":")]
            next_world_size, next_batch_size = (*sizes, batch_size)[:2]
        except ValueError:
            raise InvalidArgumentError(
                f"--resume {resume} is not STEPS:WORLD_SIZE or "
                "STEPS:WORLD_SIZE:BATCH_SIZE, such as 100:6"
            ) from None
        legs.append(Leg(world_size=world_size, batch_size=batch_size, steps=steps))
        world_size, batch_size = next_world_size, next_batch_size
    return [*legs, Leg(world_size=world_size, batch_size=batch_size)]
