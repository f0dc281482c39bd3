"""What is known of every image: its size, kept beside the index, and its tokens."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pagefeed.contract import PageIndex, RowNumbers
from pagefeed.core._base import (
    ArrayFolder,
    ArrayWriter,
    Int64Array,
    Work,
    keeps_arrays,
    logger,
)
from pagefeed.core.dataset import derived_arrays, derived_key
from pagefeed.core.storage import names_in
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.images.columns import images_of, pyarrow, shapes_of
from pagefeed.images.headers import size_of
from pagefeed.remote import FileWriter

__all__ = ["BROKEN", "IMAGE_TOKENS", "ImageNumbers", "OfSize", "SizesOf"]

VERSION = 1
IMAGE_TOKENS = "image tokens"
"""The column with the tokens of each image of a row, as the data plane reads it."""
BROKEN = -1
"""Tokens of an image that cannot be read."""
PAGE_BYTES = 1 << 16

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SizesOf:
    """Where sizes of images are read."""

    images: PageIndex
    """The column of images."""
    sizes: PageIndex | None
    """A column with their sizes."""
    drops: bool
    """Rows with images that cannot be read are left out; else refused."""

    @property
    def index(self) -> PageIndex:
        """The column that is read."""
        return self.images if self.sizes is None else self.sizes

    def arrays(self) -> ArrayFolder:
        """Map the sizes of all images, or read them first: every page, once."""
        index, told = self.index, f"{VERSION} {self.sizes is None}"
        key = derived_key(index, told, index.fingerprint, index.column)
        return derived_arrays(index, "images", key, self._write)

    def _write(self, writer: ArrayWriter) -> None:
        logger.info(
            "the sizes of images of %d rows are read, once", self.index.num_rows
        )
        work = Work("sizes of images", total=len(self.index), unit="pages")
        writer.append("shape", [])  # There may be none.
        writer.append_sums("first", [])
        writer.append_sums("bytes", [])
        for counts, shapes, sizes in work.each(self._of_page, range(len(self.index))):
            writer.append_sums("first", counts)
            writer.append("shape", shapes[:, 0] << 32 | shapes[:, 1])
            writer.append_sums("bytes", sizes)

    def _of_page(self, page: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        column = pyarrow().array(self.index.read_page(page))
        if self.sizes is not None:
            counts, shapes = shapes_of(column)
            return counts, shapes, np.zeros(len(shapes), dtype=np.int64)
        images = images_of(column)
        read = [size_of(data or b"") or (0, 0) for data in images.data]
        sizes = np.array([len(data or b"") for data in images.data], dtype=np.int64)
        return images.counts, np.array(read, np.int64).reshape(-1, 2), sizes


class OfSize(NamedTuple):
    """What follows from the size of an image: functions of its width and height."""

    tokens: Callable[[int, int], int]
    """Its tokens."""
    cost: Callable[[int, int], float]
    """What an encoder spends on it."""
    decoded_bytes: Callable[[int, int], float]
    """Bytes of what is made of it."""


class TokensIndex(PageIndex):
    """The column with the tokens of images, with which images are read."""

    made_of: tuple[SizesOf, OfSize]
    """The arguments of :class:`ImageNumbers`."""

    def __reduce__(self) -> tuple[Callable[..., PageIndex], tuple[Any, ...]]:
        """Pickle as what it is made of."""
        return _index_of, self.made_of


class ImageNumbers:
    """The images of all rows, numbered through.

    Args:
        sizes: Where their sizes are read.
        of_size: What follows from these.

    Raises:
        CorruptFileError: If a size cannot be read; it names file, row and image.
        InvalidArgumentError: If a function returns no such number.
    """

    def __init__(self, sizes: SizesOf, of_size: OfSize) -> None:
        self.source = sizes.images
        """The column of images."""
        stored = sizes.arrays()
        self.first = stored["first"]
        """Images before each row, and in all: int64 [rows + 1]."""
        self._shape = stored["shape"]
        shapes, which = np.unique(self._shape, return_inverse=True)
        sides = [divmod(shape, 1 << 32) for shape in shapes.tolist()]

        def of_images(name: str, least: int, kind: type, otherwise: int = 0) -> Any:
            function = getattr(of_size, name)
            told = [
                _checked(name, function, side, least, kind) if all(side) else otherwise
                for side in sides
            ]
            return np.array(told, dtype=kind)[which]

        self.tokens = of_images("tokens", 1, np.int32, BROKEN)
        """Tokens of each image; -1 if it cannot be read: int32 [images]."""
        if not sizes.drops and (self.tokens == BROKEN).any():
            self._refuse(int(np.argmax(self.tokens == BROKEN)))
        cost = of_images("cost", 0, np.float64)
        made = of_images("decoded_bytes", 0, np.float64)
        # Of a column of sizes the bytes are not known, and 0.
        self._before = {
            "images": np.append(0, np.cumsum(cost)),
            "bytes": stored["bytes"],
            "decoded": np.append(0, np.cumsum(made)),
        }
        others = () if of_size.cost == of_size.tokens else (cost,)
        self.index = self._written(TokensIndex, *others)
        """The tokens of images as a column, for the data plane."""
        self.index.made_of = sizes, of_size
        pages = np.arange(len(self.source))
        self.index.bytes_beside = int(self.source.stored_bytes(pages).sum())
        self.index.numbers_beside = {
            name: RowNumbers(_digest(self.first, sums), partial(self.of_rows, name))
            for name, sums in self._before.items()
        }

    def of_rows(self, name: str, rows: Int64Array) -> Float64Array:
        """Return the cost of all images of each row, or their bytes: float64 [rows].

        Args:
            name: ``"images"`` for the cost, ``"bytes"`` as stored, ``"decoded"``.
            rows: Rows of the files.
        """
        before, first = self._before[name], self.first
        sums: Float64Array = before[first[rows + 1]] - before[first[rows]]
        return sums.astype(np.float64)

    def shapes(self, images: Int64Array) -> Int64Array:
        """Return width and height of images: int64 [images, 2]."""
        return np.stack(np.divmod(self._shape[images], 1 << 32), axis=1)

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and its number there."""
        index = self.source
        [file] = index.files_of_rows([row]).tolist()
        return index.files[file], row - int(index.file_first_row[file])

    def _refuse(self, image: int) -> NoReturn:
        row = int(np.searchsorted(self.first, image, side="right")) - 1
        file, number = self.place(row)
        count = int((self.tokens == BROKEN).sum())
        raise CorruptFileError(
            f"{file}, column {self.source.column}, row {number}, image "
            f"{image - int(self.first[row])}: its header tells no size, as of {count} "
            f"of {len(self.tokens)} images: PNG, JPEG, WebP and GIF are read; leave "
            "such rows out with broken='drop', or give a column of sizes="
        ).at(file=file, column=self.source.column)

    def _written(self, kind: type[TokensIndex], *others: Float64Array) -> TokensIndex:
        """Write the tokens of images as a file, unless the cache folder has it.

        What else decides the order of rows is in its name.
        """
        name = f"image-tokens-{_digest(self.tokens, self.first, *others)}"
        folder, temporary = self.source.cache_dir, None
        if folder is None or not keeps_arrays(folder):
            temporary = tempfile.TemporaryDirectory(prefix="pagefeed-")
            folder = temporary.name
        file = f"{folder}/{name}"  # No suffix: folders of data may hold this one.
        if name not in names_in(folder):
            arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
            tokens = arrow.array(self.tokens)
            lists = arrow.LargeListArray.from_arrays(self.first, tokens)
            # Its name makes footers differ, by which indexes are told apart.
            table = arrow.table({IMAGE_TOKENS: lists})
            table = table.replace_schema_metadata({"of": name})
            out = arrow.BufferOutputStream()
            parquet.write_table(
                table,
                out,
                use_dictionary=False,
                data_page_size=PAGE_BYTES,
                write_page_index=True,
                write_page_checksum=True,
            )
            with FileWriter(file) as writer:
                writer.write(memoryview(out.getvalue()))
        plain = PageIndex.build(file, IMAGE_TOKENS, self.source.cache_dir)
        made = kind(plain.core, plain.recipe)
        if temporary is not None:
            weakref.finalize(made, temporary.cleanup)
        return made


def _index_of(sizes: SizesOf, of_size: OfSize) -> PageIndex:
    return ImageNumbers(sizes, of_size).index


def _digest(*arrays: Any) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _checked(
    name: str, function: Any, side: tuple[int, int], least: int, kind: type
) -> Any:
    """Return what a function tells of an image of a width and height."""
    width, height = side
    try:
        told = function(width, height)
    except Exception as problem:
        raise InvalidArgumentError(
            f"{name}({width}, {height}) raised {type(problem).__name__}: {problem}"
        ) from problem
    is_number = np.issubdtype(type(told), np.integer if kind is np.int32 else np.number)
    if not (is_number and least <= told < 1 << 31):
        raise InvalidArgumentError(
            f"{name}({width}, {height}) returned {told!r:.60}: it must be a number, "
            f"{least} or more, {'whole, ' * (kind is np.int32)}of an image of this "
            "width and height"
        )
    return told
