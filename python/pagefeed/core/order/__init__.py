"""The order of an epoch: which unit is delivered at which position, and the inverse.

Pure functions of seed, epoch, dataset name and settings, vectorised, in memory that
does not grow with the dataset:

- :class:`Permutation`: a keyed permutation of [0, n), any n up to 2**63 - 1.
- :class:`Shuffle`: the settings; :func:`choose_num_lanes` and :meth:`Shuffle.delay` fit
  them to a dataset.
- :class:`EpochOrder`: blocks permuted, cut into lanes, mixed in a window.
- :class:`Balance`, :class:`BalancedOrder`: reordered so that ranks cost about the same.
"""

from pagefeed.core.order.draws import Draw, Drawing, make_generator
from pagefeed.core.order.epoch_order import (
    Costs,
    EpochOrder,
    Ordered,
)
from pagefeed.core.order.keys import (
    ORDER_VERSION,
    KeyPart,
    derive_key,
    expand_key,
    hash64,
)
from pagefeed.core.order.lanes import NODE_BYTES, Lanes, choose_num_lanes
from pagefeed.core.order.permutation import Permutation
from pagefeed.core.order.shuffle import (
    FINAL_KINDS,
    KINDS,
    BlockShuffle,
    Shuffle,
    ShuffleBlock,
    ShuffleKind,
    ShuffleLike,
)

__all__ = [
    "FINAL_KINDS",
    "KINDS",
    "NODE_BYTES",
    "ORDER_VERSION",
    "BlockShuffle",
    "Costs",
    "Draw",
    "Drawing",
    "EpochOrder",
    "KeyPart",
    "Lanes",
    "Ordered",
    "Permutation",
    "Shuffle",
    "ShuffleBlock",
    "ShuffleKind",
    "ShuffleLike",
    "choose_num_lanes",
    "derive_key",
    "expand_key",
    "hash64",
    "make_generator",
]
