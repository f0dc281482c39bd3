"""Read columns of images, and of their sizes, from Arrow arrays."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.errors import UnsupportedError


def pyarrow(name: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return require(name, extra="pyarrow", purpose="images beside text")


def images_of(column: Any) -> tuple[Int64Array, list[memoryview | None]]:
    """Return the images of rows, as views of the memory of the column.

    Args:
        column: An Arrow array with an image or a list of images per row. An image is
            binary, or a struct with ``bytes`` as on the Hugging Face Hub.

    Returns:
        The number of images of each row, int64 [rows]; and the bytes of each image in
        order, None for a null.

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
            f"a column of images holds {column.type}: expected binary, or structs with "
            "bytes, one or a list of them a row"
        )
    data = [memoryview(x.as_buffer()).cast("B") if x.is_valid else None for x in values]
    return np.asarray(counts.fill_null(0), dtype=np.int64), data


def shapes_of(column: Any) -> tuple[Int64Array, Int64Array]:
    """Return the sizes of the images of rows, from a column of sizes.

    Args:
        column: A size or a list of sizes per row. A size is a struct with ``width`` and
            ``height``, or a list of the two.

    Returns:
        The number of images of each row, int64 [rows]; width and height of each image,
        int64 [images, 2], 0 for a null.

    Raises:
        UnsupportedError: If it holds anything else.
    """
    try:
        rows = [_sizes_of(row) for row in column.to_pylist()]
        sizes = np.array([*chain(*rows)], dtype=np.int64).reshape(-1, 2)
    except (TypeError, ValueError) as problem:
        raise UnsupportedError(
            f"a column of sizes holds {column.type}: expected structs with width and "
            "height, or lists of the two, one or a list of them a row"
        ) from problem
    return np.array([*map(len, rows)], dtype=np.int64), sizes


def _sizes_of(row: Any) -> list[tuple[int, int]]:
    """Return width and height of each image of a row; 0, 0 for a null in a list."""
    match row:
        case None | []:
            return []
        case {"width": width, "height": height} | [int(width), int(height)]:
            return [(width, height)]
        case [*sizes]:
            return [*chain(*(_sizes_of(size) or [(0, 0)] for size in sizes))]
    raise TypeError(f"expected (width, height), found {row!r:.60}")
