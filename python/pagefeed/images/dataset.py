"""Datasets of texts with images: :func:`with_images` makes them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NoReturn

from pagefeed.contract import PageIndex, provided
from pagefeed.core._base import check_choice, check_column, check_positive
from pagefeed.errors import InvalidArgumentError, PagefeedWarning
from pagefeed.images.feed import ImageFeed
from pagefeed.images.numbers import IMAGE_TOKENS, ImageNumbers, OfSize, SizesOf
from pagefeed.images.rows import image_rows, placeholder_id
from pagefeed.images.survey import told_long
from pagefeed.parquet_files import ParquetDataset
from pagefeed.tokenizer import Tokenizer

__all__ = ["ImageDataset", "with_images"]


class Known:
    """The numbers of images by the files they lie in; not taken to other processes."""

    def __init__(self) -> None:
        self.of_files: dict[tuple[str, ...], ImageNumbers] = {}

    def __reduce__(self) -> tuple[type[Known], tuple[()]]:
        """Pickle as nothing known."""
        return Known, ()


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageDataset(ParquetDataset):
    """Rows of tokens, some of them those of images; made by :func:`with_images`."""

    images: str
    """The column of images."""
    image_id: int
    """The token that stands for a part of an image."""
    of_size: OfSize
    """What follows from the size of an image."""
    sizes: str | None = None
    """A column with the sizes of images."""
    drops: bool = False
    """Rows that cannot be right have no tokens."""
    decode: Any = None
    """What makes something of the bytes of an image, and what runs it."""
    known: Known = field(default_factory=Known, compare=False)
    """What was read of images."""

    @property
    def numbers(self) -> ImageNumbers:
        """Sizes and tokens of all images, read on first use."""
        found = self.known.of_files
        if self.files not in found:
            sizes = None if self.sizes is None else self.column_index(self.sizes)
            source = SizesOf(self.column_index(self.images), sizes, self.drops)
            found[self.files] = ImageNumbers(source, self.of_size)
        return found[self.files]

    def column_index(self, column: str) -> PageIndex:
        """Return the page index of any column of the same rows."""
        if column == IMAGE_TOKENS:
            return self.numbers.index
        return super().column_index(column)

    def feed(
        self, settings: Any, run: Any, make: Callable[[Any, Any], Any]
    ) -> ImageFeed:
        """Return what adds images to the batches of tokens."""
        return ImageFeed(settings, run, make)

    def infill(self, infill: object) -> NoReturn:
        """Refuse: the middle of a document could be cut inside an image.

        Raises:
            InvalidArgumentError: Always.
        """
        raise InvalidArgumentError(
            f"infill({infill!r:.60}) cuts documents anywhere, and images are never "
            "cut: infill datasets without images, and mix them"
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

    Each placeholder becomes as many of its tokens as its image has, so that lengths,
    packing, budgets and balance count images. The size of every image is read from its
    header, once: a pass over the column, which a cache folder keeps. Sequences are of
    ``Packed(length, split="never")`` or ``Documents(max_length=)``: an image is never
    cut. Labels carry no loss on tokens of images.

    A batch has ``images``, a dict with an entry for each image, in the order of the
    tokens: ``sequence`` (row of the batch), ``first_token``, ``num_tokens``, ``row``
    (of the file) and ``number`` (in its row), int64 [images]; ``size``, width and
    height, int64 [images, 2]; ``file``, a list of paths; and ``data``, a list of
    memoryviews, or of what ``decode`` returns.

    Args:
        dataset: Texts or chats, by ``pagefeed.parquet(...).tokenize(tokenizer)``.
        column: The column of images: one or a list of them a row, each encoded (PNG,
            JPEG, WebP or GIF), as binary or as a struct with ``bytes``.
        placeholder: What stands for an image in the text: one token of the tokenizer.
        tokens: Returns the tokens of an image of a width and height, 1 or more; of
            common encoders see docs/explanation/images.md. Must be picklable for worker
            processes.
        cost: Returns what the encoder spends on such an image, for
            ``Balance(images=)``: by default its tokens.
        sizes: A column with the sizes of the images of a row, structs with ``width``
            and ``height``, or lists of the two: then no image is read for it.
        max_tokens: Tokens of a row at most. All tokens are counted for it at once.
        long: Rows with more are refused (``"error"``) or reported and left out.
        broken: Rows with an image whose size cannot be read, or with other numbers of
            placeholders and images, are refused or reported and left out.
        decode: A function of the bytes of an image, run on threads ahead of the step;
            or ``Decode({column: function}, workers=, processes=)``.
        decoded_bytes: Returns the bytes of what ``decode`` makes of an image of a width
            and height, which count inside ``memory``: by default 3 a pixel.

    Raises:
        InvalidArgumentError: If an argument cannot be right, or a row has more than
            ``max_tokens``.
        CorruptFileError: If an image has no size; here or when tokens are counted.
    """
    plain, tokenizer = _checked(dataset)
    column = check_column(column, "column")
    check_choice(long, ("error", "drop"), "long")
    drops = check_choice(broken, ("error", "drop"), "broken") == "drop"
    of_size = OfSize(tokens, cost or tokens, decoded_bytes or _rgb_bytes)
    for name, function in of_size._asdict().items():
        if not callable(function):
            raise InvalidArgumentError(
                f"{name}={function!r:.60} must be a function of width and height, as "
                "lambda width, height: 576"
            )
    if not isinstance(decode, Mapping) and callable(decode):
        decode = {column: decode}
    decode = None if decode is None else provided("decode")(decode)
    if decode is not None and set(decode.functions) != {column}:
        raise InvalidArgumentError(
            f"decode names {sorted(decode.functions)}: give a function for {column!r}"
        )
    if decode is not None:  # Called so in a batch.
        decode = replace(decode, functions={"data": decode.functions[column]})
    if plain.column in (column, sizes):
        raise InvalidArgumentError(
            f"column {plain.column!r} has the texts: name those of images and sizes"
        )
    image_id = placeholder_id(tokenizer, placeholder)
    same = {each.name: getattr(plain, each.name) for each in fields(ParquetDataset)}
    same |= {"selection": None, "erasures": ()}
    rows = image_rows(tokenizer, plain.column, plain.row_encoder, image_id, drops=drops)
    found = ImageDataset(
        **{**same, "row_encoder": rows},
        images=column,
        image_id=image_id,
        of_size=of_size,
        sizes=None if sizes is None else check_column(sizes, "sizes"),
        drops=drops,
        decode=decode,
    )
    chosen = plain.selection
    if chosen is not None or plain.erasures:
        erased = tuple(each.over(found.spans) for each in plain.erasures)
        chosen = None if chosen is None else chosen.over(found.spans)
        found = replace(found, selection=chosen, erasures=erased)
    return _without(found, max_tokens, drops_long=long == "drop")


