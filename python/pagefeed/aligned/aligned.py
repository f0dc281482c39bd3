"""Columns with numbers for every token of the same row, cut like the tokens."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np

from pagefeed.core._base import (
    FIELDS,
    IGNORED,
    LABELS,
    MOST,
    check_choice,
    check_column,
    check_columns,
    check_flag,
    check_number,
    check_positive,
    check_whole,
    to_bfloat16,
)
from pagefeed.core.dataset import Dataset, PageIndex, refuse_nulls
from pagefeed.errors import CorruptFileError, InvalidArgumentError, UnsupportedError

LENGTHS = "lengths"
"""Name of the lengths of padded documents in a batch."""


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """A column with values for each token, and how a batch carries it.

    Args:
        width: How many numbers each token has. With more than one, the column arrives
            as [batch_size, length, width]. The files then hold lists of lists, or one
            list a row with ``width`` numbers for each of its tokens. By default the
            width comes from the files: the size of fixed-size lists, or the numbers
            divided by the tokens of lists of lists. Otherwise it is 1.
        padding: The number where a token has none: in padding and separators, at the
            end of short lists, and in the tokens before ``first``. By default -100 for
            ``labels``, else 0.
        count: Name of a field that says how many numbers each token has: int32
            [batch_size, length]. Tokens may then have fewer than ``width``. Without it,
            files with such tokens are refused.
        shifted: Move the numbers of a token one position earlier, to where the token is
            predicted, as ``Fields(shifted=True)`` does with labels. The last position
            of a document then has padding, unless ``across_documents`` lets the next
            one follow.
        first: Index in a row of the first token that has numbers. Give 1 for a model's
            predictions of each token from those before it.
        dtype: ``"bfloat16"`` reads the numbers of a uint16 column as the bits of this
            type. Tensors of torch have it, and arrays of NumPy stay uint16.
        scale: Factor for a column of 8-bit integers. A batch has float32: integer *
            scale.
        of_next: The numbers at a token describe the token after it, as a model's
            predictions do. Where infilling puts another token there, they become
            padding. By default true for several numbers a token, unless ``shifted`` or
            ``first`` is given.
        carries_loss: The numbers say what a model learns. As nothing predicts the first
            token of a document in a row, it gets the padding of ``labels``, or 0. With
            ``across_documents`` the document before it predicts it. By default true for
            ``labels``, ``loss_mask`` and names that end in ``weight`` or ``weights``,
            unless ``of_next`` is true.

    Raises:
        InvalidArgumentError: If an argument is invalid.

    Example:
        >>> Aligned(width=64, padding=-1, count="teacher_count").width
        64
    """

    width: int | None = None
    padding: float | None = None
    count: str | None = None
    shifted: bool = False
    first: int = 0
    dtype: Literal["bfloat16"] | None = None
    scale: float | None = None
    of_next: bool | None = None
    carries_loss: bool | None = None

    def __post_init__(self) -> None:
        if self.width is not None:
            check_positive(self.width, "width")
        if self.padding is not None:
            check_number(self.padding, "padding")
        if self.count is not None:
            check_column(self.count, "count")
        check_flag(self.shifted, "shifted")
        check_whole(self.first, "first", least=0, most=MOST)
        of_next = self.of_next is not None and check_flag(self.of_next, "of_next")
        if of_next and self.shifted:
            raise InvalidArgumentError(
                "shifted=True moves the numbers of a token to where it is predicted, "
                "and of_next=True says that they stand there already: leave one out"
            )
        if self.carries_loss is not None:
            check_flag(self.carries_loss, "carries_loss")
        if self.dtype is not None:
            check_choice(self.dtype, ("bfloat16",), "dtype")
        if self.scale is None:
            return
        if self.dtype is not None:
            raise InvalidArgumentError("dtype='bfloat16' needs no scale: leave one out")
        check_number(self.scale, "scale", above=0, below=math.inf)


AlignedColumnNames: TypeAlias = Iterable[str] | Mapping[str, float | Aligned]
"""Names of columns, or a mapping from names to their padding or their full settings."""


class AlignedSource(Protocol):
    """The pages of an aligned column."""

    @property
    def handle(self) -> Any:
        """Handle of the data plane; its ``number_type`` is a NumPy type name."""

    @property
    def value_bytes(self) -> int:
        """Bytes of a number."""


class AlignedColumn(NamedTuple):
    """A column with numbers for every token."""

    column: str
    """Name of the column, in files and in batches."""
    like: Aligned
    """Type, width and padding of the values of a token."""

    @property
    def padding(self) -> float:
        """The number for tokens that have none."""
        if self.like.padding is not None:
            return self.like.padding
        return IGNORED if self._name == LABELS else 0

    @property
    def _name(self) -> str:
        return self.column.rpartition(".")[2]

    def unlearned(self, width: int) -> float | None:
        """Return the number for tokens without loss; None if the column has none."""
        carries_loss = self.like.carries_loss
        if carries_loss is None:
            is_named = self._name in (LABELS, "loss_mask")
            is_named |= self._name.endswith(("weight", "weights"))
            carries_loss = is_named and not self.is_of_next(width)
        if not carries_loss:
            return None
        return self.padding if self._name == LABELS else 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that a batch has for the column."""
        return (self.column, *((self.like.count,) if self.like.count else ()))

    def beside(self, datasets: Sequence[Dataset], fill: Collection[str]) -> Any:
        """Return all aligned columns of datasets, as batches have them."""
        from pagefeed.aligned.columns import AlignedColumns

        return AlignedColumns.of(datasets, fill)

    def check(self, tokens: PageIndex, other: PageIndex) -> None:
        """Check that every token has its numbers, see :func:`check_aligned_index`."""
        check_aligned_index(tokens, other, self)

    def dtype(self, source: AlignedSource) -> str:
        """Return the type of the column in a batch.

        Raises:
            InvalidArgumentError: If ``dtype`` or ``scale`` does not suit the type in
                the files.
        """
        stored = str(source.handle.number_type)
        like = self.like
        wanted = {"uint16"} if like.dtype else {"int8", "uint8"}
        if (like.dtype or like.scale) and stored not in wanted:
            asked = "dtype='bfloat16'" if like.dtype else f"scale={like.scale}"
            raise InvalidArgumentError(
                f"column {self.column!r} holds {stored} numbers, but {asked} needs "
                f"{' or '.join(sorted(wanted))}: leave {asked} out"
            )
        return like.dtype or ("float32" if like.scale else stored)

    def width(self, source: AlignedSource, tokens: PageIndex) -> int:
        """Return how many numbers a token has in a batch.

        Args:
            source: Pages of the aligned column.
            tokens: Pages of the tokens.

        Raises:
            InvalidArgumentError: If lists of lists do not show one width, and none is
                given.
        """
        if self.like.width is not None:
            return self.like.width
        handle = source.handle
        if getattr(handle, "list_size", None) is not None:
            return int(handle.list_size)
        if getattr(handle, "list_depth", 1) < 2:
            return 1
        tokens = tokens.plain  # Without what infilling adds.
        width, rest = divmod(handle.num_values, max(1, tokens.num_values))
        if rest or not width or self.like.first or self.like.count is not None:
            raise InvalidArgumentError(
                f"column {self.column!r} holds lists of lists, {handle.num_values} "
                f"values for {tokens.num_values} tokens: say how many a token has in a "
                f"batch, as in aligned={{{self.column!r}: pagefeed.Aligned("
                f"width={width + 1})}}"
            )
        return int(width)

    def is_of_next(self, width: int) -> bool:
        """Whether the ``width`` numbers at a token belong to the next token."""
        like = self.like
        if like.of_next is not None:
            return like.of_next
        return width > 1 and not (like.shifted or like.first)

    def filling(self, source: AlignedSource) -> int | None:
        """Return the bits that special tokens of infilled documents get in a row.

        Returns:
            None unless every token of the rows has exactly one plain number. Other
            columns are infilled in sequences only.
        """
        like = self.like
        asks = like.width not in (None, 1) or like.first or like.count or like.scale
        if asks or like.of_next or getattr(source.handle, "list_depth", 1) > 1:
            return None
        return self.bits(self.padding, self.dtype(source))

    def token_bytes(self, source: AlignedSource, tokens: PageIndex) -> int:
        """Return the bytes that each token takes while it is read."""
        return self.width(source, tokens) * source.value_bytes

    def bits(self, number: float, dtype: str) -> int:
        """Return the bits of a number when stored as ``dtype``.

        Raises:
            InvalidArgumentError: If the type cannot hold the number.

        Example:
            >>> hex(AlignedColumn("labels", Aligned()).bits(-100, "int16"))
            '0xff9c'
        """
        if dtype == "bfloat16":
            return int(to_bfloat16(number))
        kind = np.dtype(dtype)
        is_float = kind.kind == "f"
        if not is_float and not (
            float(number).is_integer()
            and np.iinfo(kind).min <= number <= np.iinfo(kind).max
        ):
            raise InvalidArgumentError(
                f"column {self.column!r} holds {dtype} numbers, and its padding or "
                f"eos, {number}, does not fit: choose a padding such as "
                f"aligned={{{self.column!r}: 0}}, or write the column in another type"
            )
        value = number if is_float else int(number)
        return int.from_bytes(np.array(value, kind).tobytes(), "little")

    def asked(
        self, dtype: str, width: int, behind: float | None = None
    ) -> dict[str, Any]:
        """Return the settings of the column for the data plane.

        Args:
            dtype: Type of the column in a batch.
            width: How many numbers a token has.
            behind: The number for separators after rows; None for padding.
        """
        like, padding = self.like, self.bits(self.padding, dtype)
        unlearned = self.unlearned(width)
        return {
            "padding": padding,
            "behind": padding if behind is None else self.bits(behind, dtype),
            "width": width,
            "is_counted": like.count is not None,
            "num_without": like.first,
            "scale": like.scale,
            "is_shifted": like.shifted,
            "is_of_next": self.is_of_next(width),
            "unlearned": None if unlearned is None else self.bits(unlearned, dtype),
        }


