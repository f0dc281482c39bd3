"""The data plane: page index, page reads and the engine, in Rust."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "IGNORED",
    "ArrowArray",
    "ArrowTable",
    "Buffer",
    "Engine",
    "FlatField",
    "Index",
    "Infilling",
    "ListFile",
    "Naming",
    "RecordColumn",
    "Remote",
    "Tokenizer",
    "build_profile",
    "check_metadata",
    "deal",
    "document_table",
    "field_table",
    "flat_index",
    "footer_value",
    "json_texts",
    "mix",
    "pack",
    "permute",
    "text_of",
    "token_rows",
    "version",
]

@final
class ArrowArray:
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def __getitem__(self, row: int, /) -> Any: ...
    def to_pylist(self) -> list[Any]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @staticmethod
    def _from_bytes(data: bytes) -> ArrowArray: ...
    def list_lengths(self) -> bytes: ...
    def numbers(self) -> tuple[str, bytearray] | None: ...
    def texts_or_bytes(self) -> list[str | None] | list[memoryview | None] | None: ...
    def padded_numbers(
        self,
        lengths: npt.NDArray[np.int64],
        length: int,
        per_token: Mapping[str, Any],
        *,
        starts: npt.NDArray[np.int64] | None = None,
        has: ArrowArray | None = None,
    ) -> Buffer: ...
    def padded(
        self,
        length: int,
        padding: int,
        dtype: str,
        *,
        fields: Mapping[str, Any] | None = None,
        starts: npt.NDArray[np.int64] | None = None,
    ) -> Buffer: ...
    def joined(self, most: int) -> ArrowArray: ...

@final
class ArrowTable:
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def __getitem__(self, name: str, /) -> ArrowArray: ...
    def __len__(self) -> int: ...
    def to_pylist(self) -> list[dict[str, Any]]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @staticmethod
    def _from_bytes(data: bytes) -> ArrowTable: ...

@final
class Buffer:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def offset(self, field: str) -> int: ...
    def aligned_offset(self, column: int) -> int: ...
    def take_columns(self, *, only_filled: bool = False) -> list[ArrowArray]: ...
    def take_metadata(self) -> ArrowTable | None: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_borders(self) -> int: ...
    @property
    def max_seqlen(self) -> int: ...
    @property
    def most_segments(self) -> int: ...
    @property
    def max_doc_lens(self) -> list[int]: ...

@final
class Remote:
    def __new__(cls, settings: Mapping[str, Any], lost: Sequence[str]) -> Remote: ...
    def list_files(self, url: str) -> Iterator[tuple[str, int, str]]: ...
    def ask_hub(self, url: str, file: str) -> tuple[bytes, str | None]: ...
    def note(self, files: Sequence[tuple[str, int, str]]) -> None: ...
    def find(
        self, urls: Sequence[str], *, as_listed: bool = False
    ) -> list[tuple[str, int, str]]: ...
    def read(self, url: str, begin: int, end: int) -> bytes: ...
    def fetch(self, url: str) -> tuple[bytes, tuple[str | None, str | None]] | None: ...
    def put(
        self,
        url: str,
        data: bytes,
        *,
        new: bool = False,
        unchanged: tuple[str | None, str | None] | None = None,
    ) -> tuple[str | None, str | None] | None: ...
    def remove(self, urls: Sequence[str]) -> None: ...
    def begin_upload(self, url: str) -> str: ...
    def put_part(self, url: str, upload: str, number: int, data: bytes) -> str: ...
    def finish_upload(
        self, url: str, upload: str, parts: Sequence[str]
    ) -> tuple[str | None, str | None]: ...
    def abort_upload(self, url: str, upload: str) -> None: ...
    def counts(self) -> dict[str, int]: ...

@final
class Index:
    @staticmethod
    def build(
        paths: Sequence[str],
        column: str,
        *,
        page_index: bool,
        verify_checksums: bool,
        num_threads: int,
        by_row_group: bool = False,
        missing_as_null: bool = False,
        naming: Naming | None = None,
        storage: Remote | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Index: ...
    @staticmethod
    def join(
        parts: Sequence[Index],
        pieces: Sequence[tuple[int, int, int]],
        *,
        storage: Remote | None = None,
    ) -> Index: ...
    @property
    def is_joined(self) -> bool: ...
    @staticmethod
    def open(
        path: str | os.PathLike[str], *, storage: Remote | None = None
    ) -> Index: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def check_files(self) -> None: ...
    def changed_files(self, files: Sequence[int]) -> list[int]: ...
    @property
    def column(self) -> str: ...
    def with_missing(self, values: ArrowArray) -> Index: ...
    def lacking_files(self) -> list[int]: ...
    def infilled(self, infilling: Infilling, filling: int | None = None) -> Index: ...
    @property
    def num_pages(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_values(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def number_type(self) -> str | None: ...
    @property
    def mean_row_bytes(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def states(self) -> str: ...
    @property
    def files(self) -> list[str]: ...
    def is_of(self, files: tuple[str, ...]) -> bool: ...
    def file_first_page(self) -> list[int]: ...
    def look_up(
        self, table: str, numbers: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
    ) -> None: ...
    def cut(
        self,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        per_row: int,
    ) -> tuple[bytes, bytes, bytes, bytes, bytes]: ...
    def row_group_runs(self) -> bytes: ...
    def dictionary_runs(self) -> bytes | None: ...
    def null_pages(self) -> bytes: ...
    def locate(self, page: int) -> tuple[int, int, int, int, int, int, int]: ...
    def row_lengths(
        self, pages: npt.NDArray[np.uint64], *, verify_checksums: bool
    ) -> bytes: ...
    @property
    def list_depth(self) -> int: ...
    @property
    def row_size(self) -> int | None: ...
    @property
    def list_size(self) -> int | None: ...
    def check_aligned(
        self, page: int, column: Index, per_token: Mapping[str, Any]
    ) -> None: ...
    def read_page(self, page: int, *, verify_checksums: bool) -> ArrowArray: ...

@final
class Naming:
    def __new__(
        cls, fields: Sequence[tuple[Any, ...]], by_id: bool, by_name: bool
    ) -> Naming: ...
    def rename(self, footer: bytes) -> bytes: ...

@final
class Infilling:
    def __new__(
        cls,
        *,
        choice: tuple[int, int],
        cuts: tuple[int, int],
        rate: int,
        spm: int,
        tokens: Sequence[int],
        within_sequence: bool,
    ) -> Infilling: ...
    def num_chosen(self, borders: npt.NDArray[np.int64]) -> bytes: ...
    def own(
        self,
        document: int,
        num_tokens: int,
        start: int,
        stop: int,
        *,
        epoch: int,
        parts: Sequence[tuple[int, int]] | None = None,
    ) -> list[tuple[int, int, int]]: ...

@final
class FlatField:
    def __new__(cls, dtype: str, offset: int) -> FlatField: ...
    @property
    def number_type(self) -> str: ...

@final
class RecordColumn:
    def __new__(
        cls,
        index: Index,
        dtype: str,
        offset: int,
        shards: Sequence[tuple[str, str, int, int]] | None = None,
        filling: int | None = None,
    ) -> RecordColumn: ...
    @property
    def mean_row_bytes(self) -> int: ...
    def read_page(self, page: int) -> ArrowArray: ...

def flat_index(
    paths: Sequence[str],
    digests: Sequence[bytes],
    file_pages: Sequence[int],
    column: str,
    records: tuple[str, int, int, bool],
    pages: Sequence[npt.NDArray[np.int64]],
    rows: Sequence[npt.NDArray[np.uint32]],
) -> Index: ...

IGNORED: int

def field_table() -> list[tuple[str, list[str], str, int | None, bool, bool]]: ...
def token_rows(
    tokens: npt.NDArray[np.uint32],
    ends: npt.NDArray[np.int64],
    length: int,
    starts: npt.NDArray[np.int64],
    dtype: str,
    *,
    padding: int,
    fields: Mapping[str, Any] | None = None,
) -> Buffer: ...

@final
class Engine:
    def __new__(
        cls,
        tokens: Sequence[Index],
        *,
        num_threads: int,
        memory: int,
        batch_rows: int,
        verify_checksums: Sequence[bool],
        columns: Sequence[
            Index
            | RecordColumn
            | ArrowArray
            | Sequence[int | None]
            | Sequence[str | None]
        ] = ...,
        names: Sequence[str] = ...,
        has_tokens: bool = False,
        aligned: Sequence[Sequence[Index | FlatField | None]] = ...,
        per_token: Sequence[Mapping[str, Any]] = ...,
        loss_column: int | None = None,
        dtype: str = "int64",
        row_length: int = 0,
        padding: int = 0,
        bos: int | None = None,
        eos: int | None = None,
        packing: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        vocab_size: int | None = None,
        metadata: tuple[Sequence[str], Sequence[bool], Sequence[Any]] | None = None,
    ) -> Engine: ...
    def submit(self, plan: Any) -> None: ...  # A BatchPlan of core.batches.
    def next_batch(self) -> Buffer: ...
    def clear(self, *, keep_pages: bool = False) -> None: ...
    def close(self) -> None: ...
    @property
    def num_pending(self) -> int: ...
    @property
    def plan_bytes(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...

@final
class Tokenizer:
    @staticmethod
    def from_json(
        json: str,
        *,
        as_text: bool,
        trials: Callable[[list[str]], Sequence[str]] | None = None,
    ) -> Tokenizer: ...
    @staticmethod
    def from_function(function: Callable[[str], bytes]) -> Tokenizer: ...
    def tokenized(
        self,
        texts: Index,
        vocab_size: int,
        counts: npt.NDArray[np.uint32],
        *,
        rows: Callable[[ArrowArray], tuple[bytes, bytes, bytes]] | None = None,
        beside: Sequence[Index] = ...,
        is_labels: bool = False,
    ) -> Index: ...
    def count(
        self,
        texts: Index,
        page: int,
        *,
        verify_checksums: bool,
        rows: Callable[[ArrowArray], tuple[bytes, bytes, bytes]] | None = None,
        beside: Sequence[Index] = ...,
    ) -> tuple[bytes, int]: ...
    def encode(self, text: str) -> bytes: ...
    def encode_batch(
        self, texts: list[str], num_threads: int
    ) -> tuple[bytes, bytes]: ...
    def places(self, text: str) -> list[tuple[int, int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    def token_to_id(self, token: str) -> int | None: ...
    def added_tokens(self) -> list[tuple[int, str, bool]]: ...
    def canonical(self) -> str: ...
    def engine(self) -> tuple[str, str]: ...

@final
class ListFile:
    def __new__(
        cls,
        empty: bytes,
        num_lists: int,
        compression: str,
        page_bytes: int,
        vocab_size: int,
    ) -> Self: ...
    def encode(
        self, tokenizer: Tokenizer, data: object, offsets: object, num_threads: int
    ) -> tuple[int, int, list[int]]: ...
    def append(self, column: int, values: object, counts: object) -> None: ...
    @property
    def num_waiting(self) -> int: ...
    def end_group(self, others: bytes | None = None) -> None: ...
    def end(self) -> None: ...
    def take(self) -> bytes: ...

def mix(values: npt.NDArray[np.uint64], first: int, second: int) -> None: ...
def deal(
    sequences: npt.NDArray[np.int64],
    costs: npt.NDArray[np.float64],
    stays: npt.NDArray[np.uint8] | None,
    *,
    first: Sequence[int],
    keys: Sequence[tuple[int, int]],
    num_ranks: int,
    exact: bool,
    bucket: int,
    equal: float,
) -> tuple[bytes, bytes]: ...
def permute(
    values: npt.NDArray[np.uint64],
    *,
    size: int,
    sizes: npt.NDArray[np.uint64] | None,
    tweaks: npt.NDArray[np.uint64] | None,
    rounds: Sequence[int],
    inverse: bool,
) -> None: ...
def pack(
    lengths: npt.NDArray[np.int64],
    length: int,
    packing: Mapping[str, Any],
) -> bytes: ...
def check_metadata(
    asked: tuple[Sequence[str], Sequence[bool], Sequence[Any]],
) -> None: ...
def document_table(
    columns: Sequence[ArrowArray],
    names: Sequence[str],
    are_spans: Sequence[bool],
    is_there: ArrowArray,
    lengths: npt.NDArray[np.int64],
    most: int,
) -> ArrowTable: ...
def json_texts(block: bytes, name: str) -> ArrowArray | None: ...
def text_of(texts: Index, page: int, row: int, *, verify_checksums: bool) -> str: ...
def footer_value(footer: bytes, key: str) -> str | None: ...
def version() -> str: ...
def build_profile() -> str: ...
