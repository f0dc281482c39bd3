"""Checks of loaders: refused settings, warnings, and the steps that errors name.

``options`` is the table of what each kind of source can do. ``watch`` warns of settings
that waste a run. ``failures`` finds the steps that need unreadable data. ``waiting``
tells of a batch that does not come, in the words of ``awaited``.
"""

from pagefeed.checks.failures import BAD_PAGES, explain
from pagefeed.checks.options import check_options, warn_of_texts
from pagefeed.checks.waiting import tell_wait, waits, watch_waits
from pagefeed.checks.watch import Watch

__all__ = [
    "BAD_PAGES",
    "Watch",
    "check_options",
    "explain",
    "tell_wait",
    "waits",
    "warn_of_texts",
    "watch_waits",
]
