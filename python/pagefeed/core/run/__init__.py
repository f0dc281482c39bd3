"""Runs: which sequence of one dataset or a mixture is at which position.

A :class:`Run` turns positions into sequences. A :class:`Cursor` is a position in a run:
a state of a few integers, the route of a rank from there, and the coming sequences.
"""

from pagefeed.core.run.dataset_order import DatasetOrder
from pagefeed.core.run.dataset_run import DatasetCursor, DatasetRun, check_bound
from pagefeed.core.run.delivered import NO_SEQUENCE, Sequences, gathered, joined
from pagefeed.core.run.provenance import Origin, sequences_of_document
from pagefeed.core.run.route import (
    MAX_HORIZON,
    NO_POSITION,
    Ranges,
    Route,
    RunPosition,
    Slot,
    Step,
    StepIndex,
    merge_ranges,
)
from pagefeed.core.run.run import Cursor, Positions, Run, SequencesOf
from pagefeed.core.run.state import MIXED, Grown, LoaderState, check_grown
from pagefeed.core.run.state_parts import (
    MAX_STATE_BYTES,
    MOST_RANGES,
    StatePart,
    check_same_run,
    reading_state,
)

__all__ = [
    "MAX_HORIZON",
    "MAX_STATE_BYTES",
    "MIXED",
    "MOST_RANGES",
    "NO_POSITION",
    "NO_SEQUENCE",
    "Cursor",
    "DatasetCursor",
    "DatasetOrder",
    "DatasetRun",
    "Grown",
    "LoaderState",
    "Origin",
    "Positions",
    "Ranges",
    "Route",
    "Run",
    "RunPosition",
    "Sequences",
    "SequencesOf",
    "Slot",
    "StatePart",
    "Step",
    "StepIndex",
    "check_bound",
    "check_grown",
    "check_same_run",
    "gathered",
    "joined",
    "merge_ranges",
    "reading_state",
    "sequences_of_document",
]
