"""Sizes of all images, kept next to the index, and what follows from them."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.caches import (
    ArrayFolder,
    ArrayWriter,
    NumbersOfRows,
    are_sums,
    derived_arrays,
    derived_key,
    keeps_arrays,
)
from pagefeed.contract import PageIndex
from pagefeed.core._base import (
    Int64Array,
    Work,
    logger,
)
from pagefeed.core.storage import names_in
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.images.columns import images_of, pyarrow, shapes_of
from pagefeed.images.headers import size_of
from pagefeed.remote import FileWriter

VERSION = 2
IMAGE_TOKENS = "image tokens"
"""The column with the tokens of each image of a row, as the data plane reads it."""
BROKEN = -1
"""Number of tokens of an image whose size cannot be read."""
PAGE_BYTES = 1 << 16

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SizesOf:
    """The columns from which sizes of images are read."""

    images: PageIndex
    """The column of images."""
    sizes: PageIndex | None
    """A column of sizes; None to read the headers of images."""

    @property
    def index(self) -> PageIndex:
        """The column that is read."""
        return self.images if self.sizes is None else self.sizes

    def arrays(self) -> ArrayFolder:
        """Map the sizes of all images; read every page for them the first time."""
        index, kind = self.index, f"{VERSION} {self.sizes is None}"
        key = derived_key(index, kind, index.fingerprint, index.column)
        return derived_arrays(index, "images", key, self._write, self._is_sound)

    def _is_sound(self, stored: ArrayFolder) -> bool:
        images, rows = stored.sizes["shape"], self.index.num_rows
        if stored.sizes != {"shape": images, "first": rows + 1, "bytes": images + 1}:
            return False
        first, most = stored["first"], np.iinfo(np.int64).max
        are_all = are_sums(first, images) and bool(first[-1] == images)
        are_sizes = bool((stored["shape"] >= 0).all())
        return are_all and are_sizes and are_sums(stored["bytes"], int(most))

    def _write(self, writer: ArrayWriter) -> None:
        logger.info("reading the sizes of images of %d rows", self.index.num_rows)
        work = Work("sizes of images", total=len(self.index), unit="pages")
        writer.append("shape", [])  # There may be none.
        writer.append_sums("first", [])
        writer.append_sums("bytes", [])
        for counts, shapes, sizes in work.map(self._of_page, range(len(self.index))):
            writer.append_sums("first", counts)
            writer.append("shape", shapes[:, 0] << 32 | shapes[:, 1])
            writer.append_sums("bytes", sizes)

    def _of_page(self, page: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        column = pyarrow().array(self.index.read_page(page))
        if self.sizes is not None:
            counts, shapes = shapes_of(column)
            return counts, shapes, np.zeros(len(shapes), dtype=np.int64)
        counts, images = images_of(column)
        read = [size_of(data or b"") or (0, 0) for data in images]
        sizes = np.array([len(data or b"") for data in images], dtype=np.int64)
        return counts, np.array(read, np.int64).reshape(-1, 2), sizes


class OfSize(NamedTuple):
    """Functions of the width and height of an image."""

    tokens: Callable[[int, int], int]
    """Number of its tokens."""
    cost: Callable[[int, int], float]
    """Cost of encoding it, for balance."""
    decoded_bytes: Callable[[int, int], float]
    """Bytes of the decoded image."""


class TokensIndex(PageIndex):
    """The page index of the column :data:`IMAGE_TOKENS`."""

    numbers: ImageNumbers
    """The images it was made for."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle the numbers of images that have this index."""
        return getattr, (self.numbers, "index")


