"""Mixtures: which dataset, and which of its sequences, comes at each position.

- :func:`mix` and :class:`Stage`: the mixture as the user specifies it.
- :func:`curriculum`: stages that go from easy rows to hard ones.
- :class:`Schedule`: the weights of sequences by position, as a state records them.
- :class:`Course`: a pure function from positions to (dataset, its local position), and
  its inverse; :class:`CourseInOrder` for datasets in file order.
- :class:`MixtureRun`: the run of a loader of a mixture.
"""

from pagefeed.mixture.chain import Chain
from pagefeed.mixture.component import Component, Former
from pagefeed.mixture.course import LEAST_LANES, Course, CourseInOrder
from pagefeed.mixture.divisions import MixtureDivisions
from pagefeed.mixture.mixture import (
    Mixture,
    Stage,
    check_names,
    check_tokenizers,
    check_weights,
    mix,
)
from pagefeed.mixture.mixture_run import MixtureCursor, MixtureRun
from pagefeed.mixture.mixture_totals import (
    DatasetTotals,
    last_position,
    totals,
    totals_as_text,
)
from pagefeed.mixture.pacing import curriculum
from pagefeed.mixture.resolution import Anchor, adopt, resolve, sequence_weights
from pagefeed.mixture.schedule import Interval, Schedule, WeightChange, rounded
from pagefeed.mixture.state_part import CUTS, MIXTURE, schedule_of

__all__ = [
    "CUTS",
    "LEAST_LANES",
    "MIXTURE",
    "Anchor",
    "Chain",
    "Component",
    "Course",
    "CourseInOrder",
    "DatasetTotals",
    "Former",
    "Interval",
    "Mixture",
    "MixtureCursor",
    "MixtureDivisions",
    "MixtureRun",
    "Schedule",
    "Stage",
    "WeightChange",
    "adopt",
    "check_names",
    "check_tokenizers",
    "check_weights",
    "curriculum",
    "last_position",
    "mix",
    "resolve",
    "rounded",
    "schedule_of",
    "sequence_weights",
    "totals",
    "totals_as_text",
]
