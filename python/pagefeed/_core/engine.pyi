"""The engine, its settings, and what batches hold."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Required, TypeAlias, TypedDict, final

import numpy as np
import numpy.typing as npt

from pagefeed._core.arrow import ArrowArray, Buffer
from pagefeed._core.index import FlatField, Index, RecordColumn

IGNORED: int

class BesideConfig(TypedDict, total=False):
    """Fields and columns of batches that are not tokens."""

    fields: Mapping[str, Any] | None
    """Those that are made of the tokens; without, the tokens alone."""
    aligned: Sequence[Sequence[Index | FlatField | None]]
    """For each dataset its columns with numbers for each token; None if missing."""
    per_token: Sequence[Mapping[str, Any]]
    """Width, type and padding of each aligned column."""
    loss_column: int | None
    """Aligned column that the mask of losses follows."""
    documents: DocumentsConfig
    """Padding and types of the lists in the columns of rows."""

class DocumentsConfig(TypedDict, total=False):
    """Padding and types of the lists in columns of batches, by the column's number."""

    has_tokens: bool
    """Whether the first column holds the tokens."""
    max_length: Required[int | None]
    """Tokens of a document at most."""
    pad: Required[str | None]
    """``"longest"``, ``"max_length"``, or None to join the documents of a batch."""
    padded: Sequence[tuple[int, int]]
    """Columns that become rows of integers, and the padding of each."""
    aligned: Sequence[tuple[str, int, int | None, Mapping[str, Any]]]
    """Columns with numbers for each token: name, column, the column that is null where
    a dataset lacks it, and the settings."""
    metadata: tuple[int, Sequence[str], Sequence[bool], int] | None
    """The first column of the metadata, the names, which of them hold spans, and the
    column that is null where there is no document."""
    num_named: Required[int]
    """Columns before those that are not handed out."""
    only_filled: bool
    """Whether rows after the last document are left out."""
    row_tokens: int
    """Tokens of a row, about, padding included."""

class BatchesConfig(TypedDict, total=False):
    """Settings and contents of batches."""

    num_threads: Required[int]
    memory: Required[int]
    """Bytes for pages and batches."""
    batch_rows: Required[int]
    """Rows of a batch whose plan does not say."""
    row_length: int
    """Tokens of a row; without, there are none."""
    dtype: str
    """Type of tokens: int64 usually, int32 or uint16."""
    padding: int
    """Token where a plan puts none: 0 usually."""
    vocab_size: int | None
    """Ids are below it, if it is known."""
    rehearses: bool
    """Read nothing, and count what would be read and held."""
    metadata: tuple[Sequence[str], Sequence[bool], Sequence[Any]] | None
    """Metadata of documents: names, which have spans, and columns by datasets."""

class EngineConfig(BesideConfig, BatchesConfig, total=False):
    """Input of an engine, and the settings of its batches.

    Pages are numbered consecutively over all ``tokens``, then over all ``columns``,
    where each value of a list is a page.
    """

    tokens: Sequence[Index]
    """The token column of each dataset."""
    columns: Sequence[
        Index | RecordColumn | ArrowArray | Sequence[int | None] | Sequence[str | None]
    ]
    """Columns that come as rows, dataset after dataset."""
    names: Sequence[str]
    """Names of a dataset's columns."""
    has_tokens: bool
    """Whether the first of them holds token ids."""
    verify_checksums: Required[Sequence[bool]]
    """A flag for each of ``tokens``, then for each of ``columns``."""
    bos: int | None
    eos: int | None
    packing: Mapping[str, Any] | None

_Int64: TypeAlias = npt.NDArray[np.int64]
_UInt32: TypeAlias = npt.NDArray[np.uint32]

class SegmentTable(Protocol):
    """Segments of a plan, a column for each name."""

    @property
    def sequence(self) -> _Int64: ...
    @property
    def page(self) -> _Int64: ...
    @property
    def row(self) -> _UInt32: ...
    @property
    def first_token(self) -> _UInt32: ...
    @property
    def num_tokens(self) -> _UInt32: ...
    @property
    def offset(self) -> _UInt32: ...

class BundleTable(Protocol):
    """Bundles of a plan."""

    @property
    def key(self) -> _Int64: ...
    @property
    def num_sequences(self) -> _UInt32: ...
    @property
    def slice_offsets(self) -> _UInt32: ...
    @property
    def slice_page(self) -> _Int64: ...
    @property
    def slice_row(self) -> _UInt32: ...
    @property
    def slice_rows(self) -> _UInt32: ...
    @property
    def erased_offsets(self) -> _UInt32: ...
    @property
    def erased_first(self) -> _UInt32: ...
    @property
    def erased_end(self) -> _UInt32: ...

class PlanTable(Protocol):
    """A ``BatchPlan`` of ``pagefeed.contract``, as the engine takes it by names."""

    @property
    def num_batches(self) -> int: ...
    @property
    def segments(self) -> SegmentTable: ...
    @property
    def epoch(self) -> _UInt32 | None: ...
    @property
    def bundles(self) -> BundleTable | None: ...
    @property
    def batch_rows(self) -> int | None: ...
    @property
    def row_parts(self) -> int: ...

class Awaited(TypedDict):
    """Pages that the next batch of an engine waits for, and what the threads do."""

    places: list[tuple[str | None, int | None, str | None, int | None]]
    """File, row group, column and page of some of the pages."""
    num_pages: int
    num_bytes: int
    """Bytes of the pages as stored, as far as known."""
    workers: tuple[int, int]
    """Threads that decode and write, and those of them that have no work."""
    fetches: tuple[int, int]
    """Fetches from afar that are under way, and the most that may be."""

@final
class Engine:
    def __new__(cls, config: EngineConfig) -> Engine: ...
    def submit(self, plan: PlanTable) -> None: ...
    def next_batch(self) -> Buffer: ...
    def clear(self, *, keep_pages: bool = False) -> None: ...
    def keep_pages(self) -> None: ...
    def awaited(self) -> Awaited: ...
    def close(self) -> None: ...
    @property
    def num_pending(self) -> int: ...
    @property
    def plan_bytes(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    def take_rehearsed(self) -> tuple[list[int], list[int], list[int]]: ...

def field_table() -> list[tuple[str, list[str], str, int | None, bool, bool]]: ...
def check_metadata(
    asked: tuple[Sequence[str], Sequence[bool], Sequence[Any]],
) -> None: ...
