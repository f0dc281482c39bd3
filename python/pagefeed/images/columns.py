"""Columns of images, and of their sizes, as Arrow has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.errors import UnsupportedError

__all__ = ["Images", "images_of", "pyarrow", "shapes_of"]


def pyarrow(name: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return require(name, extra="pyarrow", purpose="images beside text")


class Images(NamedTuple):
    """Images of some rows."""

    counts: Int64Array
    """Images of each row: int64 [rows]."""
    data: list[memoryview | None]
    """Their bytes, in order; None for a null."""


def images_of(column: Any) -> Images:
    """Return the images of rows; views of the column's memory.

    Args:
        column: An Arrow array: of each row an image or a list of them, each binary or a
            struct with ``bytes``, as the hub has them.

    Raises:
        UnsupportedError: If it holds anything else.
    """
    types, compute = pyarrow().types, pyarrow("pyarrow.compute")
    if types.is_list(column.type) or types.is_large_list(column.type):
        counts, values = compute.list_value_length(column), column.flatten()
    else:
        counts, values = column.is_valid().cast("int64"), column.drop_null()
    if types.is_struct(values.type) and values.type.get_field_index("bytes") >= 0:
        values = compute.struct_field(values, "bytes")
    if not (types.is_binary(values.type) or types.is_large_binary(values.type)):
        raise UnsupportedError(
            f"a column of images holds binary, or structs with bytes, one or a list of "
            f"them a row, and this one {column.type}"
        )
    views = (
        memoryview(x.as_buffer()).cast("B") if x.is_valid else None for x in values
    )
    counts = np.asarray(counts.fill_null(0), dtype=np.int64)
    return Images(counts, [*views])


def shapes_of(column: Any) -> tuple[Int64Array, Int64Array]:
    """Return the sizes of the images of rows, as a column of the files has them.

    Args:
        column: Of each row a size or a list of them: a struct with ``width`` and
            ``height``, or a list of the two.

    Returns:
        Images of each row, int64 [rows]; width and height, int64 [images, 2]: 0 where
        they are not told.

    Raises:
        UnsupportedError: If it holds anything else.
    """
    try:
        rows = [
            [row] if isinstance(row, dict) or (row and isinstance(row[0], int)) else row
            for row in column.to_pylist()
        ]
        sizes = [
            (size["width"], size["height"])
            if isinstance(size, dict)
            else size or (0, 0)
            for row in rows
            for size in row or ()
        ]
        found = np.array(sizes, dtype=np.int64).reshape(len(sizes), 2)
    except (KeyError, TypeError, ValueError) as problem:
        raise UnsupportedError(
            "a column of sizes holds structs with width and height, or lists of the "
            f"two, one or a list of them a row, and this one {column.type}"
        ) from problem
    return np.array([len(row or ()) for row in rows], dtype=np.int64), found
