"""Mixtures: which dataset, and which of its sequences, is at each position.

- :func:`mix` and :class:`Stage`: what is asked for.
- :class:`Schedule`: the weights of sequences by position, as a state records them.
- :class:`Course`: position -> (dataset, its local position), and back, pure;
  :class:`CourseInOrder` for datasets in file order.
- :class:`MixtureRun`: what a loader of a mixture delivers.
"""

from pagefeed._names import name_as_imported
from pagefeed.mixture.component import Component, Former
from pagefeed.mixture.course import LEAST_LANES, Course
from pagefeed.mixture.course_in_order import CourseInOrder
from pagefeed.mixture.divisions import MixtureDivisions
from pagefeed.mixture.grown_mixture import GrownMixtureRun, rest_of_mixture
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
from pagefeed.mixture.packed_changes import WeightChange
from pagefeed.mixture.resolution import Anchor, adopt, resolve, sequence_weights
from pagefeed.mixture.schedule import Interval, Schedule
from pagefeed.mixture.state_part import CUTS, MIXTURE
from pagefeed.mixture.tree import Tree

__all__ = [
    "CUTS",
    "LEAST_LANES",
    "MIXTURE",
    "Anchor",
    "Component",
    "Course",
    "CourseInOrder",
    "DatasetTotals",
    "Former",
    "GrownMixtureRun",
    "Interval",
    "Mixture",
    "MixtureCursor",
    "MixtureDivisions",
    "MixtureRun",
    "Schedule",
    "Stage",
    "Tree",
    "WeightChange",
    "adopt",
    "check_names",
    "check_tokenizers",
    "check_weights",
    "last_position",
    "mix",
    "resolve",
    "rest_of_mixture",
    "sequence_weights",
    "totals",
    "totals_as_text",
]

name_as_imported(__name__)
