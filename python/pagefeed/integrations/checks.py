"""What would train on the wrong data without a word is refused, with what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType

from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import Ranks
from pagefeed.loader import Loader

__all__ = [
    "check_ends",
    "check_epochs",
    "check_fields",
    "check_format",
    "check_has",
    "check_loader",
    "check_maker",
    "check_ranks_of",
    "check_readers",
    "check_rows",
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

AHEAD = {
    ("ray.train.torch.train_loop_utils", "_WrappedDataLoader"): (
        "Ray's prepare_data_loader fetches a batch ahead, which no resume would see",
        "iterate over the Loader itself, and move its batches to the device",
    ),
}
"""Who reads further than training is, likewise."""


def check_loader(loader: object, who: str) -> None:
    """Refuse what is no loader.

    Raises:
        InvalidArgumentError: Then.
    """
    if not isinstance(loader, Loader):
        raise InvalidArgumentError(
            f"{who} was given {loader!r:.60}, which is no pagefeed Loader: give it "
            "what pagefeed.Loader(...) returned, without a DataLoader around it"
        )


def check_maker(make: object, name: str) -> None:
    """Refuse what makes no loader for a rank.

    Raises:
        InvalidArgumentError: Then.
    """
    if not callable(make):
        raise InvalidArgumentError(
            f"{name}={make!r:.60} must be a function that makes a Loader: "
            f"{name}=lambda rank, world_size: Loader(..., rank=rank, "
            "world_size=world_size)"
        )


def check_has(runner: object, names: Iterable[str], what: str) -> None:
    """Refuse what a framework cannot have made.

    Args:
        runner: What was given.
        names: Attributes that it must have.
        what: What was expected, and where it comes from.

    Raises:
        InvalidArgumentError: If it lacks one.
    """
    if any(not hasattr(runner, name) for name in names):
        raise InvalidArgumentError(f"found {runner!r:.60}, expected {what}")


def check_format(loader: Loader, expected: str | None, who: str) -> None:
    """Refuse what is no loader, or gives tensors for arrays or the other way round.

    Raises:
        InvalidArgumentError: Then.
    """
    check_loader(loader, who)
    if expected is not None and loader.format != expected:
        what = "tensors" if expected == "torch" else "NumPy arrays"
        raise InvalidArgumentError(
            f"{who} takes {what} alone: give the Loader format={expected!r}"
        )


def check_epochs(loader: Loader, who: str) -> None:
    """Refuse epochs where the framework, or its user's loop, counts them.

    Raises:
        InvalidArgumentError: If an iteration is several epochs.
    """
    if loader.epochs not in (1, None):
        raise InvalidArgumentError(
            f"the Loader has epochs={loader.epochs}, and {who} counts epochs as well: "
            "give the Loader epochs=1 and the number of epochs to the training; or "
            "epochs=None, and train for a number of steps"
        )


def check_ends(loader: Loader, max_steps: int | None, who: str, setting: str) -> None:
    """Refuse a loader without end where nothing else ends the training.

    Args:
        loader: The loader.
        max_steps: Steps after which training ends; None or not positive: there is no
            such number.
        who: The framework.
        setting: What it calls that number.

    Raises:
        InvalidArgumentError: Then.
    """
    if loader.num_steps_left is None and (max_steps is None or max_steps <= 0):
        raise InvalidArgumentError(
            f"the Loader never ends: give {who} {setting}, or the Loader epochs=1"
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


def check_readers(loader: Loader) -> None:
    """Refuse to be read by what shards a rank's own batches once more, or reads ahead.

    Called where an adapter begins to iterate; looks at its callers.

    Raises:
        InvalidArgumentError: Naming who reads, and what to do.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to the callers
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        for kind in type(frame.f_locals.get("self")).__mro__:
            name = kind.__module__, kind.__name__
            if loader.world_size > 1 and name in SHARDING:
                does, instead = SHARDING[name]
                raise InvalidArgumentError(
                    f"the loader delivers rank {loader.rank} of {loader.world_size} "
                    f"already, and {kind.__name__} would shard that again: {does}. "
                    f"Instead: {instead}"
                )
            if name in AHEAD:
                does, instead = AHEAD[name]
                raise InvalidArgumentError(f"{does}. Instead: {instead}")
        frame = frame.f_back