def parse_aligned(
    aligned: AlignedColumnNames, taken: Iterable[str]
) -> tuple[AlignedColumn, ...]:
    """Return aligned columns from names, or from a mapping with their settings.

    Args:
        aligned: The columns.
        taken: Columns that have another role.

    Raises:
        InvalidArgumentError: If a name is invalid or named twice.
    """
    names = check_columns(aligned, "aligned")
    asked = aligned if isinstance(aligned, Mapping) else {}
    columns = []
    for name in names:
        like = asked.get(name, Aligned())
        if not isinstance(like, Aligned):
            if isinstance(like, bool) or not isinstance(like, int | float):
                raise InvalidArgumentError(
                    f"aligned={{{name!r}: {like!r}}} must give a number for padding, "
                    "or a pagefeed.Aligned(...)"
                )
            like = Aligned(padding=like)
        columns.append(AlignedColumn(name, like))
    all_names = [name for column in columns for name in column.names]
    if len({*all_names, *taken}) < len(all_names) + len(set(taken)):
        raise InvalidArgumentError(
            f"aligned={list(names)} gives a batch {', '.join(all_names)} next to "
            f"{', '.join(taken)}: name each once"
        )
    for name in all_names:
        if name == LENGTHS or (name in FIELDS and FIELDS[name].is_ours_alone):
            raise InvalidArgumentError(
                f"aligned={list(names)}: a batch has a field {name!r}; rename the "
                "column"
            )
    counts = [column.like.count for column in columns if column.like.count in FIELDS]
    for name in counts[:1]:
        raise InvalidArgumentError(
            f"count={name!r} would stand for the field of this name: name the count "
            "otherwise, such as 'teacher_count'"
        )
    return tuple(columns)


