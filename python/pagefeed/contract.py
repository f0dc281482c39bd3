"""The interfaces between the core and everything built on it.

The core turns rows into batches in five steps, and each has one interface here:

1. A **source** says what rows there are. :class:`Dataset` is one table of rows:
   :class:`Spans` are the selected rows, :class:`PageIndex` says which page of which
   file holds a row. A :class:`Source` that is not one dataset, such as a mixture, makes
   its own run (``make_run``). The page index of a column also describes data that rows
   carry besides tokens. ``bytes_beside`` gives their bytes, so that blocks hold fewer
   rows. ``numbers_beside`` gives :class:`RowNumbers` by name, whose
   ``sums(index)`` are those of sequences. ``Source.feed`` wraps the feed of
   step 5.
2. A **cut** says how rows become sequences: :class:`Cut`, or :class:`TokenCut` for
   sequences of one length. Its ``index(spans)`` returns a :class:`SequenceIndex`:
   sequences numbered in file order and grouped in blocks. Each sequence is a few
   :class:`Segments` of pages. The index does not depend on seed or epoch, and reads no
   data. :class:`SpanIndex` makes the blocks.
3. An **order** says which sequence is at which position: :class:`Ordered`. It is a pure
   function of a key, which :func:`derive_key` makes of seed, epoch and names.
4. A **run** says what is delivered. A :class:`Run` stays the same while a loader
   iterates, a :class:`Cursor` is a position in it, and a :class:`LoaderState` is that
   position as a few integers. ``cursor.route`` says which positions a rank gets at
   which step, and ``cursor.at`` which :class:`Sequences` are at positions. A room adds
   its own data to states as a :class:`StatePart`, registered as ``"state part NAME"``.
5. A **feed** makes batches: :class:`Feed`. Its ``plan`` turns sequences into a
   :class:`BatchPlan` for the engine, its ``batch`` turns what the engine delivers into
   a :data:`Batch`. A cut whose ``feed`` returns None uses the feed of tokens.

Adapters and reports read a loader through ``loader.view()``, a :class:`RunView`: the
settings, the run, and the :class:`Position`. Three moves change the position:
``begin``, ``go_on`` and, after the last step, ``done``. ``view()`` makes no copy.
``loader.plan(steps)`` returns the table that the engine would get for any steps: a
:class:`Plan` of rows, their sequences, and the :class:`Segments` of these.

A loader whose sequences have no numbers is an :class:`AnyLoader` with its own kind of
:class:`AnyView`: see :mod:`pagefeed.uncounted`. Adapters that need no sequence numbers
accept any :class:`AnyLoader`.

The core imports no room. A setting that a user hands in carries what it does. Where a
user hands in nothing, the core calls a function of ``pagefeed.core.wiring``, for which
:mod:`pagefeed.rooms` names the room.

Example:
    A cut that takes the first tokens of every row is forty lines: see
    ``tests/outside/first_tokens.py``. It is used like any other cut::

        loader = pf.Loader(data, sequences=FirstTokens(128), batch_size=8)
"""

from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.batches import (
    AnyView,
    Batch,
    BatchIterator,
    BatchPlan,
    Feed,
    LoaderSettings,
    Plan,
    Position,
    RunView,
)
from pagefeed.core.dataset import (
    Dataset,
    PageIndex,
    RowNumbers,
    Source,
    SourceKind,
    Spans,
    lengths_of_rows,
)
from pagefeed.core.order import Ordered, Permutation, derive_key
from pagefeed.core.run import (
    NO_SEQUENCE,
    Cursor,
    LoaderState,
    Origin,
    Route,
    Run,
    Sequences,
    Slot,
    StatePart,
    Step,
    StepIndex,
)
from pagefeed.core.sequences import (
    Blocks,
    Cut,
    DocumentParts,
    Segments,
    SequenceIndex,
    SequenceLayout,
    SpanIndex,
    TokenCut,
)

__all__ = [
    "NO_SEQUENCE",
    "AnyLoader",
    "AnyView",
    "Batch",
    "BatchIterator",
    "BatchPlan",
    "Blocks",
    "Cursor",
    "Cut",
    "Dataset",
    "DocumentParts",
    "Feed",
    "LoaderSettings",
    "LoaderState",
    "Ordered",
    "Origin",
    "PageIndex",
    "Permutation",
    "Plan",
    "Position",
    "Route",
    "RowNumbers",
    "Run",
    "RunView",
    "Segments",
    "SequenceIndex",
    "SequenceLayout",
    "Sequences",
    "Slot",
    "Source",
    "SourceKind",
    "SpanIndex",
    "Spans",
    "StatePart",
    "Step",
    "StepIndex",
    "TokenCut",
    "derive_key",
    "lengths_of_rows",
]
