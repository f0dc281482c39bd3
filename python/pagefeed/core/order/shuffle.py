"""Settings of shuffling, and their values for one dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

from pagefeed.core._base import check_whole, near_name, parse_bytes
from pagefeed.core.dataset import BlockKind
from pagefeed.core.order.lanes import NODE_BYTES
from pagefeed.errors import InvalidArgumentError

BlockShuffle: TypeAlias = Literal["page", "row_group", "auto"]
"""Kinds of shuffle that permute blocks."""
ShuffleBlock: TypeAlias = Literal[BlockShuffle, "row", "buffer"]
"""Kinds of shuffle by name; None is file order."""


class ShuffleKind(NamedTuple):
    """Properties of a kind of shuffle."""

    mixes: Literal["blocks", "units", "window", "nothing"]
    """Blocks or units over the whole dataset, or units in a window alone."""
    words: str
    """The order in words, for users."""
    unit: BlockKind = "page"
    """Unit of a block."""

    @property
    def has_window(self) -> bool:
        """Whether units are mixed in a window."""
        return self.mixes in ("blocks", "window")


KINDS: dict[ShuffleBlock | None, ShuffleKind] = {
    "page": ShuffleKind("blocks", "a good shuffle at sequential speed"),
    "row_group": ShuffleKind("blocks", "larger reads, less mixing", "row_group"),
    "auto": ShuffleKind("blocks", "the better one for how files are written"),
    "row": ShuffleKind("units", "an exact shuffle, one page per unit"),
    "buffer": ShuffleKind("window", "the usual streaming shuffle buffer"),
    None: ShuffleKind("nothing", "file order"),
}
"""All kinds of shuffle. Checks, verbs and reports take theirs from this table."""
FINAL_KINDS = tuple(kind for kind in KINDS if kind != "auto")
"""Kinds of shuffle that a run can have: a loader replaces ``"auto"``."""
MAX_DELAY = 1 << 28  # units per lane: beyond, sorting a window would take gigabytes


ShuffleLike: TypeAlias = "Shuffle | ShuffleBlock | bool | None"
"""Values that a loader accepts as ``shuffle``."""


class NodeParts(Protocol):
    """Interface of the parts of nodes; :class:`Nodes` implements it."""

    @property
    def count(self) -> int:
        """Number of nodes."""

    @property
    def ranks(self) -> int:
        """Ranks of each node."""

    @property
    def world_size(self) -> int:
        """Ranks of all nodes."""

    def order(self, blocks: Any, first: int, make: Callable[[Any, int], Any]) -> Any:
        """Return the order of an epoch, see :meth:`Nodes.order`."""


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Settings of shuffling: what is permuted, how far units mix, passes per block.

    ============= ================= ======== ========================================
    block         permuted          window   what it is
    ============= ================= ======== ========================================
    "page"        pages             yes      a good shuffle at sequential speed
    "row_group"   row groups        yes      larger reads, less mixing
    "auto"        pages, row groups yes      the better one for how files are written
    "row"         units             no       an exact shuffle, one page per unit
    "buffer"      nothing           yes      the usual streaming shuffle buffer
    None          nothing           no       file order
    ============= ================= ======== ========================================

    If the window holds a whole epoch, all of these except None act as ``"row"``. The
    units inside a block are always permuted.

    Args:
        block: The units that are permuted over the whole dataset. Row groups larger
            than 256 MiB are permuted page by page.
        window: How far units are mixed, over all lanes together: units (int), decoded
            bytes (``"256MiB"``), or ``"auto"``. ``"row"`` and None have no window and
            accept only ``"auto"``. With 0 or 1, units leave a lane in the order of its
            blocks; lanes still take turns, so a batch has units of many blocks. For
            ``"buffer"``, a loader refuses a window of less than two units per lane.
        passes: How often a block is read in an epoch, each time for another share of
            its units. More passes read more, and put fewer units of one page near each
            other.
        nodes: ``pagefeed.Nodes(count, ranks)``: each node then reads a part of the
            files. By default all nodes read all files.

    Raises:
        InvalidArgumentError: A setting is unknown, or two do not fit together.

    Example:
        >>> Shuffle(window="64MiB", passes=2)
        Shuffle(block='page', window='64MiB', passes=2)
    """

    block: ShuffleBlock | None = "page"
    window: int | str = "auto"
    passes: int = 1
    nodes: NodeParts | None = None

    def __post_init__(self) -> None:
        """Check the settings, alone and together."""
        if not isinstance(self.block, str | None) or self.block not in KINDS:
            raise InvalidArgumentError(
                f"unknown shuffle {self.block!r}: expected one of {list_kinds(KINDS)}"
                f"{near_name(str(self.block), [*filter(None, KINDS)])}"
            )
        _window_amount(self.window)
        if not self.delayed and self.window != "auto":
            raise InvalidArgumentError(
                f"shuffle {self.block!r} has no window, found window={self.window!r}: "
                "leave it out, or choose one of "
                + list_kinds(kind for kind in KINDS if KINDS[kind].has_window)
            )
        object.__setattr__(self, "passes", check_whole(self.passes, "passes"))
        if self.passes < 1 or (self.passes > 1 and not self.in_blocks):
            raise InvalidArgumentError(
                f"passes={self.passes} does not fit shuffle {self.block!r}: give 1, or "
                f"more with one of {list_kinds(get_args(BlockShuffle))}"
            )

        if not hasattr(self.nodes, "order") and self.nodes is not None:
            raise InvalidArgumentError(
                f"nodes={self.nodes!r:.60} must be pagefeed.Nodes(count, ranks)"
            )

    def __repr__(self) -> str:
        nodes = f", nodes={self.nodes}" * (self.nodes is not None)
        return (
            f"Shuffle(block={self.block!r}, window={self.window!r}, "
            f"passes={self.passes}{nodes})"
        )

    @classmethod
    def parse(cls, value: ShuffleLike) -> Shuffle:
        """Return a :class:`Shuffle` from itself or the name of its block.

        True means the default; None and False mean file order.

        Example:
            >>> Shuffle.parse("row")
            Shuffle(block='row', window='auto', passes=1)
        """
        if isinstance(value, Shuffle):
            return value
        if isinstance(value, bool):  # As torch's DataLoader has it.
            return cls() if value else cls(block=None)
        if value is not None and not isinstance(value, str):
            raise InvalidArgumentError(
                f"shuffle is a Shuffle or one of {list_kinds(KINDS)}, found {value!r}"
            )
        return cls(block=value)

    @property
    def identity(self) -> str:
        """Text that identifies the order in states.

        Settings at their default are left out.
        """
        settings = [repr(self.block)]
        if self.window != "auto":
            amount, in_bytes = _window_amount(self.window)
            settings.append(f"window={amount}{' bytes' if in_bytes else ''}")
        if self.passes != 1:
            settings.append(f"passes={self.passes}")
        if self.nodes is not None:
            settings.append(f"nodes={self.nodes.count}x{self.nodes.ranks}")
        return f"Shuffle({', '.join(settings)})"

    @property
    def _kind(self) -> ShuffleKind:
        return KINDS[self.block]

    @property
    def unit(self) -> BlockKind:
        """Unit of a block, also in file order."""
        return self._kind.unit

    @property
    def is_exact(self) -> bool:
        """Whether each order of an epoch is as likely as any other."""
        return self._kind.mixes == "units"

    @property
    def in_blocks(self) -> bool:
        """Whether whole blocks are permuted."""
        return self._kind.mixes == "blocks"

    @property
    def permuted(self) -> bool:
        """Whether anything is permuted over the whole dataset."""
        return self._kind.mixes in ("blocks", "units")

    @property
    def in_order(self) -> bool:
        """Whether units stay in file order."""
        return self._kind.mixes == "nothing"

    @property
    def delayed(self) -> bool:
        """Whether units are mixed in a window."""
        return self._kind.has_window

    def of_epoch(
        self, *, num_units: int, unit_bytes: float, auto_bytes: int = NODE_BYTES
    ) -> Shuffle:
        """Return the shuffle of an epoch: ``"row"`` if the window holds the epoch.

        Args:
            num_units: Units of the epoch.
            unit_bytes: Mean decoded size of a unit.
            auto_bytes: Decoded bytes that the window ``"auto"`` holds.

        Example:
            >>> Shuffle().of_epoch(num_units=1000, unit_bytes=4096)
            Shuffle(block='row', window='auto', passes=1)
        """
        if self.delayed and self._units(unit_bytes, auto_bytes) >= num_units:
            return Shuffle(block="row")
        return self

    def delay(
        self, *, num_units: int, num_blocks: int, unit_bytes: float, num_lanes: int
    ) -> int:
        """Resolve the window to the longest delay inside one lane, in units.

        ``"auto"`` is 256 MiB of decoded units, but per lane at least the mean number of
        units in a block, and at most a quarter of the lane.

        Args:
            num_units: Units of an epoch.
            num_blocks: Blocks they lie in.
            unit_bytes: Mean decoded size of a unit.
            num_lanes: Lanes that share the window.

        Returns:
            The delay, at least 1 (which moves nothing), at most the length of a lane.

        Raises:
            InvalidArgumentError: The window is too long to be sorted.
        """
        if not self.delayed or num_units == 0:
            return 1
        lane = -(-num_units // num_lanes)
        delay = self._units(unit_bytes) // num_lanes
        if self.window == "auto":
            delay = max(delay, -(-num_units // max(num_blocks, 1)))
            delay = min(delay, lane // 4, MAX_DELAY)
        delay = max(min(delay, lane), 1)
        if delay > MAX_DELAY:
            raise InvalidArgumentError(
                f"window {self.window!r} is {delay} units in each of {num_lanes} "
                f"lanes; at most {MAX_DELAY} can be mixed: choose a smaller window"
            )
        return delay

    def _units(self, unit_bytes: float, auto_bytes: int = NODE_BYTES) -> int:
        """Return how many units of this mean size the window holds."""
        amount, in_bytes = _window_amount(self.window)
        if self.window == "auto":
            amount = auto_bytes
        return int(amount / max(unit_bytes, 1.0)) if in_bytes else amount


def list_kinds(kinds: Iterable[ShuffleBlock | None]) -> str:
    """Return kinds of shuffle as text for a message."""
    return ", ".join(map(repr, kinds))


def _window_amount(window: int | str) -> tuple[int, bool]:
    """Read a window as (amount, whether it is in bytes)."""
    if window == "auto":
        return NODE_BYTES, True
    if isinstance(window, str):
        return parse_bytes(window, name="window"), True
    try:
        return check_whole(window, "window", least=0), False
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"window={window!r} must be a number of units, a size such as '256MiB', "
            "or 'auto'"
        ) from None
