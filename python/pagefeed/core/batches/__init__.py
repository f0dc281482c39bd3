"""Batches: plans for the engine, and its buffers as arrays or tensors.

This layer holds the feeds of tokens and of rows, their fields and formats, the engine
of a process, and the iteration that plans batches ahead of the consumer.
"""

from pagefeed.core.batches.engines import Locked, ProcessEngine
from pagefeed.core.batches.feeds import (
    ColumnsBeside,
    EngineFeed,
    Feed,
)
from pagefeed.core.batches.fields import FieldName, Fields
from pagefeed.core.batches.formats import (
    Batch,
    DType,
    Format,
    check_padding,
    converted,
    make_converter,
    parse_dtype,
    transformed,
)
from pagefeed.core.batches.iteration import Iteration, steps_ahead
from pagefeed.core.batches.plan import BatchPlan, Plan, plan_batches
from pagefeed.core.batches.position import Position
from pagefeed.core.batches.run_view import (
    AnyView,
    BatchIterator,
    MoveListener,
    warn_of_return,
)
from pagefeed.core.batches.session import RunView, open_session
from pagefeed.core.batches.settings import (
    LoaderSettings,
    lengths_of,
    sized,
)
from pagefeed.core.batches.sources import block_for, feed_of_cut, make_feed, make_run
from pagefeed.core.batches.waits import EDGES, Waits

__all__ = [
    "EDGES",
    "AnyView",
    "Batch",
    "BatchIterator",
    "BatchPlan",
    "ColumnsBeside",
    "DType",
    "EngineFeed",
    "Feed",
    "FieldName",
    "Fields",
    "Format",
    "Iteration",
    "LoaderSettings",
    "Locked",
    "MoveListener",
    "Plan",
    "Position",
    "ProcessEngine",
    "RunView",
    "Waits",
    "block_for",
    "check_padding",
    "converted",
    "feed_of_cut",
    "lengths_of",
    "make_converter",
    "make_feed",
    "make_run",
    "open_session",
    "parse_dtype",
    "plan_batches",
    "sized",
    "steps_ahead",
    "transformed",
    "warn_of_return",
]
