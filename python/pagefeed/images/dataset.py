"""Datasets of texts with images: :func:`with_images` makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NoReturn, cast

import numpy as np

from pagefeed.contract import PageIndex
from pagefeed.core._base import check_choice, check_column, check_positive, warn_user
from pagefeed.documents import Decode
from pagefeed.errors import InvalidArgumentError, PagefeedWarning
from pagefeed.images.feed import ImageFeed
from pagefeed.images.numbers import IMAGE_TOKENS, ImageNumbers, OfSize, SizesOf
from pagefeed.images.rows import ImageRows, placeholder_id
from pagefeed.images.survey import long_rows
from pagefeed.parquet_files import ParquetDataset
from pagefeed.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageDataset(ParquetDataset):
    """Rows of text with images; made by :func:`with_images`."""

    images: str
    """The column of images."""
    image_id: int
    """The token of the placeholder, repeated for each token of an image."""
    of_size: OfSize
    """Functions of the size of an image: tokens, cost, decoded bytes."""
    sizes: str | None = None
    """The column of sizes; None to read the headers of images."""
    drops: bool = False
    """Whether a row with a broken image is left out; otherwise it is an error."""
    decode: Any = None
    """The function that decodes images, and its workers."""
    cached: dict[Any, ImageNumbers] = field(default_factory=dict, compare=False)
    """Sizes and tokens by the files that have them; derived datasets share it."""

    @property
    def numbers(self) -> ImageNumbers:
        """Sizes and tokens of all images, read on first use."""
        if self.files not in self.cached:
            sizes = None if self.sizes is None else self.column_index(self.sizes)
            columns = SizesOf(self.column_index(self.images), sizes)
            self.cached[self.files] = ImageNumbers(columns, self.of_size)
        return self.cached[self.files]

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of another column of the same rows."""
        if column == IMAGE_TOKENS:
            return self.numbers.index
        return super().column_index(column)

    def feed(self, settings: Any, run: Any, make: Any) -> ImageFeed:
        """Return the feed whose batches have images and tokens."""
        return ImageFeed(settings, run, make)

    @property
    def draws(self) -> bool:
        """Whether ``decode`` draws random numbers."""
        return self.decode is not None and self.decode.draws

    def infill(self, infill: object) -> NoReturn:
        """Raise an error: infilling could cut a document inside an image.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            f"infill({infill!r:.60}) may cut a document inside an image: infill a "
            "dataset without images, and mix the two"
        )


def with_images(
    dataset: ParquetDataset,
    column: str,
    *,
    placeholder: str,
    tokens: Callable[[int, int], int],
    cost: Callable[[int, int], float] | None = None,
    sizes: str | None = None,
    max_tokens: int | None = None,
    long: Literal["error", "drop"] = "error",
    broken: Literal["error", "drop"] = "error",
    decode: Any = None,
    decoded_bytes: Callable[[int, int], float] | None = None,
) -> ParquetDataset:
    """Return a dataset of texts whose placeholders are images of the same row.

    Each placeholder token is repeated once per token of its image, so that lengths,
    packing, budgets and balance count images. The size of every image is read from its
    header, in one pass over the column; a cache folder keeps the sizes. Sequences must
    be ``Packed(length, split="never")`` or ``Documents(max_length=)``, so that an image
    is never cut. Labels carry no loss on tokens of images.

    A batch has ``images``, a dict with an entry for each image, in the order of the
    tokens: ``sequence`` (row of the batch), ``first_token``, ``num_tokens``, ``row``
    (of the file) and ``number`` (in its row), int64 [images]; ``size``, width and
    height, int64 [images, 2]; ``file``, a list of paths; and ``data``, a list of
    memoryviews, or of what ``decode`` returns.

    Args:
        dataset: Texts or chats, by ``pagefeed.parquet(...).tokenize(tokenizer)``.
        column: The column of images: one image or a list of them per row, each encoded
            (PNG, JPEG, WebP or GIF), as binary or as a struct with ``bytes``.
        placeholder: Text that marks an image: one token of the tokenizer.
        tokens: Function that returns the number of tokens of an image from its width
            and height, 1 or more. For common encoders see docs/explanation/images.md.
            It must be picklable for worker processes.
        cost: Function that returns the cost of an image in its encoder from its width
            and height, for ``Balance(images=)``. By default its number of tokens.
        sizes: A column with the sizes of the images of a row, as structs with ``width``
            and ``height`` or lists of the two. Sizes are then not read from images.
        max_tokens: Most tokens of a row. With it, all tokens are counted immediately.
        long: ``"error"`` refuses rows with more tokens; ``"drop"`` leaves them out with
            a warning.
        broken: Rows with an image whose size cannot be read, or with other numbers of
            placeholders and images, are refused or reported and left out.
        decode: Function that decodes the bytes of an image, run on threads ahead of the
            step; or ``Decode({column: function}, workers=, processes=)``. It may take a
            second argument ``rng``, see :class:`Decode`.
        decoded_bytes: Function that returns the bytes of a decoded image from its width
            and height. They count toward ``memory``. By default 3 per pixel.

    Raises:
        InvalidArgumentError: If an argument cannot be right, or a row has more than
            ``max_tokens``.
        CorruptFileError: When a loader is made, if the size of an image of a selected
            row cannot be read.
    """
    plain, tokenizer = _checked(dataset)
    column = check_column(column, "column")
    check_choice(long, ("error", "drop"), "long")
    drops = check_choice(broken, ("error", "drop"), "broken") == "drop"
    of_size = OfSize(tokens, cost or tokens, decoded_bytes or _rgb_bytes)
    for name, function in of_size._asdict().items():
        if not callable(function):
            raise InvalidArgumentError(
                f"{name}={function!r:.60} must be a function of width and height, such "
                "as lambda width, height: 576"
            )
    if decode is not None:
        decode = Decode.parse({column: decode} if callable(decode) else decode)
        if set(decode.functions) != {column}:
            raise InvalidArgumentError(
                f"decode names {sorted(decode.functions)}: name {column!r} alone"
            )
        # The name of the images in a batch.
        decode = replace(decode, functions={"data": decode.functions[column]})
    if plain.column in (column, sizes):
        raise InvalidArgumentError(
            f"column {plain.column!r} has the texts: name another for images or sizes"
        )
    image_id = placeholder_id(tokenizer, placeholder)
    encoder = plain.row_encoder
    columns = (plain.column,) if encoder is None else encoder.columns
    columns = (*columns, IMAGE_TOKENS)
    same = {field.name: getattr(plain, field.name) for field in fields(ParquetDataset)}
    same |= {"selection": None, "erasures": ()}
    same["row_encoder"] = ImageRows(tokenizer, columns, encoder, image_id, drops)
    of_all_rows = ImageDataset(
        **same,
        images=column,
        image_id=image_id,
        of_size=of_size,
        sizes=None if sizes is None else check_column(sizes, "sizes"),
        drops=drops,
        decode=decode,
    )
    data = cast("ImageDataset", plain.over(of_all_rows))
    return _without_bad_rows(data, max_tokens, drops_long=long == "drop")


def _rgb_bytes(width: int, height: int) -> int:
    return 3 * width * height


def _without_bad_rows(
    data: ImageDataset, most: int | None, *, drops_long: bool
) -> ImageDataset:
    """Leave out rows with more than ``most`` tokens, and rows with broken images."""
    edges = [1] if data.drops else []
    if most is not None:
        edges.append(1 + check_positive(most, "max_tokens"))
    if not edges:
        return data
    by_length = [*data.by_length(edges).values()]
    if most is not None and len(too_long := by_length[-1]):
        [row] = too_long.spans.rows_of_index([0]).tolist()
        message = long_rows(data.numbers, len(too_long), row, most)
        if not drops_long:
            raise InvalidArgumentError(f"{message}: long='drop' leaves them out")
        warn_user(f"{message}: they are left out", PagefeedWarning)
    if data.drops and len(broken := by_length[0]):
        rows = broken.spans.rows_of_index(np.arange(len(broken)))
        data.numbers.check(rows, drops=True)
        warn_user(
            f"{len(broken):,} of {len(data):,} rows are left out: they have broken "
            "images, more or fewer images than placeholders, or no tokens",
            PagefeedWarning,
        )
    return by_length[1] if data.drops else by_length[0]


def _checked(dataset: object) -> tuple[ParquetDataset, Tokenizer]:
    """Return the dataset and its tokenizer; refuse one that cannot take images."""
    if isinstance(dataset, ImageDataset):
        raise InvalidArgumentError(
            f"{dataset!r:.60} has images already: give the dataset without them"
        )
    if not isinstance(dataset, ParquetDataset) or dataset.tokenizer is None:
        raise InvalidArgumentError(
            f"with_images({dataset!r:.60}): give texts with placeholders, whose tokens "
            "are counted: pagefeed.parquet(..., column='text').tokenize(tokenizer)"
        )
    if dataset.infilling is not None:
        raise InvalidArgumentError(
            "infill() may cut a document inside an image: leave it out"
        )
    return dataset, dataset.tokenizer
