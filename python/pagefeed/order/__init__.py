"""The order of an epoch: which unit is delivered at which position, and back.

Pure functions of seed, epoch, dataset name and settings, vectorised, in memory that
does not grow with the dataset:

- :class:`Permutation`: a keyed permutation of [0, n), any n up to 2**63 - 1.
- :class:`Shuffle`: the settings; :func:`choose_num_lanes` and :meth:`Shuffle.delay` fit
  them to a dataset.
- :class:`EpochOrder`: blocks permuted, cut into lanes, mixed in a window.
- :class:`Balance`, :class:`BalancedOrder`: dealt anew, so that ranks cost alike.
"""

from pagefeed._names import name_as_imported
from pagefeed.order.balance import Balance, BalanceLike
from pagefeed.order.balanced_order import NEVER, BalancedOrder, Dealing, Part
from pagefeed.order.epoch_order import EpochOrder
from pagefeed.order.grown_order import GrownOrder
from pagefeed.order.keys import ORDER_VERSION, KeyPart, derive_key
from pagefeed.order.lanes import NODE_BYTES, Lanes, choose_num_lanes
from pagefeed.order.ordered import Balancing, Costs, Ordered
from pagefeed.order.permutation import Permutation
from pagefeed.order.shuffle import Shuffle, ShuffleBlock, ShuffleLike
from pagefeed.order.small_order import SmallOrder
from pagefeed.sequences import Blocks, ExplicitBlocks

__all__ = [
    "NEVER",
    "NODE_BYTES",
    "ORDER_VERSION",
    "Balance",
    "BalanceLike",
    "BalancedOrder",
    "Balancing",
    "Blocks",
    "Costs",
    "Dealing",
    "EpochOrder",
    "ExplicitBlocks",
    "GrownOrder",
    "KeyPart",
    "Lanes",
    "Ordered",
    "Part",
    "Permutation",
    "Shuffle",
    "ShuffleBlock",
    "ShuffleLike",
    "SmallOrder",
    "choose_num_lanes",
    "derive_key",
]

name_as_imported(__name__)