class ImageNumbers:
    """Sizes, tokens and costs of the images of all rows, in the order of the files.

    Args:
        sizes: The columns from which sizes are read.
        of_size: Functions of the size of an image.

    Rows outside of the selection may have broken images, and sizes that the functions
    do not know: :meth:`check` looks at selected rows alone.
    """

    def __init__(self, sizes: SizesOf, of_size: OfSize) -> None:
        self._arguments = sizes, of_size
        self.source = sizes.images
        """The column of images."""
        stored = sizes.arrays()
        self.first = stored["first"]
        """Images before each row, and in all: int64 [rows + 1]."""
        self._shape = stored["shape"]
        shapes, which = np.unique(self._shape, return_inverse=True)
        sides = [divmod(shape, 1 << 32) for shape in shapes.tolist()]

        self._failures: dict[int, InvalidArgumentError] = {}
        """Errors of functions, by the shape of an image."""
        rows = [self._of_side(of_size, side) for side in sides]
        of_shape = np.array(rows, dtype=np.float64).reshape(-1, 3)
        tokens, cost, decoded = of_shape[which].T
        self.tokens = tokens.astype(np.int32)
        """Tokens of each image; -1 if its size cannot be read: int32 [images]."""
        # A column of sizes has no bytes of images: these count as 0.
        self._before = {
            "images": np.append(0, np.cumsum(cost)),
            "bytes": stored["bytes"],
            "decoded": np.append(0, np.cumsum(decoded)),
        }
        self.index = self._written(_digest(self.tokens, self.first, cost))
        """The tokens of images as a column that the data plane can read."""
        self.index.numbers = self
        pages = np.arange(len(self.source))
        self.index.bytes_beside = int(self.source.stored_bytes(pages).sum())
        for name, sums in self._before.items():
            numbers = partial(self.of_rows, name)
            sums_of = NumbersOfRows(name, _digest(self.first, sums), numbers)
            self.index.numbers_beside[name] = sums_of

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle as its arguments."""
        return ImageNumbers, self._arguments

    def of_rows(self, name: str, rows: Int64Array) -> Float64Array:
        """Return the sum over the images of each row: float64 [rows].

        Args:
            name: ``"images"`` to sum costs, ``"bytes"`` or ``"decoded"`` to sum the
                bytes of images as stored or as decoded.
            rows: Rows, numbered consecutively over all files.
        """
        before, first = self._before[name], self.first
        sums: Float64Array = before[first[rows + 1]] - before[first[rows]]
        return sums.astype(np.float64)

    def shapes(self, images: Int64Array) -> Int64Array:
        """Return width and height of images: int64 [images, 2]."""
        return np.stack(np.divmod(self._shape[images], 1 << 32), axis=1)

    def file_of(self, row: int) -> tuple[str, int]:
        """Return the path of the file that has a row, and the number of the row in it.

        Args:
            row: Number of the row among the rows of all files.
        """
        index = self.source
        [file] = index.files_of_rows([row]).tolist()
        return index.files[file], row - int(index.file_first_row[file])

    def _of_side(
        self, of_size: OfSize, side: tuple[int, int]
    ) -> tuple[int, float, float]:
        """Return tokens, cost and decoded bytes of images of a size."""
        if not all(side):
            return BROKEN, 0.0, 0.0
        try:
            return (
                _checked("tokens", of_size.tokens, side, 1, np.int32),
                _checked("cost", of_size.cost, side, 0, np.float64),
                _checked("decoded_bytes", of_size.decoded_bytes, side, 0, np.float64),
            )
        except InvalidArgumentError as error:
            self._failures[side[0] << 32 | side[1]] = error
            return BROKEN, 0.0, 0.0

    def check(self, rows: Int64Array, *, drops: bool) -> None:
        """Raise an error for the first row that has images and got no tokens.

        Args:
            rows: Numbers of rows without tokens among the rows of all files.
            drops: Whether such rows are left out. Then only those are errors whose size
                a function does not take.

        Raises:
            CorruptFileError: If the size of an image cannot be read, or the text has
                other numbers of placeholders; it names file, row and image.
            InvalidArgumentError: If a function does not take the size of an image.
        """
        rows = rows[self.first[rows + 1] > self.first[rows]]
        for row in rows if self._failures else ():
            for shape in self._shape[self.first[row] : self.first[row + 1]].tolist():
                if shape in self._failures:
                    raise self._failures[shape]
        if drops or not len(rows):
            return
        first, stop = self.first[rows[0]], self.first[rows[0] + 1]
        file, file_row = self.file_of(int(rows[0]))
        broken = np.flatnonzero(self.tokens[first:stop] == BROKEN)
        found = (
            f"its text has another number of placeholders than {stop - first} images"
        )
        if len(broken):
            found = (
                f"image {broken[0]}: its header has no size that can be read. PNG, "
                "JPEG, WebP and GIF can be read, or name a column of sizes in sizes="
            )
        more = f"; {len(rows) - 1} more rows have broken images" * (len(rows) > 1)
        raise CorruptFileError(
            f"{file}, column {self.source.column}, row {file_row}, {found}. Leave such "
            f"rows out with broken='drop'{more}"
        ).at(file=file, column=self.source.column, row=file_row)

    def _written(self, digest: str) -> TokensIndex:
        """Write the tokens of images as a file, unless the cache folder has it.

        Args:
            digest: Digest of everything that decides the order of rows, for the file's
                name.
        """
        name = f"image-tokens-{digest}"
        folder, temporary = self.source.cache_dir, None
        if folder is None or not keeps_arrays(folder):
            temporary = tempfile.TemporaryDirectory(prefix="pagefeed-")
            folder = temporary.name
        file = f"{folder}/{name}"  # No suffix: folders of data may hold this one.
        if name not in names_in(folder):
            arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
            tokens = arrow.array(self.tokens)
            lists = arrow.LargeListArray.from_arrays(self.first, tokens)
            # Footers distinguish indexes: the name in the metadata makes them differ.
            table = arrow.table({IMAGE_TOKENS: lists}, metadata={"of": name})
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
        index = TokensIndex(plain.core, plain.recipe)
        if temporary is not None:
            weakref.finalize(index, temporary.cleanup)
        return index


def _digest(*arrays: Any) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _checked(
    name: str, function: Any, side: tuple[int, int], least: int, kind: type
) -> Any:
    """Return what a function returns for a width and height, if it is in range."""
    width, height = side
    try:
        value = function(width, height)
    except Exception as problem:
        raise InvalidArgumentError(
            f"{name}({width}, {height}) raised {type(problem).__name__}: {problem}"
        ) from problem
    whole = "whole " * (kind is np.int32)
    is_number = np.issubdtype(type(value), np.integer if whole else np.number)
    most = np.iinfo(np.int32).max if whole else np.finfo(np.float64).max
    if not (is_number and least <= value <= most):
        raise InvalidArgumentError(
            f"{name}({width}, {height}) returned {value!r:.60}: it must return a "
            f"{whole}number from {least} to {most}"
        )
    return value
