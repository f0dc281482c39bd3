"""What lies in a flat file, whatever its format."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.dataset.flat.pages import FilePages
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    PagefeedError,
    TokenRangeError,
    UnsupportedError,
)
from pagefeed.storage import Storage

__all__ = [
    "FlatFile",
    "FlatFormat",
    "Records",
    "corrupt",
    "fitting",
    "given_dtype",
    "parsed",
    "sampled_digest",
    "token_dtype",
    "unsupported",
    "whole",
]

_SAMPLES, _SAMPLE_BYTES = 64, 4096


@dataclass(frozen=True, slots=True)
class Records:
    """What a file holds, token by token."""

    dtype: str
    """Type of the tokens, as NumPy names it: little-endian."""
    size: int
    """Bytes of a record."""
    offset: int = 0
    """Bytes of a record before its token."""
    joined: bool = False
    """Whether nothing is known of documents, and a file is one."""


class FlatFile(NamedTuple):
    """One file, read as far as to know where its tokens and documents lie."""

    records: Records
    pages: FilePages


class FlatFormat(ABC):
    """How files are read; equal ones read alike, and have the same ``repr``."""

    __slots__ = ()

    @abstractmethod
    def read(self, storage: Storage, path: str) -> FlatFile:
        """Return what lies in a file of tokens."""

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return 16 bytes that tell the contents of a file from others."""
        return sampled_digest(storage, path)

    def sides(self, path: str) -> tuple[str, ...]:  # noqa: ARG002 - of a file that has some
        """Return the files that say what lies in a file of tokens."""
        return ()


def corrupt(
    path: str | None, message: str, kind: type[DataError] = CorruptFileError
) -> DataError:
    """Return the error of bytes that are not what their format promises."""
    error = kind(message if path is None else f"{path}: {message}")
    error.file = path
    return error


def unsupported(path: str, message: str) -> DataError:
    """Return the error of a sound file that is not read."""
    return corrupt(path, message, UnsupportedError)


_SENSELESS = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError),
    *(SyntaxError, TypeError, ValueError),
)


@contextmanager
def parsed(path: str | None, what: str) -> Iterator[None]:
    """Have all that goes wrong while a file's text is taken apart name the file.

    Raises:
        CorruptFileError: If it makes no sense.
    """
    try:
        yield
    except PagefeedError as error:
        error.file = path or error.file
        raise
    except _SENSELESS as problem:
        raise corrupt(path, f"{what}: {problem!r:.200}") from problem


def whole(value: object, most: int = (1 << 63) - 1) -> int:
    """Return a number of a file, from 0 on.

    Raises:
        ValueError: If it is none.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is no whole number from 0 to {most:,}")
    return value


def token_dtype(dtype: np.dtype[np.generic], path: str) -> str:
    """Return the name of a type of tokens.

    Raises:
        UnsupportedError: If tokens do not come in it.
    """
    if dtype.kind not in "iu" or dtype.newbyteorder("<") != dtype:
        raise unsupported(
            path,
            f"holds {dtype}, but tokens are integers, little-endian: write the file as "
            "uint16, uint32 or int32",
        )
    return dtype.name


def given_dtype(dtype: npt.DTypeLike | None) -> str | None:
    """Return the name of a type of tokens that a user gave; None of none.

    Raises:
        InvalidArgumentError: If tokens do not come in it.
    """
    if dtype is None:
        return None
    try:
        return token_dtype(np.dtype(dtype), "dtype")
    except (TypeError, UnsupportedError) as problem:
        raise InvalidArgumentError(
            f"dtype={dtype!r} is no type of tokens: uint16, uint32, int32 or another "
            "of integers"
        ) from problem


def sampled_digest(storage: Storage, path: str, *more: bytes) -> bytes:
    """Return 16 bytes of a file's size and samples, and of what else identifies it.

    Files of terabytes are not read for it: two of one size that differ in a few places
    only may have the same. That one changed is seen from its version in any case.
    """
    size = storage.size(path)
    digest = hashlib.blake2b(
        f"{size}".encode(), digest_size=16, person=b"pagefeed.flat"
    )
    last = max(0, size - _SAMPLE_BYTES)
    for begin in np.unique(np.linspace(0, last, _SAMPLES).astype(np.int64)).tolist():
        digest.update(storage.read(path, begin, min(begin + _SAMPLE_BYTES, size)))
    for part in more:
        digest.update(b"%d " % len(part) + part)
    return digest.digest()


def fitting(
    values: npt.NDArray[Any], dtype: np.dtype[Any], name: str
) -> npt.NDArray[Any]:
    """Return values that fit an integer type, or are to be converted to another.

    Raises:
        InvalidArgumentError: If they are no integers, and should be.
        TokenRangeError: If one does not fit.
    """
    if values.dtype == dtype or not len(values):
        return values
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if values.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"{name!r} holds {values.dtype}, and is written as {dtype}: give whole "
                "numbers"
            )
        if int(values.min()) < bounds.min or int(values.max()) > bounds.max:
            raise TokenRangeError(
                f"{name!r} has values from {values.min()} to {values.max()}, which do "
                f"not fit {dtype}: choose a wider dtype"
            )
    return values
