"""What would train on the wrong data without a word is refused, with what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType

from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import Ranks
from pagefeed.loader import Loader

__all__ = [
    "check_fields",
    "check_ranks_of",
    "check_rows",
    "check_torch",
    "refuse_second_sharding",
]

MOST_FRAMES = 12
"""Callers that are looked at."""

USE_PREPARE = (
    "do not prepare() this DataLoader: loader = "
    "pagefeed.integrations.accelerate.prepare(accelerator, loader)"
)
SHARDING = {
    ("accelerate.data_loader", "DataLoaderDispatcher"): (
        "Accelerate reads rank 0 alone and hands parts of that to the others",
        USE_PREPARE,
    ),
    ("accelerate.data_loader", "IterableDatasetShard"): (
        "Accelerate keeps one of world_size samples of each rank's own",
        USE_PREPARE,
    ),
    ("transformers.trainer_pt_utils", "IterableDatasetShard"): (
        "the Trainer keeps one of world_size samples of each rank's own",
        "pagefeed.integrations.transformers.attach(trainer, loader)",
    ),
}
"""Who shards what it reads, by module and class: what that does, what to do instead."""


def check_torch(loader: Loader, who: str) -> None:
    """Refuse arrays where only tensors are moved to the device.

    Raises:
        InvalidArgumentError: Then.
    """
    if loader.format != "torch":
        raise InvalidArgumentError(
            f"{who} moves tensors only, and leaves NumPy arrays behind: give the "
            "Loader format='torch'"
        )


def check_fields(loader: Loader, names: Iterable[str], who: str) -> None:
    """Refuse a loader whose batches lack what is needed.

    Raises:
        InvalidArgumentError: Then.
    """
    have = loader.fields.names
    missing = [name for name in names if name not in have]
    if missing:
        raise InvalidArgumentError(
            f"{who} needs {', '.join(missing)}, the batches have {', '.join(have)}: "
            f"give the Loader fields={(*have, *missing)!r}"
        )


def check_ranks_of(loader: Loader, expected: Ranks, who: str) -> None:
    """Refuse a loader of another rank than the trainer's.

    Raises:
        InvalidArgumentError: Naming both.
    """
    have = Ranks(loader.rank, loader.world_size)
    if have != expected:
        raise InvalidArgumentError(
            f"{who} trains as data-parallel rank {expected.rank} of "
            f"{expected.world_size}, the loader feeds rank {have.rank} of "
            f"{have.world_size}: give the Loader rank={expected.rank}, "
            f"world_size={expected.world_size}, or make it after the launcher has said "
            "which process this is"
        )


def check_rows(loader: Loader, rows: int | None, setting: str) -> None:
    """Refuse a trainer that believes in another batch size.

    Raises:
        InvalidArgumentError: Naming both.
    """
    if rows is not None and rows != loader.batch_size:
        raise InvalidArgumentError(
            f"{setting} is {rows}, the Loader has batch_size={loader.batch_size}: set "
            "both alike, or steps, learning rates and statistics are wrong"
        )


def refuse_second_sharding(loader: Loader) -> None:
    """Refuse to be read by what shards a rank's own batches once more.

    Called where an adapter begins to iterate; looks at its callers.

    Raises:
        InvalidArgumentError: Naming who shards, and what to do.
    """
    if loader.world_size == 1:
        return
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to the callers
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        for kind in type(frame.f_locals.get("self")).__mro__:
            found = SHARDING.get((kind.__module__, kind.__name__))
            if found is not None:
                raise InvalidArgumentError(
                    f"the loader delivers rank {loader.rank} of {loader.world_size} "
                    f"already, and {kind.__name__} would shard that again: {found[0]}. "
                    f"Instead: {found[1]}"
                )
        frame = frame.f_back
