"""Texts to tokens, and files of tokens."""

from collections.abc import Callable, Sequence
from typing import Self, final

import numpy as np
import numpy.typing as npt

from pagefeed._core.arrow import ArrowArray
from pagefeed._core.index import Index

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
    def offsets(self, text: str) -> list[tuple[int, int]]: ...
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
    def append(
        self, column: int, values: object, counts: object, num_threads: int = 1
    ) -> None: ...
    @property
    def num_waiting(self) -> int: ...
    def end_group(self, others: bytes | None = None) -> None: ...
    def end(self) -> None: ...
    def take(self) -> bytes: ...

def json_texts(block: bytes, name: str) -> ArrowArray | None: ...
def text_of(texts: Index, page: int, row: int, *, verify_checksums: bool) -> str: ...
