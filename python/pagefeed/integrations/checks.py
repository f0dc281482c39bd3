"""Checks of adapters: refuse what would silently train on the wrong data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import Ranks

__all__ = [
    "MakeLoader",
    "check_counted",
    "check_ends",
    "check_epochs",
    "check_fields",
    "check_format",
    "check_has",
    "check_loader",
    "check_maker",
    "check_no_context_parallel",
    "check_ranks_of",
    "check_readers",
    "check_rows",
    "check_shapes",
    "check_sizes",
]

MakeLoader = Callable[[int, int], AnyLoader]
"""Function that returns a loader for a rank and a world size."""

MOST_FRAMES = 12
"""Number of callers that :func:`check_readers` looks at."""

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
"""Classes that shard what they read, by module and name: effect, and remedy."""

AHEAD = {
    ("ray.train.torch.train_loop_utils", "_WrappedDataLoader"): (
        "Ray's prepare_data_loader fetches a batch ahead, which no resume would see",
        "iterate over the Loader itself, and move its batches to the device",
    )
}
"""Classes that fetch batches ahead of the training."""


def check_loader(loader: object, who: str) -> None:
    """Raise unless ``loader`` is a loader.

    Raises:
        InvalidArgumentError: If it is not.
    """
    if not isinstance(loader, AnyLoader):
        raise InvalidArgumentError(
            f"{who} was given {loader!r:.60}, which is not a pagefeed Loader: give it "
            "what pagefeed.Loader(...) returned, without a DataLoader around it"
        )


def check_counted(loader: object, who: str) -> None:
    """Raise unless ``loader`` is a loader whose sequences have numbers.

    Raises:
        InvalidArgumentError: If it is not.
    """
    check_loader(loader, who)
    if not isinstance(loader, Loader):
        raise InvalidArgumentError(
            f"{who} goes by numbers of sequences, and those of a "
            f"{type(loader).__name__} have none before they come: count the tokens "
            "once, pagefeed.Loader(dataset.tokenize(tokenizer), ...), ahead by "
            "`pagefeed count`"
        )


def check_maker(make: Any, name: str) -> MakeLoader:
    """Return ``make``; raise unless it is a function that can make a loader.

    Raises:
        InvalidArgumentError: If it is not.
    """
    if not callable(make):
        raise InvalidArgumentError(
            f"{name}={make!r:.60} must be a function that makes a Loader: "
            f"{name}=lambda rank, world_size: Loader(..., rank=rank, "
            "world_size=world_size)"
        )
    return make


def check_has(runner: object, names: Iterable[str], what: str) -> None:
    """Raise unless an object of a framework has the attributes that its kind has.

    Args:
        runner: The object that the user gave.
        names: Attributes that it must have.
        what: The kind that is expected, and how to pass it, for the message.

    Raises:
        InvalidArgumentError: If it lacks one.
    """
    if any(not hasattr(runner, name) for name in names):
        raise InvalidArgumentError(f"found {runner!r:.60}, expected {what}")


def check_format(loader: AnyLoader, expected: str | None, who: str) -> None:
    """Raise unless ``loader`` is a loader whose batches have the expected format.

    Raises:
        InvalidArgumentError: If it is not.
    """
    check_loader(loader, who)
    if expected is not None and loader.format != expected:
        what = "tensors" if expected == "torch" else "NumPy arrays"
        raise InvalidArgumentError(
            f"{who} takes {what} alone: give the Loader format={expected!r}"
        )


def check_epochs(loader: AnyLoader, who: str) -> None:
    """Raise if an iteration has several epochs: the framework or a loop counts them.

    Raises:
        InvalidArgumentError: If an iteration is several epochs.
    """
    if loader.epochs not in (1, None):
        raise InvalidArgumentError(
            f"the Loader has epochs={loader.epochs}, and {who} counts epochs as well: "
            "give the Loader epochs=1 and the number of epochs to the training; or "
            "epochs=None, and train for a number of steps"
        )


def check_ends(
    loader: AnyLoader, max_steps: int | None, who: str, setting: str
) -> None:
    """Raise if neither the loader nor a number of steps ends the training.

    Args:
        loader: The loader.
        max_steps: Steps after which the framework stops; if None or not positive, it
            does not.
        who: Name of the framework.
        setting: Name of that setting.

    Raises:
        InvalidArgumentError: If training would never end.
    """
    if loader.num_steps_left is None and (max_steps is None or max_steps <= 0):
        raise InvalidArgumentError(
            f"the Loader never ends: give {who} {setting}, or the Loader epochs=1"
        )


def check_fields(loader: AnyLoader, names: Iterable[str], who: str) -> None:
    """Raise if the loader's batches lack a field.

    Raises:
        InvalidArgumentError: Naming those that are missing.
    """
    have = loader.fields.names
    missing = [name for name in names if name not in have]
    if missing:
        raise InvalidArgumentError(
            f"{who} needs {', '.join(missing)}, the batches have {', '.join(have)}: "
            f"give the Loader fields={(*have, *missing)!r}"
        )


def check_ranks_of(loader: AnyLoader, expected: Ranks, who: str) -> None:
    """Raise if the loader has a different rank than the trainer.

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