def check_aligned_index(
    tokens: PageIndex, other: PageIndex, column: AlignedColumn
) -> None:
    """Check, by the counts in the index, that every token has its numbers.

    Raises:
        UnsupportedError: If the column holds no numbers, or lists with nulls in them.
        CorruptFileError: If the numbers do not match the tokens.
    """
    if other.handle.number_type is None:
        raise UnsupportedError(
            f"column {other.column!r} of {other.files[0]} holds no numbers: aligned "
            "names lists of integers or floats, or lists of these"
        )
    refuse_nulls(
        other,
        other.null_pages,
        "a row holds a null, which stands for no number",
        "write the file without nulls in lists",
    )
    column.dtype(other)
    column.width(other, tokens)
    num_tokens, num_values = (
        np.diff(index.file_first_value) for index in (tokens, other)
    )
    if column.like.first or column.like.count is not None:
        return
    wrong = np.flatnonzero(num_tokens * column.width(other, tokens) != num_values)
    if len(wrong):
        _refuse(tokens, other, column, int(wrong[0]))


def _refuse(
    tokens: PageIndex, other: PageIndex, column: AlignedColumn, file: int
) -> NoReturn:
    """Raise the error of the first row of a file with other values than its tokens."""
    begin, end = tokens.file_first_page[file : file + 2].tolist()
    asked = column.asked(column.dtype(other), column.width(other, tokens))
    for page in range(begin, end):
        tokens.handle.check_aligned(page, other.handle, asked)
    num_values = int(np.diff(other.file_first_value)[file])
    count = int(np.diff(tokens.file_first_value)[file])
    raise CorruptFileError(
        f"{other.files[file]}, column {other.column}: {num_values} values and {count} "
        f"tokens of {column.width(other, tokens)} values each; index the file with "
        "page_index=False, or write it again"
    )
