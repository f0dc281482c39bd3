"""The data plane: page index, page reads and the engine, in Rust."""

import os
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "ArrowArray",
    "Buffer",
    "Engine",
    "Index",
    "build_profile",
    "pack",
    "version",
]

@final
class ArrowArray:
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @staticmethod
    def _from_bytes(data: bytes) -> ArrowArray: ...
    def list_lengths(self) -> bytes: ...
    def padded(
        self,
        length: int,
        padding: int,
        dtype: str,
        fields: Sequence[str],
        *,
        shifted: bool = False,
        across_documents: bool = False,
    ) -> Buffer: ...

@final
class Buffer:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def offset(self, field: str) -> int: ...
    def take_columns(self) -> list[ArrowArray]: ...
    @property
    def num_borders(self) -> int: ...
    @property
    def max_seqlen(self) -> int: ...

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
        advance: Callable[[int], object] | None = None,
    ) -> Index: ...
    @staticmethod
    def flat(
        paths: Sequence[str],
        digests: Sequence[bytes],
        file_pages: Sequence[int],
        column: str,
        records: tuple[str, int, int, bool],
        pages: Sequence[npt.NDArray[np.int64]],
        rows: Sequence[npt.NDArray[np.uint32]],
    ) -> Index: ...
    @property
    def is_joined(self) -> bool: ...
    @staticmethod
    def open(path: str | os.PathLike[str]) -> Index: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def check_files(self) -> None: ...
    @property
    def column(self) -> str: ...
    @property
    def num_pages(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_values(self) -> int: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def mean_row_bytes(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def files(self) -> list[str]: ...
    def file_first_page(self) -> list[int]: ...
    def file_first_row(self) -> list[int]: ...
    def file_first_value(self) -> list[int]: ...
    def first_rows(
        self, pages: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> None: ...
    def first_values(
        self, pages: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
    ) -> None: ...
    def pages_of_rows(
        self, rows: npt.NDArray[np.int64], pages: npt.NDArray[np.int64]
    ) -> None: ...
    def pages_of_values(
        self, values: npt.NDArray[np.int64], pages: npt.NDArray[np.int64]
    ) -> None: ...
    def row_group_runs(self) -> bytes: ...
    def dictionary_runs(self) -> bytes | None: ...
    def null_pages(self) -> bytes: ...
    def locate(self, page: int) -> tuple[int, int, int, int, int, int, int]: ...
    def row_offsets(self, page: int) -> list[int]: ...
    def read_page(self, page: int, *, verify_checksums: bool) -> ArrowArray: ...

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
        columns: Sequence[Index | Sequence[int | None] | Sequence[str | None]] = ...,
        names: Sequence[str] = ...,
        has_tokens: bool = False,
        dtype: str = "int64",
        row_length: int = 0,
        padding: int = 0,
        bos: int | None = None,
        eos: int | None = None,
        packing: str | None = None,
        never_split: bool = False,
        fields: Sequence[str] = ...,
        shifted: bool = False,
        across_documents: bool = False,
        vocab_size: int | None = None,
    ) -> Engine: ...
    def submit(
        self,
        batch_offsets: npt.NDArray[np.uint32],
        page: npt.NDArray[np.uint64],
        row: npt.NDArray[np.uint32],
        first_token: npt.NDArray[np.uint32] | None,
        num_tokens: npt.NDArray[np.uint32] | None,
        destination_row: npt.NDArray[np.uint32],
        destination_offset: npt.NDArray[np.uint32],
        bundles: tuple[npt.NDArray[Any], ...] | None = None,
    ) -> None: ...
    def next_batch(self) -> Buffer: ...
    def clear(self) -> None: ...
    @property
    def num_pending(self) -> int: ...
    @property
    def plan_bytes(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...

def pack(
    lengths: npt.NDArray[np.int64], length: int, *, method: str, never_split: bool
) -> bytes: ...
def version() -> str: ...
def build_profile() -> str: ...
