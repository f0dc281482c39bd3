"""Mixtures of datasets: which dataset comes when, and which unit of it.

- :func:`mix` and :class:`Stage`: what is asked for.
- :class:`Schedule`: the weights of units by position, as a state records them.
- :class:`Course`: position -> (dataset, its local position), and back, pure;
  :class:`CourseInOrder` for datasets in file order.
"""

from pagefeed.mixture.course import LEAST_LANES, Course
from pagefeed.mixture.in_order import CourseInOrder
from pagefeed.mixture.mix import Mixture, Stage, check_weights, mix
from pagefeed.mixture.resolve import Anchor, adopt, resolve, unit_weights
from pagefeed.mixture.schedule import Interval, Part, Schedule, Span
from pagefeed.mixture.tree import Tree

__all__ = [
    "LEAST_LANES",
    "Anchor",
    "Course",
    "CourseInOrder",
    "Interval",
    "Mixture",
    "Part",
    "Schedule",
    "Span",
    "Stage",
    "Tree",
    "adopt",
    "check_weights",
    "mix",
    "resolve",
    "unit_weights",
]
