"""What is delivered at which position: one dataset or a mixture, from a state on.

A :class:`Run` turns positions into sequences. A :class:`Cursor` is a place of it: a
state of a few integers, the route of a rank from there, and the sequences ahead.
"""

from pagefeed._names import name_as_imported
from pagefeed.run.dataset_run import DatasetCursor, DatasetRun
from pagefeed.run.grown_run import GrownRun
from pagefeed.run.mixture_parts import MAX_STATE_BYTES
from pagefeed.run.mixture_run import MixtureCursor, MixtureRun
from pagefeed.run.mixture_totals import (
    DatasetTotals,
    last_position,
    totals,
    totals_as_text,
)
from pagefeed.run.provenance import Origin
from pagefeed.run.route import NO_POSITION, Ranges, Route, Slot, joined_ranges_of
from pagefeed.run.run import NO_SEQUENCE, Cursor, Run
from pagefeed.run.state import MAX_SKIPPED, LoaderState
from pagefeed.run.state_checks import check_same_run, reading_state

__all__ = [
    "MAX_SKIPPED",
    "MAX_STATE_BYTES",
    "NO_POSITION",
    "NO_SEQUENCE",
    "Cursor",
    "DatasetCursor",
    "DatasetRun",
    "DatasetTotals",
    "GrownRun",
    "LoaderState",
    "MixtureCursor",
    "MixtureRun",
    "Origin",
    "Ranges",
    "Route",
    "Run",
    "Slot",
    "check_same_run",
    "joined_ranges_of",
    "last_position",
    "reading_state",
    "totals",
    "totals_as_text",
]

name_as_imported(__name__)
