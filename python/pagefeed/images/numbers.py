"""What is known of every image: its size, kept beside the index, and its tokens."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed.contract import PageIndex
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

__all__ = ["IMAGE_TOKENS", "ImageNumbers", "SizesOf"]

VERSION = 1
IMAGE_TOKENS = "image tokens"
"""The column with the tokens of each image of a row, as the data plane reads it."""
BROKEN = -1
"""Tokens of an image that cannot be read."""
PAGE_BYTES = 1 << 16

TokensOf = Callable[[int, int], int]


@dataclass(frozen=True)
class SizesOf:
    """Where sizes of images are read."""

    images: PageIndex
    """The column of images."""
    sizes: PageIndex | None
    """A column with their sizes."""

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
        for counts, shapes, sizes in work.each(self._of_page, range(len(self.index))):
            writer.append_sums("first", counts)
            writer.append("shape", shapes[:, 0] << 32 | shapes[:, 1])
            writer.append_sums("bytes", sizes)
        if not len(self.index):
            writer.append_sums("first", [])
            writer.append_sums("bytes", [])

    def _of_page(self, page: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        column = pyarrow().array(self.index.read_page(page))
        if self.sizes is not None:
            counts, shapes = shapes_of(column)
            return counts, shapes, np.zeros(len(shapes), dtype=np.int64)
        images = images_of(column)
        read = [
            (0, 0) if data is None else size_of(data) or (0, 0) for data in images.data
        ]
        return images.counts, np.array(read, np.int64).reshape(-1, 2), images.sizes


class TokensIndex(PageIndex):
    """The column with the tokens of images, with which images are read."""

    @classmethod
    def of_file(cls, file: str, cache_dir: str | None, stored: int) -> TokensIndex:
        """Index the file; ``stored`` are the bytes of all images."""
        plain = PageIndex.build(file, IMAGE_TOKENS, cache_dir)
        made = cls(plain.core, plain.recipe)
        made.bytes_beside = stored
        return made

    def __reduce__(self) -> tuple[Callable[..., TokensIndex], tuple[Any, ...]]:
        """Pickle as the file."""
        told = self.recipe.files[0], self.cache_dir, self.bytes_beside
        return TokensIndex.of_file, told


class ImageNumbers:
    """The images of all rows, numbered through.

    Args:
        sizes: Where their sizes are read.
        tokens: Returns the tokens of an image of a width and height.
        drops: Rows with images that cannot be read are left out; else refused.

    Raises:
        CorruptFileError: If a size cannot be read; it names file, row and image.
        InvalidArgumentError: If ``tokens`` returns no number of tokens.
    """

    def __init__(self, sizes: SizesOf, tokens: TokensOf, *, drops: bool) -> None:
        self.source = sizes.images
        """The column of images."""
        stored = sizes.arrays()
        self.first = stored["first"]
        """Images before each row, and in all: int64 [rows + 1]."""
        self.bytes = stored["bytes"]
        """Bytes of images before each, and of all: int64 [images + 1].

        All 0 where a column of sizes was read.
        """
        self._shape = stored["shape"]
        shapes, which = np.unique(self._shape, return_inverse=True)
        counts = [
            _tokens(tokens, shape >> 32, shape & 0xFFFFFFFF)
            for shape in shapes.tolist()
        ]
        self.tokens = np.array(counts, dtype=np.int32)[which]
        """Tokens of each image; -1 if it cannot be read: int32 [images]."""
        if not drops and (self.tokens == BROKEN).any():
            self._refuse(int(np.argmax(self.tokens == BROKEN)))
        self.index = self._written()
        """The same as a column, for the data plane."""

    def shapes(self, images: Int64Array) -> Int64Array:
        """Return width and height of images: int64 [images, 2]."""
        shape = self._shape[images]
        return np.stack([shape >> 32, shape & 0xFFFFFFFF], axis=1)

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and its number there."""
        index = self.source
        [file] = index.files_of_rows([row]).tolist()
        return index.files[file], row - int(index.file_first_row[file])

    def _refuse(self, image: int) -> None:
        row = int(np.searchsorted(self.first, image, side="right")) - 1
        file, number = self.place(row)
        count = int((self.tokens == BROKEN).sum())
        raise CorruptFileError(
            f"{file}, column {self.source.column}, row {number}, image "
            f"{image - int(self.first[row])}: its header tells no size, as of {count} "
            f"of {len(self.tokens)} images: PNG, JPEG, WebP and GIF are read; leave "
            "such rows out with broken='drop', or give a column of sizes="
        ).at(file=file, column=self.source.column)

    def _written(self) -> PageIndex:
        """Write the tokens of images as a file, unless the cache folder has it."""
        digest = hashlib.blake2b(self.tokens.tobytes(), digest_size=12)
        digest.update(np.ascontiguousarray(self.first).tobytes())
        name, folder = f"image-tokens-{digest.hexdigest()}", self.source.cache_dir
        place = None
        if folder is None or not keeps_arrays(folder):
            place = tempfile.TemporaryDirectory(prefix="pagefeed-")
            folder = place.name
        file = f"{folder}/{name}.parquet"
        if f"{name}.parquet" not in names_in(folder):
            arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
            lists = arrow.LargeListArray.from_arrays(
                self.first, arrow.array(self.tokens)
            )
            out = arrow.BufferOutputStream()
            parquet.write_table(
                # Its name makes footers differ, by which indexes are told apart.
                arrow.table({IMAGE_TOKENS: lists}).replace_schema_metadata(
                    {"of": name}
                ),
                out,
                use_dictionary=False,
                data_page_size=PAGE_BYTES,
                write_page_index=True,
                write_page_checksum=True,
            )
            with FileWriter(file) as writer:
                writer.write(memoryview(out.getvalue()))
        pages = np.arange(len(self.source))
        stored = int(self.source.stored_bytes(pages).sum())
        made = TokensIndex.of_file(file, self.source.cache_dir, stored)
        if place is not None:
            weakref.finalize(made, place.cleanup)
        return made


def _tokens(tokens: TokensOf, width: int, height: int) -> int:
    if not (width and height):
        return BROKEN
    found = tokens(width, height)
    is_number = isinstance(found, int | np.integer) and not isinstance(found, bool)
    if not is_number or not 0 < found < 1 << 31:
        raise InvalidArgumentError(
            f"tokens({width}, {height}) returned {found!r:.60}: it must be how many "
            "tokens an image of this width and height becomes, 1 or more"
        )
    return int(found)