def _rgb_bytes(width: int, height: int) -> int:
    return 3 * width * height


def _without(
    found: ImageDataset, most: int | None, *, drops_long: bool
) -> ImageDataset:
    """Leave out rows that have too many tokens, or none as they are broken."""
    edges = [1] if found.drops else []
    if most is not None:
        edges.append(1 + check_positive(most, "max_tokens"))
    if not edges:
        return found
    parts = [*found.by_length(edges).values()]
    if most is not None and len(parts[-1]):
        [row] = parts[-1].spans.rows_of_index([0]).tolist()
        told = told_long(found.numbers, len(parts[-1]), row, most)
        if not drops_long:
            raise InvalidArgumentError(f"{told}: long='drop' leaves them out")
        warnings.warn(f"{told}: they are left out", PagefeedWarning, stacklevel=3)
    if found.drops and len(parts[0]):
        warnings.warn(
            f"{len(parts[0]):,} of {len(found):,} rows have broken images, others than "
            "they have placeholders, or no tokens: they are left out",
            PagefeedWarning,
            stacklevel=3,
        )
    return parts[1] if found.drops else parts[0]


def _checked(dataset: object) -> tuple[ParquetDataset, Tokenizer]:
    """Return a dataset of texts whose tokens are counted, and its tokenizer."""
    if isinstance(dataset, ImageDataset):
        raise InvalidArgumentError(
            f"{dataset!r:.60} has images already: give with_images() the dataset "
            "without them"
        )
    if not isinstance(dataset, ParquetDataset) or dataset.tokenizer is None:
        raise InvalidArgumentError(
            f"with_images({dataset!r:.60}): give texts with placeholders, whose tokens "
            "are counted: pagefeed.parquet(..., column='text').tokenize(tokenizer)"
        )
    if dataset.infilling is not None:
        raise InvalidArgumentError(
            "infilled documents are cut anywhere, and images are never cut: give the "
            "dataset before infill()"
        )
    return dataset, dataset.tokenizer
