"""The settings of a loader, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pagefeed.core._base import check_positive
from pagefeed.core.batches.fields import Fields
from pagefeed.core.batches.formats import Format
from pagefeed.core.dataset import Source
from pagefeed.core.order import Shuffle
from pagefeed.core.sequences import Cut
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.balance import Balance
    from pagefeed.context_parallel import ContextParallel
    from pagefeed.core.batches.lengths import Lengths
    from pagefeed.documents import Decode
    from pagefeed.elastic import Fleet

GlobalBatchSize: TypeAlias = int | Sequence[tuple[int, int]] | None
"""Sequences of a step on all ranks, or stages: the first step of each, and its size."""

PLAN_SHARE = 8
"""Plans take at most one part in this many of the memory."""

ORDER_SHARE = 16
"""Orders that are read ahead take at most one part in this many of the memory."""

MAX_ORDER_BYTES = 32 << 20
"""And no more than is of any use."""


@dataclass(frozen=True, kw_only=True)
class LoaderSettings:
    """The arguments of a loader, checked and converted to their final types."""

    dataset: Source
    sequences: Cut
    batch_size: int
    batch_tokens: int | None = None
    seed: int
    shuffle: Shuffle
    balance: Balance | None = None
    context_parallel: ContextParallel | None = None
    memory: int
    format: Format
    dtype: str
    padding: int
    vocab_size: int | None
    fields: Fields
    transform: Callable[..., Any] | None
    decode: Decode | None = None
    pin_memory: bool
    epochs: int | None
    drop_last: bool = True
    rank: int
    world_size: int
    num_threads: int
    warn_after: float | None = None
    """Seconds of a wait after which the log tells of it; None for never."""
    uses_recorded: bool = True
    """Whether token ids are checked against the vocabulary recorded in the files."""
    dealing_bytes: int = 0
    """Bytes in which sequences are dealt to balance ranks, of the memory."""
    rehearses: bool = False
    """Whether the engine reads nothing, and counts what it would read and hold."""
    fleet: Fleet | None = None
    """Deals steps of a fixed size to any number of ranks; ``batch_size`` follows."""
    lengths: Lengths | None = None
    """Lengths of the rows of steps, if they change."""

    def __post_init__(self) -> None:
        """Set the rows of this rank's batch where ``global_batch_size`` is shared."""
        if self.fleet is not None:
            placed = self.fleet.placed(self.rank, self.world_size)
            object.__setattr__(self, "batch_size", placed.batch_size)

    @property
    def global_batch_size(self) -> GlobalBatchSize:
        """Sequences of a step on all ranks, if that was asked for."""
        return None if self.fleet is None else self.fleet.asked

    @property
    def rehearsal(self) -> dict[str, Any]:
        """The engine's setting of a rehearsal, if it is one."""
        return {"rehearses": True} if self.rehearses else {}

    @property
    def tells_epochs(self) -> bool:
        """Whether sequences carry their epoch, as random numbers depend on it."""
        decode_draws = self.decode is not None and self.decode.draws
        return decode_draws or any(d.draws for d in self.dataset.parts.values())

    @property
    def plan_bytes(self) -> int:
        """Bytes that plans may take."""
        return self.memory // PLAN_SHARE

    @property
    def order_bytes(self) -> int:
        """Bytes that orders may read ahead."""
        return min(MAX_ORDER_BYTES, self.memory // ORDER_SHARE)

    @property
    def engine_bytes(self) -> int:
        """Bytes that the engine may hold."""
        return self.memory - self.order_bytes - self.dealing_bytes


def lengths_of(asked: Sequence[tuple[int, int]] | None, cut: Cut) -> Lengths | None:
    """Return the lengths of the rows of steps, or None if they do not change.

    Raises:
        InvalidArgumentError: If they do not fit the cut.
    """
    if asked is None:
        return None
    from pagefeed.core.batches.lengths import Lengths  # Few runs have some.

    return Lengths.parse(asked, cut)


def sized(
    sequences: Cut,
    batch_size: int | None,
    batch_tokens: int | None,
    global_batch_size: GlobalBatchSize = None,
) -> tuple[Cut, int]:
    """Return the cut, and the number of sequences in a batch.

    Args:
        sequences: The cut, as the user gave it.
        batch_size: Sequences of a batch.
        batch_tokens: Alternatively, most tokens of a batch.
        global_batch_size: Alternatively, sequences of a step on all ranks; the share of
            this rank is not known yet. Together with ``batch_tokens``, batches of a
            step.

    Raises:
        InvalidArgumentError: If not exactly one size is given, or no sequence fits.

    Example:
        >>> from pagefeed import Windows
        >>> sized(Windows(2048), None, 10_000)
        (Windows(length=2048, tail='pad'), 4)
    """
    sizes = {
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "global_batch_size": global_batch_size,
    }
    given = [f"{name}={size!r}" for name, size in sizes.items() if size is not None]
    if given and batch_size is None and len(given) == 2:
        return _shared(sequences, batch_tokens, global_batch_size), 0
    if len(given) != 1:
        raise InvalidArgumentError(
            "Give exactly one of batch_size (sequences per rank), batch_tokens (most "
            "tokens per rank) or global_batch_size (sequences per step, all ranks). "
            f"Found {' and '.join(given) or 'none of them'}"
        )
    if global_batch_size is not None:
        return sequences, 0
    if batch_tokens is None:
        return sequences, check_positive(batch_size, "batch_size")
    return sequences.with_budget(check_positive(batch_tokens, "batch_tokens"))


def _shared(
    sequences: Cut, batch_tokens: object, global_batch_size: GlobalBatchSize
) -> Cut:
    """Return the cut into batches of ``batch_tokens``, several of which make a step."""
    cut, rows = sequences.with_budget(check_positive(batch_tokens, "batch_tokens"))
    if cut.takes_batches:
        return cut
    size = f"{global_batch_size} times {rows}"
    if isinstance(global_batch_size, int):
        size = f"{global_batch_size * rows}"
    raise InvalidArgumentError(
        f"batch_tokens={batch_tokens} and global_batch_size={global_batch_size!r:.60} "
        f"together do not go with {sequences!r:.60}. For Windows and Packed, pass only "
        f"global_batch_size={size}. Documents need a max_length, and pad=None or "
        "'max_length'"
    )
