"""Batches of some steps of a run, in the form that checks need."""

from __future__ import annotations

import copy
import hashlib
import resource
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Work, require
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.reports.soundness import Damage, sound_batches

KEPT_BATCHES = 8

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(kw_only=True)
class Observation:
    """Batches of some steps of one rank."""

    digests: list[str] = field(default_factory=list)
    """Digest of each batch."""
    batches: list[Arrays] = field(default_factory=list)
    """The first batches."""
    num_tokens: int = 0
    """Tokens without padding."""
    least: int = 0
    """Least token id."""
    greatest: int = 0
    """Greatest token id."""
    not_finite: list[str] = field(default_factory=list)
    """Names of fields with NaN or infinity."""
    state: dict[str, Any] | None = None
    """The state in the middle."""
    rest: list[str] = field(default_factory=list)
    """Digests of the batches that followed it."""
    rss_growth: int = 0
    """Bytes by which the process's peak of memory rose."""
    stats: dict[str, float] = field(default_factory=dict)
    """Counters of the loader."""
    damage: list[Damage] = field(default_factory=list)
    """Parts of the data that could not be read."""


def observe(loader: Loader, steps: int, what: str) -> Observation:
    """Take batches of a copy of the loader, from its present position."""
    twin, seen = copy.copy(loader), Observation()
    least, greatest = [], []
    before = _peak_bytes()
    with Work(what, total=steps, unit="steps") as work:
        for batch in sound_batches(twin, seen.damage, most=steps):
            arrays = arrays_of(batch)
            seen.digests.append(_digest(arrays))
            if len(seen.batches) < KEPT_BATCHES:
                seen.batches.append(
                    {name: array.copy() for name, array in arrays.items()}
                )
            tokens = arrays["input_ids"]
            least.append(int(tokens.min(initial=0)))
            greatest.append(int(tokens.max(initial=0)))
            seen.not_finite += [
                name
                for name, array in arrays.items()
                if array.dtype.kind == "f" and not np.isfinite(array).all()
            ]
            if len(seen.digests) == max(1, steps // 2):
                seen.state = twin.state_dict()
            work.advance()
    seen.rss_growth = _peak_bytes() - before
    seen.rest = seen.digests[max(1, steps // 2) :]
    seen.stats = twin.stats()
    seen.num_tokens = int(seen.stats["tokens"] - seen.stats["padding_tokens"])
    seen.least, seen.greatest = min(least, default=0), max(greatest, default=0)
    return seen


def arrays_of(batch: Batch) -> Arrays:
    """Return the fields of a batch that are arrays or tensors, as arrays."""
    arrays: Arrays = {}
    for name, value in batch.items():
        if hasattr(value, "detach"):  # A tensor of any type and place.
            torch: Any = require("torch", extra="torch", purpose="tensors")
            tensor = value.detach().cpu()
            if tensor.dtype == torch.bfloat16:
                tensor = tensor.float()
            arrays[name] = tensor.numpy()
        elif isinstance(value, np.ndarray):
            arrays[name] = value
    return arrays


def _digest(arrays: Arrays) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts KiB.
