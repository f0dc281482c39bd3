"""Megatron's indexed datasets: tokens in a ``.bin``, documents in an ``.idx``."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, check_choice
from pagefeed.core.storage import PathLike, Storage
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat.flat_dataset import FlatDataset
from pagefeed.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    corrupt,
    sampled_digest,
    token_dtype,
)
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.pages import document_pages
from pagefeed.remote import FileWriter

Rows = Literal["documents", "sequences"]

_MAGIC = b"MMIDIDX\x00\x00"
_COUNTS = struct.Struct("<QBQQ")
"""Version, type of tokens, sequences, borders of documents."""
_HEADER_BYTES = len(_MAGIC) + _COUNTS.size
_DTYPES = (
    *(None, np.uint8, np.int8, np.int16, np.int32, np.int64),
    *(np.float64, np.float32, np.uint16),
)
_AT_ONCE = 1 << 18
"""Documents whose sequences are in memory at a time."""


class _Index(NamedTuple):
    """The header of an ``.idx``, and the offsets of its arrays."""

    path: str
    dtype: np.dtype[np.generic]
    num_sequences: int
    num_documents: int
    """Entries in the array of document borders: one more than documents."""
    pointers: int
    documents: int
    modes: int
    size: int


@dataclass(frozen=True, slots=True)
class MegatronFormat(FlatFormat):
    """Format of Megatron's token files."""

    rows: Rows
    """Whether a row is a document, or one of its sequences."""

    def sides(self, path: str) -> tuple[str, ...]:
        """Return the index of sequences and documents."""
        return (_idx_of(path),)

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return a digest of samples of the file and of all of its index."""
        idx = _idx_of(path)
        digest = hashlib.blake2b(digest_size=16)
        for chunk in storage.parts(idx):
            digest.update(chunk)
        return sampled_digest(storage, path, digest.digest())

    def read(self, storage: Storage, path: str) -> FlatFile:
        """Find the documents."""
        index = _read_header(storage, _idx_of(path))
        dtype = index.dtype
        token_dtype(dtype, index.path)
        borders = _borders(storage, index) if self.rows == "documents" else None
        lengths = _lengths(storage, index, borders)
        pages = document_pages(0, lengths, dtype.itemsize)
        num_bytes = int(pages.num_values.sum()) * dtype.itemsize
        if num_bytes != storage.size(path):
            raise corrupt(
                path,
                f"its index speaks of {num_bytes:,} bytes, the file has "
                f"{storage.size(path):,}: it is truncated, or belongs to another .idx",
            )
        records = Records(dtype.name, dtype.itemsize)
        return records, pages


def _idx_of(path: str) -> str:
    return path.removesuffix(".bin") + ".idx"


def _read_header(storage: Storage, path: str) -> _Index:
    size = storage.size(path)
    head = storage.read(path, 0, min(size, _HEADER_BYTES))
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        raise corrupt(path, "it does not begin like an index of Megatron's")
    version, code, sequences, documents = _COUNTS.unpack_from(head, len(_MAGIC))
    if version != 1:
        raise corrupt(path, f"its version is {version}, only 1 is known")
    kind = _DTYPES[code] if code < len(_DTYPES) else None
    if kind is None:
        raise corrupt(path, f"its type of tokens has the number {code}")
    pointers = _HEADER_BYTES + 4 * sequences
    borders = pointers + 8 * sequences
    modes = borders + 8 * documents
    if size not in (modes, modes + sequences):
        raise corrupt(
            path,
            f"{sequences:,} sequences in {documents - 1:,} documents take {modes:,} "
            f"bytes, or {modes + sequences:,} with modes, the file has {size:,}: it is "
            "truncated",
        )
    return _Index(
        path=path,
        dtype=np.dtype(kind),
        num_sequences=sequences,
        num_documents=documents,
        pointers=pointers,
        documents=borders,
        modes=modes,
        size=size,
    )


def _lengths(
    storage: Storage, index: _Index, borders: Int64Array | None
) -> Iterator[Int64Array]:
    """Yield the lengths of documents between borders, or of sequences.

    Sequences must be contiguous.
    """
    end, size = 0, index.dtype.itemsize
    num_rows = index.num_sequences if borders is None else len(borders) - 1
    for first in range(0, num_rows, _AT_ONCE):
        stop = min(num_rows, first + _AT_ONCE)
        here = (
            np.arange(first, stop + 1) if borders is None else borders[first : stop + 1]
        )
        begin, count = int(here[0]), int(here[-1] - here[0])
        lengths, pointers = (
            storage.numbers(index.path, kind, offset + width * begin, count)
            for kind, width, offset in (
                ("<i4", 4, _HEADER_BYTES),
                ("<i8", 8, index.pointers),
            )
        )
        before = np.append(0, np.cumsum(lengths, dtype=np.int64))
        expected = end + before[:-1] * size
        wrong = np.flatnonzero((pointers != expected) | (lengths < 0))
        if len(wrong):
            at = int(wrong[0])
            raise corrupt(
                index.path,
                f"sequence {begin + at} of {lengths[at]} tokens begins at byte "
                f"{pointers[at]}, expected at {expected[at]}: sequences must follow "
                "one another without gaps",
            )
        end += int(before[-1]) * size
        yield np.diff(before[here - begin])


def _borders(storage: Storage, index: _Index) -> Int64Array:
    """First sequence of each document, and the number of sequences."""
    num_borders = index.num_documents
    borders = storage.numbers(index.path, "<i8", index.documents, num_borders)
    if (
        not len(borders)
        or borders[0] != 0
        or (np.diff(borders) < 0).any()
        or borders[-1] != index.num_sequences
    ):
        raise corrupt(
            index.path,
            f"its documents do not divide its {index.num_sequences:,} sequences: they "
            "must begin with sequence 0, rise, and end with the last",
        )
    return borders


def _bin_of(prefix: PathLike) -> str:
    text = str(prefix)
    for suffix in (".bin", ".idx"):
        text = text.removesuffix(suffix)
    return f"{text}.bin"


class MegatronDataset(FlatDataset):
    """Megatron's indexed files as one dataset; made by :func:`megatron`."""

    def modes(self) -> npt.NDArray[np.int8] | None:
        """Read the mode of each sequence.

        Returns:
            int8 [sequences], in the order of the files: what kind of data it is, 0 for
            text in Megatron's multimodal data. None if a file has none.

        Raises:
            CorruptFileError: If an index is not what the format promises.
        """
        modes_of_files = []
        for path in self.files:
            index = _read_header(Storage(), _idx_of(path))
            if index.modes == index.size:
                return None
            count = index.num_sequences
            modes_of_files.append(
                Storage().numbers(index.path, "i1", index.modes, count)
            )
        return np.concatenate(modes_of_files)


