"""Places of pages, and the numbers of flat files."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pagefeed._core.arrow import ArrowArray
from pagefeed._core.remote import Remote

def local_versions(files: Sequence[str]) -> list[str]: ...
def reads_of_files(
    shares: Sequence[float],
) -> list[tuple[str, int, int, int, float, list[float]]]: ...

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
    def concat(
        indexes: Sequence[Index],
        ranges: Sequence[tuple[int, int, int]],
        *,
        storage: Remote | None = None,
    ) -> Index: ...
    @property
    def is_borderless(self) -> bool: ...
    @staticmethod
    def open(
        path: str | os.PathLike[str], *, storage: Remote | None = None
    ) -> Index: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def check_files(self) -> None: ...
    def of_others(self) -> Index: ...
    def changed_files(
        self, files: Sequence[int], *, by_footers: bool = False
    ) -> list[int]: ...
    @property
    def column(self) -> str: ...
    def with_type(
        self,
        table: ArrowArray,
        inside: str | None,
        missing: ArrowArray | None,
        defaults: ArrowArray | None,
    ) -> Index: ...
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
        self, table: str, numbers: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
    ) -> None: ...
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
    def read_page(
        self, page: int, *, verify_checksums: bool, most_bytes: int = ...
    ) -> ArrowArray: ...

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
    def __new__(cls, dtype: str, offset: int, width: int = 1) -> FlatField: ...
    @property
    def list_size(self) -> int | None: ...
    @property
    def number_type(self) -> str: ...

@final
class RecordColumn:
    def __new__(
        cls,
        index: Index,
        dtype: str,
        offset: int,
        width: int = 1,
        shards: Sequence[tuple[str, str]] | None = None,
        filling: int | None = None,
    ) -> RecordColumn: ...
    @property
    def mean_row_bytes(self) -> int: ...
    def read_page(self, page: int) -> ArrowArray: ...

@final
class MadePages:
    def __new__(
        cls,
        read: Callable[[str, int], tuple[Any, int]],
        is_of_files: bool,
    ) -> MadePages: ...

def made_index(
    storage: MadePages,
    paths: Sequence[str],
    digests: Sequence[bytes],
    file_pages: Sequence[int],
    column: str,
    like: tuple[str, Any | None],
    pages: Sequence[npt.NDArray[np.int64]],
) -> Index: ...
def flat_index(
    paths: Sequence[str],
    digests: Sequence[bytes],
    file_pages: Sequence[int],
    column: str,
    records: tuple[str, int, int, bool],
    pages: Sequence[npt.NDArray[np.int64]],
    rows: Sequence[npt.NDArray[np.uint32]],
) -> Index: ...
def expansion(
    path: str,
    column: str,
    groups: Sequence[int],
    *,
    most_stored: int,
    naming: Naming | None = None,
    storage: Remote | None = None,
) -> tuple[int, int]: ...
def footer_value(footer: bytes, key: str) -> str | None: ...
def cut_tokens(
    index: Index,
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    per_row: int,
) -> list[bytes]: ...
def list_pages(
    index: Index, first: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> list[bytes]: ...
def find_ranges(
    borders: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
) -> None: ...
