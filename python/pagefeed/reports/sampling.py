"""Input of reports: a loader with counted sequences, samples of it, a digest."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError

SAMPLED_STEPS = 3


def check_counted(loader: object, who: str) -> None:
    """Raise unless ``loader`` is a :class:`pagefeed.Loader`.

    Args:
        loader: What the report was given.
        who: Name of the report.

    Raises:
        InvalidArgumentError: Saying what to give.
    """
    if not isinstance(loader, Loader):
        raise InvalidArgumentError(
            f"{who} takes a pagefeed.Loader, found {loader!r:.60}. For texts that a "
            "TextLoader feeds, make a Loader of dataset.tokenize(tokenizer)"
        )


def evenly(count: int, most: int) -> Int64Array:
    """Return ``most`` evenly spaced numbers below ``count``; all, if there are fewer.

    Returns:
        int64 [numbers], rising, the first and the last among them.

    Example:
        >>> evenly(10, 4), evenly(2, 4), evenly(0, 4)
        (array([0, 3, 6, 9]), array([0, 1]), array([], dtype=int64))
    """
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def plan_digest(loader: Loader) -> str:
    """Return a digest of 16 hexadecimal digits, equal on every rank of one run.

    It covers the dataset, the cut, the order, seed, sizes and batches, and what some
    steps hold on all ranks together.

    Example:
        >>> len(plan_digest(loader))
        16
    """
    check_counted(loader, "plan_digest")
    run = loader.view().run
    state = run.beginning(loader.epoch).to_dict()
    facts = [
        state,
        [loader.batch_size, loader.world_size, loader.epochs, loader.drop_last],
        [loader.dtype, loader.padding, loader.vocab_size, loader.fields.settings],
    ]
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8)
    for step in sampled_steps(loader):
        digest.update(np.sort(sequences_of_step(loader, step)).tobytes())
    return digest.hexdigest()


def sampled_steps(loader: Loader) -> list[int]:
    """Return a sample of steps of the epoch, equal on every rank."""
    run = loader.view().run
    steps = run.at(run.beginning(loader.epoch)).route.num_steps
    most = 1 << 16 if steps is None else steps
    return sorted({0, most // 2, max(0, most - 2)})[:SAMPLED_STEPS]


def sequences_of_step(loader: Loader, step: int, *, alone: bool = False) -> Int64Array:
    """Return the sequences of a step of the epoch, of all ranks or of this one alone.

    Returns:
        int64 [sequences]; without rows of padding.
    """
    run = loader.view().run
    begin = run.beginning(loader.epoch)
    ranks = [loader.rank] if alone else range(loader.world_size)
    by_rank = [run.at(begin, rank=rank).sequences(step, 1) for rank in ranks]
    joined = np.concatenate(by_rank)
    return joined[joined >= 0]
