"""Raw token files: ``.bin`` without a header, and NumPy's ``.npy``."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, check_token
from pagefeed.core.storage import PathLike, Paths, Storage
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat.flat_dataset import FlatDataset
from pagefeed.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    corrupt,
    given_dtype,
    token_dtype,
    unsupported,
    whole,
)
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.pages import document_pages, joined_pages
from pagefeed.parsing import parsing
from pagefeed.remote import FileWriter

_MAGIC = b"\x93NUMPY"
_SCANNED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RawFormat(FlatFormat):
    """Format of raw token files."""

    dtype: str | None
    """Type of the tokens of files without a header."""
    eos: int | None
    """The last token of every document; None if documents are unknown."""

    def read(self, storage: Storage, path: str) -> FlatFile:
        """Return the tokens, and the documents if ``eos`` is given."""
        dtype, begin, count = self._content(storage, path)
        borderless = self.eos is None
        records = Records(dtype.name, dtype.itemsize, borderless=borderless)
        if self.eos is None:
            pages = joined_pages(begin, count, dtype.itemsize)
        else:
            lengths = _lengths(storage, path, dtype, begin, count, self.eos)
            pages = document_pages(begin, lengths, dtype.itemsize)
        return records, pages

    def _content(
        self, storage: Storage, path: str
    ) -> tuple[np.dtype[np.generic], int, int]:
        """Return the type of the tokens, their offset and their number."""
        size = storage.size(path)
        if size >= len(_MAGIC) and storage.read(path, 0, len(_MAGIC)) == _MAGIC:
            return _npy_content(storage, path, size)
        if self.dtype is None:
            raise InvalidArgumentError(
                f"{path} has no header: say of what type its tokens are, "
                "pagefeed.tokens(..., dtype='uint16')"
            )
        dtype = np.dtype(self.dtype)
        if size % dtype.itemsize:
            raise corrupt(
                path,
                f"{size:,} bytes are not a whole number of tokens of {dtype.name}: it "
                "is truncated, or of another dtype",
            )
        return dtype, 0, size // dtype.itemsize


def _npy_content(
    storage: Storage, path: str, size: int
) -> tuple[np.dtype[np.generic], int, int]:
    head = storage.read(path, 0, min(size, 12))
    width = 2 if head[6:7] == b"\x01" else 4
    begin = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if head[6:7] not in (b"\x01", b"\x02", b"\x03") or begin > min(size, 1 << 20):
        raise corrupt(path, "its NumPy header is damaged, or of another version")
    text = storage.read(path, 8 + width, begin).decode("latin-1")
    with parsing(path, "its NumPy header is damaged"):
        header = ast.literal_eval(text.strip())
        dtype = np.dtype(header["descr"])
        count = whole(math.prod(map(whole, header["shape"])))
        in_columns = header["fortran_order"] and len(header["shape"]) > 1
    token_dtype(dtype, path)
    if in_columns:
        raise unsupported(path, "an array in Fortran order: store it in C order")
    if begin + count * dtype.itemsize != size:
        raise corrupt(
            path,
            f"an array of {count:,} tokens takes {begin + count * dtype.itemsize:,} "
            f"bytes, the file has {size:,}: it is truncated, or not all of the file",
        )
    return dtype, begin, count


def _lengths(
    storage: Storage,
    path: str,
    dtype: np.dtype[np.generic],
    begin: int,
    count: int,
    eos: int,
) -> Iterator[Int64Array]:
    """Yield the lengths of documents, ``eos`` included; reads all tokens."""
    step, open_since = _SCANNED_BYTES // dtype.itemsize, 0
    for first in range(0, count, step):
        stop = min(count, first + step)
        size = dtype.itemsize
        data = storage.read(path, begin + first * size, begin + stop * size)
        ends = first + 1 + np.flatnonzero(np.frombuffer(data, dtype) == eos)
        if len(ends):
            yield np.diff(ends, prepend=open_since)
            open_since = int(ends[-1])
    if open_since < count:  # Tokens after the last eos are a document too.
        yield np.array([count - open_since])


def tokens(
    paths: Paths,
    *,
    dtype: npt.DTypeLike | None = None,
    eos: int | None = None,
    column: str = "input_ids",
    cache_dir: PathLike | None = None,
) -> FlatDataset:
    """Return a dataset of raw token files: ``.bin`` without a header, or ``.npy``.

    Without ``eos``, borders of documents are unknown. Each file is one document, and
    every 64 KiB of it count as a row. :class:`Windows` cut it as usual; settings that
    need documents refuse it.

    Args:
        paths: Files; folders, for the ``.bin`` and ``.npy`` files below them; patterns;
            or a list of these, whose order is kept.
        dtype: Type of the tokens of files without a header, such as ``"uint16"``:
            integers, little-endian.
        eos: The last token of every document. It stays in the tokens, so sequences need
            no ``eos``. All files are read once to find it; a cache folder
            keeps the result in the index.
        column: Name for the column of tokens.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If tokens do not come in ``dtype``.

    Example:
        >>> tokens("corpus/tokens.bin", dtype="uint16")  # doctest: +SKIP
    """
    return FlatDataset(
        files=tuple(Storage().list_files(paths, RawOutput.signs)),
        format=RawFormat(given_dtype(dtype), check_token(eos, "eos")),
        column=column,
        cache_dir=cache_dir,
    )


class RawOutput(Output):
    """Writes one file that has tokens and nothing else."""

    signs: ClassVar[tuple[str, ...]] = (".bin", ".npy")

    def begin(self) -> None:
        """Open the file."""
        self._file = self.stack.enter_context(FileWriter(self.path))
        self.files = [self.path]

    def put(self, rows: TokenRows) -> None:
        """Write documents as their tokens alone."""
        self._file.write(rows.tokens.tobytes())


class NpyOutput(RawOutput):
    """One file of tokens with the header of NumPy."""

    signs = (".npy",)

    def begin(self) -> None:
        """Open the file, and write its header."""
        super().begin()
        about: dict[str, Any] = {"descr": self.dtype.str, "fortran_order": False}
        about["shape"] = (self.num_tokens,)
        np.lib.format.write_array_header_1_0(self._file, about)
