"""The contents of a flat file of any format."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core.storage import Storage
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    TokenRangeError,
    UnsupportedError,
)
from pagefeed.flat.pages import FilePages

_SAMPLES, _SAMPLE_BYTES = 64, 4096


class Records(NamedTuple):
    """The records of a file: one for each token, possibly with further fields."""

    dtype: str
    """Type of the tokens, as NumPy names it: little-endian."""
    size: int
    """Bytes of a record."""
    offset: int = 0
    """Bytes of a record before its token."""
    borderless: bool = False
    """Whether documents are unknown, so that a file is one."""


FlatFile: TypeAlias = tuple[Records, FilePages]
"""Positions of the tokens and documents of a file."""


class FlatFormat(ABC):
    """A format of token files; equal formats have equal ``repr``."""

    __slots__ = ()

    @abstractmethod
    def read(self, storage: Storage, path: str) -> FlatFile:
        """Find the tokens and documents of a file."""

    def read_each(
        self, storage: Storage, paths: Sequence[str]
    ) -> Iterator[tuple[FlatFile, bytes]]:
        """Find the tokens and documents of several files, and their digests."""
        for path in paths:
            yield self.read(storage, path), self.digest(storage, path)

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return 16 bytes that differ between files with different contents."""
        return sampled_digest(storage, path)

    def sides(self, path: str) -> tuple[str, ...]:  # noqa: ARG002 - of a file that has some
        """Return the files that describe a file of tokens."""
        return ()


def corrupt(
    path: str | None, message: str, kind: type[DataError] = CorruptFileError
) -> DataError:
    """Return the error of a file that breaks the rules of its format."""
    return kind(message if path is None else f"{path}: {message}").at(file=path)


def unsupported(path: str, message: str) -> DataError:
    """Return the error for a valid file of a kind that pagefeed cannot read."""
    return corrupt(path, message, UnsupportedError)


def whole(value: object, most: int = (1 << 63) - 1) -> int:
    """Return a whole number of a file, at least 0.

    Raises:
        ValueError: If it is anything else.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is not a whole number from 0 to {most:,}")
    return value


def token_dtype(dtype: np.dtype[np.generic], path: str) -> str:
    """Return the name of a type of tokens.

    Raises:
        UnsupportedError: If it is not a little-endian integer type.
    """
    if dtype.kind not in "iu" or dtype.newbyteorder("<") != dtype:
        raise unsupported(
            path,
            f"holds {dtype}, but tokens are integers, little-endian: write the file as "
            "uint16, uint32 or int32",
        )
    return dtype.name


def given_dtype(dtype: npt.DTypeLike | None) -> str | None:
    """Return the name of the token type that a caller gave; None if none was given.

    Raises:
        InvalidArgumentError: If it is not a type of tokens.
    """
    if dtype is None:
        return None
    try:
        return token_dtype(np.dtype(dtype), "dtype")
    except (TypeError, UnsupportedError) as problem:
        raise InvalidArgumentError(
            f"dtype={dtype!r} is not a type of tokens: uint16, uint32, int32 or "
            "another of integers"
        ) from problem


def sampled_digest(storage: Storage, path: str, *more: bytes) -> bytes:
    """Return a digest of a file's size and samples, and of ``more``: 16 bytes.

    It does not read whole files. Two files of one size that differ in a few places may
    have the same digest; a file that changes is found by its version.
    """
    size = storage.size(path)
    digest = hashlib.blake2b(
        f"{size}".encode(), digest_size=16, person=b"pagefeed.flat"
    )
    last = max(0, size - _SAMPLE_BYTES)
    for begin in np.unique(np.linspace(0, last, _SAMPLES).astype(np.int64)).tolist():
        digest.update(storage.read(path, begin, min(begin + _SAMPLE_BYTES, size)))
    for data in more:
        digest.update(b"%d " % len(data) + data)
    return digest.digest()


def check_fitting(
    values: npt.NDArray[Any], dtype: np.dtype[Any], name: str
) -> npt.NDArray[Any]:
    """Check that values fit a type, and return them unchanged.

    Raises:
        InvalidArgumentError: If they should be integers and are not.
        TokenRangeError: If a value is out of range.
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
