"""Balance: sequences dealt to ranks so that all cost about the same."""

from pagefeed.balance.balance import Balance, BalanceLike
from pagefeed.balance.balanced_order import NEVER, BalancedOrder, Dealing, Division
from pagefeed.balance.costs import SequenceCosts

__all__ = [
    "NEVER",
    "Balance",
    "BalanceLike",
    "BalancedOrder",
    "Dealing",
    "Division",
    "SequenceCosts",
]