def check_rows(loader: AnyLoader, rows: int | None, setting: str) -> None:
    """Raise if the trainer has a different batch size than the loader.

    Raises:
        InvalidArgumentError: Naming both.
    """
    if rows is None or rows == loader.batch_size:
        return
    if isinstance(loader, Loader) and loader.batch_tokens is not None:
        raise InvalidArgumentError(
            f"{setting} is {rows}, and a step of the Loader with batch_tokens="
            f"{loader.batch_tokens} counts as batch_size={loader.batch_size}, however "
            f"many rows fit into it: set {setting}={loader.batch_size}"
        )
    raise InvalidArgumentError(
        f"{setting} is {rows}, the Loader has batch_size={loader.batch_size}: set "
        "both to the same number; otherwise steps and learning rates are wrong"
    )


def check_no_context_parallel(loader: AnyLoader, who: str, way: str) -> None:
    """Raise if the loader cuts sequences for context parallelism.

    Args:
        loader: The loader.
        who: Name of the framework.
        way: The framework's own way to cut them, for the message.

    Raises:
        InvalidArgumentError: Naming the framework's own way.
    """
    if not isinstance(loader, Loader) or loader.context_parallel is None:
        return
    raise InvalidArgumentError(
        f"{who} takes whole sequences, and {loader.context_parallel!r} cuts them ({way}"
        "): leave context_parallel out of the Loader, with the data-parallel rank that "
        "all ranks of a context-parallel group share"
    )


def check_shapes(loader: AnyLoader, who: str) -> None:
    """Raise unless all batches have one shape.

    Raises:
        InvalidArgumentError: Naming the settings whose batches have one shape.
    """
    has_budget = isinstance(loader, Loader) and loader.batch_tokens is not None
    if has_budget or not hasattr(loader.sequences, "length"):
        raise InvalidArgumentError(
            f"{who} takes sequences of one length, as many in each step, and "
            f"{loader.sequences!r} gives others: give the Loader Windows(length) or "
            "Packed(length), and batch_size= in place of batch_tokens="
        )


def check_sizes(
    before: Mapping[str, int], now: Mapping[str, int], who: str, settings: str
) -> None:
    """Raise if sizes changed since the checkpoint; for trainers that count in steps.

    Args:
        before: Sizes of the run that saved the checkpoint, by name.
        now: Sizes of this run.
        who: The trainer.
        settings: Settings with which this run would end at the same sample.

    Raises:
        InvalidArgumentError: If the sizes differ.
    """
    if before != now:
        raise InvalidArgumentError(
            f"the checkpoint was saved with {_listed(before)}, this run has "
            f"{_listed(now)}: {who} counts epochs in steps, and would end too early or "
            f"too late. Give it {settings}, which is where its last epoch ends"
        )


def _listed(sizes: Mapping[str, int]) -> str:
    listed = [f"{name}={size}" for name, size in sizes.items()]
    return ", ".join(listed) or "several sizes"


def check_readers(loader: AnyLoader) -> None:
    """Raise if a caller would shard this rank's batches again, or read ahead.

    Call it where an iteration begins. It looks at the classes of its callers.

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
