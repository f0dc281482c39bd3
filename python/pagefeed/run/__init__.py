"""What is delivered at which position: one dataset or a mixture, from a state on.

The route of a rank turns steps into positions, a source of sequences turns positions
into sequences, and a state of a few integers says where it all stands.
"""

from pagefeed.run.damage import joined_ranges_of
from pagefeed.run.epochs import EpochSource
from pagefeed.run.mixed import MAX_STATE_BYTES, MixtureSource
from pagefeed.run.mixed_track import MixtureTrack
from pagefeed.run.planner import (
    NO_SEQUENCE,
    BatchPlan,
    Planner,
    plan_batches,
    sequence_of_slot,
)
from pagefeed.run.provenance import Origin
from pagefeed.run.route import NO_POSITION, Ranges, Route, Slot
from pagefeed.run.run import Run
from pagefeed.run.source import SequenceSource, Track
from pagefeed.run.state import MAX_SKIPPED, LoaderState

__all__ = [
    "MAX_SKIPPED",
    "MAX_STATE_BYTES",
    "NO_POSITION",
    "NO_SEQUENCE",
    "BatchPlan",
    "EpochSource",
    "LoaderState",
    "MixtureSource",
    "MixtureTrack",
    "Origin",
    "Planner",
    "Ranges",
    "Route",
    "Run",
    "SequenceSource",
    "Slot",
    "Track",
    "joined_ranges_of",
    "plan_batches",
    "sequence_of_slot",
]