def megatron(
    prefixes: PathLike | Iterable[PathLike],
    *,
    rows: Rows = "documents",
    column: str = "input_ids",
    cache_dir: PathLike | None = None,
) -> MegatronDataset:
    """Return a dataset of Megatron's ``.bin`` and ``.idx`` files, read in place.

    Args:
        prefixes: The common prefix of both files (``"corpus_text_document"``), the path
            of either file, a pattern of these, or a list, whose order is kept.
        rows: What a row is: ``"documents"``, or the ``"sequences"`` of these, such as
            the sentences of ``--split-sentences`` or the parts of a multimodal sample.
        column: Name for the column of tokens.
        cache_dir: Folder for the index, see :func:`parquet`.

    Returns:
        The dataset. Tokens of floating-point numbers are refused.

    Raises:
        MissingFileError: If no file has this prefix.

    Example:
        >>> megatron("corpus/corpus_text_document")  # doctest: +SKIP
    """
    check_choice(rows, ("documents", "sequences"), "rows")
    given = [prefixes] if isinstance(prefixes, str) else prefixes
    given = [given] if not isinstance(given, Iterable) else given
    return MegatronDataset(
        files=tuple(Storage().list_files([_bin_of(prefix) for prefix in given])),
        format=MegatronFormat(rows),
        column=column,
        cache_dir=cache_dir,
    )


class MegatronOutput(Output):
    """A ``.bin`` and an ``.idx``: one sequence a document."""

    signs = (".idx",)
    wide = "int32"

    @property
    def paths(self) -> tuple[str, ...]:
        """The two files; the index appears last."""
        return _idx_of(_bin_of(self.path)), _bin_of(self.path)

    def check(self) -> None:
        """Refuse types that an index cannot name, and files that exist."""
        dtypes = [kind and np.dtype(kind) for kind in _DTYPES]
        if self.dtype not in dtypes:
            raise InvalidArgumentError(
                f"dtype={self.dtype} cannot be written by Megatron: choose uint16 or "
                "int32"
            )
        self._code = dtypes.index(self.dtype)
        super().check()

    def begin(self) -> None:
        """Open the files."""
        self._index, self._tokens = (
            self.stack.enter_context(FileWriter(path)) for path in self.paths
        )
        self._lengths: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        self.files = [_bin_of(self.path).removesuffix(".bin")]

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        self._tokens.write(rows.tokens.tobytes())
        self._lengths.append(np.diff(rows.offsets).astype(np.int32))

    def finish(self) -> None:
        """Write the index."""
        lengths = np.concatenate(self._lengths)
        ends = np.cumsum(lengths, dtype=np.int64) * self.dtype.itemsize
        counts = self._code, len(lengths), len(lengths) + 1
        self._index.write(_MAGIC + _COUNTS.pack(1, *counts))
        self._index.write(lengths.tobytes())
        self._index.write((ends - lengths * np.int64(self.dtype.itemsize)).tobytes())
        self._index.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())
