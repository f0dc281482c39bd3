"""What a loader refuses and warns of, and what its errors say of the steps ahead.

``options`` is the table of what each kind of source can do. ``watch`` warns of what a
run will regret. ``failures`` finds the steps that need data that cannot be read.
"""

from pagefeed.checks.failures import explain
from pagefeed.checks.options import check_options
from pagefeed.checks.watch import Watch

__all__ = ["Watch", "check_options", "explain"]
