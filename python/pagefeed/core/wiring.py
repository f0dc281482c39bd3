"""Functions of rooms that the core calls, without an import of any room.

A setting that a user hands in carries what it does. The core asks here where a user
handed in nothing, or the short form of a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

from pagefeed.errors import UnsupportedError

Limits: TypeAlias = "tuple[float | None, tuple[int, Path] | None]"
"""Processors of a container; bytes of its memory, and the file that says so."""

if TYPE_CHECKING:
    from pathlib import Path

    from pagefeed._core import Index
    from pagefeed.aligned.metadata import Metadata
    from pagefeed.balance import Balance, BalanceLike
    from pagefeed.checks import Watch
    from pagefeed.context_parallel import ContextParallel
    from pagefeed.core._base import Int64Array
    from pagefeed.core.batches import AnyView, Fields, LoaderSettings
    from pagefeed.core.dataset import Dataset, Recipe, Spans
    from pagefeed.core.run import Cursor, Grown, LoaderState, Run, StatePart, Step
    from pagefeed.core.storage import Storage
    from pagefeed.documents import Decode, DecodeLike
    from pagefeed.elastic import Fleet
    from pagefeed.erasure.erased import ErasedRows, Records
    from pagefeed.metrics import Meter


P = ParamSpec("P")
R = TypeVar("R")


class Asked(Generic[P, R]):
    """A function of a room, imported when it is first called.

    Args:
        alone: Function that the core calls without rooms; by default an error.
    """

    def __init__(self, alone: Callable[P, R] | None = None) -> None:
        self._function = alone
        self.place: str | None = None
        """Module and name of the function, as ``"module:name"``."""

    def provide(self, place: str) -> None:
        """Name the function of a room."""
        self.place, self._function = place, None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function.

        Raises:
            UnsupportedError: If no room provides it.
        """
        function = self._function
        if function is None:
            if self.place is None:
                raise UnsupportedError(
                    "this needs a part of pagefeed that is not installed"
                )
            module, _, name = self.place.partition(":")
            function = attrgetter(name)(import_module(module))
            self._function = function
        return function(*args, **kwargs)


# Refusals, warnings and measurements of a run.
check_settings: Asked[[LoaderSettings], None] = Asked(lambda _: None)
check_unlearned: Asked[[Any], None] = Asked(lambda _: None)
explain: Asked[[Exception, Cursor, Step], None] = Asked(lambda *_: None)
warn_of_accelerator: Asked[[], bool] = Asked(bool)
make_watch: Asked[[Run, LoaderSettings], Watch | None] = Asked(lambda *_: None)
rank_of_process: Asked[[], tuple[int, int]] = Asked(lambda: (0, 1))
container_limits: Asked[[], Limits] = Asked(lambda: (None, None))
make_meter: Asked[[float], Meter] = Asked()
watch_waits: Asked[[AnyView], None] = Asked(lambda _: None)
check_ranks: Asked[
    [tuple[int | None, int], Mapping[str, Any], tuple[int, int], object, object], None
] = Asked()
# Arguments of a loader, checked; some have short forms.
parse_balance: Asked[[BalanceLike], Balance | None] = Asked()
parse_context_parallel: Asked[[object], ContextParallel | None] = Asked()
parse_decode: Asked[[DecodeLike], Decode] = Asked()
parse_fleet: Asked[[int | Sequence[tuple[int, int]]], Fleet] = Asked()
# The index of a column, and numbers of its rows, kept on disk.
cached_index: Asked[[Recipe, Callable[[str], Index], bool], Index] = Asked(
    lambda _, build, __: build("nothing is kept on disk")
)
stored_counts: Asked[
    [Spans, str, Int64Array, Callable[[int], int | tuple[int, ...]], Int64Array],
    Int64Array,
] = Asked()
# Data, and columns of batches that a name asks for.
make_storage: Asked[[Mapping[str, object] | None, bool], Storage] = Asked()
make_metadata: Asked[[Sequence[Dataset], Fields], Metadata | None] = Asked()
make_erased: Asked[[Spans, Sequence[Spans]], ErasedRows] = Asked()
# States.
state_part: Asked[[str], StatePart | None] = Asked(lambda _: None)
rest_of_run: Asked[[Run, LoaderState, Grown | None], tuple[Run, LoaderState]] = Asked()
records_after: Asked[
    [Records, Sequence[str | None], Sequence[Dataset]], Records | None
] = Asked()
