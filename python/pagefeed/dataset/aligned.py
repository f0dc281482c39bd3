"""Columns with a number for every token of the same row, cut like the tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagefeed._base import FIELDS, Int64Array, check_columns
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.spans import refuse_nulls
from pagefeed.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from pagefeed.tokenizer import IGNORED, LABELS

__all__ = ["Aligned", "AlignedSource", "check_aligned_index", "parse_aligned"]

LENGTHS = "lengths"
"""What tells the lengths of padded documents, beside the fields."""


class Aligned(NamedTuple):
    """A column with a number for every token."""

    column: str
    """Its name, in files and in batches."""
    padding: float
    """The number of positions without a token of a row: padding and separators."""

    def bits(self, number: float, dtype: str) -> int:
        """Return the bits of a number in the type of the column.

        Raises:
            InvalidArgumentError: If the type cannot hold the number.

        Example:
            >>> hex(Aligned("labels", -100).bits(-100, "int16"))
            '0xff9c'
        """
        kind = np.dtype(dtype)
        is_right = kind.kind == "f"
        if not is_right:
            bounds = np.iinfo(kind)
            is_whole = float(number).is_integer()
            is_right = is_whole and bounds.min <= number <= bounds.max
        if not is_right:
            raise InvalidArgumentError(
                f"column {self.column!r} holds {dtype} numbers, and {number}, its "
                "padding or eos, is none: choose a padding such as "
                f"aligned={{{self.column!r}: 0}}, or write the column in another type"
            )
        value = number if kind.kind == "f" else int(number)
        return int.from_bytes(np.array(value, kind).tobytes(), "little")


class AlignedSource(Protocol):
    """The pages of an aligned column."""

    @property
    def handle(self) -> Any:  # noqa: ANN401 - the core's, of one kind or another
        """Handle of the data plane; its ``number_type`` is a NumPy type name."""

    @property
    def value_bytes(self) -> int:
        """Bytes of a number."""


def parse_aligned(
    aligned: Iterable[str] | Mapping[str, float], taken: Iterable[str]
) -> tuple[Aligned, ...]:
    """Return aligned columns from their names, or from names with paddings.

    Args:
        aligned: The columns.
        taken: Columns that have another role.

    Raises:
        InvalidArgumentError: If a name is invalid or named twice.
    """
    names = check_columns(aligned, "aligned")
    if len({*names, *taken}) < len(names) + len(set(taken)):
        raise InvalidArgumentError(
            f"aligned={list(names)} must name columns beside {', '.join(taken)}, "
            "each once"
        )
    for name in names:
        if name == LENGTHS or (name in FIELDS and FIELDS[name].is_ours_alone):
            raise InvalidArgumentError(
                f"aligned={list(names)}: a batch has a {name!r} of its own; rename "
                "the column"
            )
    paddings = aligned if isinstance(aligned, Mapping) else {}
    found = []
    for name in names:
        is_labels = name.rpartition(".")[2] == LABELS
        padding = paddings.get(name, IGNORED if is_labels else 0)
        if isinstance(padding, bool) or not isinstance(padding, int | float):
            raise InvalidArgumentError(
                f"aligned={{{name!r}: {padding!r}}} must give a number for padding"
            )
        found.append(Aligned(name, padding))
    return tuple(found)


def check_aligned_index(tokens: PageIndex, other: PageIndex) -> None:
    """Refuse a column without a number for every token, by the counts of the index.

    Raises:
        UnsupportedError: If it holds no numbers, or nulls inside of lists.
        CorruptFileError: If a row has another number of values than tokens.
    """
    if other.handle.number_type is None:
        raise UnsupportedError(
            f"column {other.column!r} of {other.files[0]} holds no numbers: aligned "
            "names lists of integers or floats with one for every token"
        )
    refuse_nulls(
        other,
        other.null_pages,
        "a row holds a null, which stands for no number",
        "write the file without nulls in lists",
    )
    values = tokens.file_first_value, other.file_first_value
    wrong = np.flatnonzero(np.diff(values[0]) != np.diff(values[1]))
    if len(wrong):
        raise _mismatch(tokens, other, int(wrong[0]))


def _mismatch(tokens: PageIndex, other: PageIndex, file: int) -> CorruptFileError:
    """Return the error of the first row with another number of values than tokens."""
    begin, end = tokens.file_first_row[file : file + 2].tolist()
    row = begin
    while row < end:
        both = [_lengths_from(index, row) for index in (tokens, other)]
        count = min(map(len, both))
        unlike = np.flatnonzero(both[0][:count] != both[1][:count])
        if len(unlike):
            break
        row += count
    found, expected = int(both[1][unlike[0]]), int(both[0][unlike[0]])
    row += int(unlike[0])
    [page] = other.pages_of_rows([row])
    where = other.locate(int(page))
    return CorruptFileError(
        f"{where.file}, row group {where.row_group}, column {other.column}, row "
        f"{row - begin} of the file: {found} values and {expected} tokens; a column "
        "with a value for every token has as many: mend the row, or leave the column "
        "out of aligned"
    ).at(**other.error_place(where))


def _lengths_from(index: PageIndex, row: int) -> Int64Array:
    """Return the lengths of the rows of a page, from ``row`` on: int64."""
    [page] = index.pages_of_rows([row])
    [first] = index.first_rows([page])
    lengths = np.diff(index.row_offsets(int(page)))
    return lengths[row - int(first) :]
