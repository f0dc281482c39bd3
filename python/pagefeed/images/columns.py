"""Read columns of images, and of their sizes, from Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, require
from pagefeed.errors import UnsupportedError
from pagefeed.images.headers import is_possible


def pyarrow(name: str = "pyarrow") -> Any:
    """Return a module of pyarrow."""
    return require(name, extra="pyarrow", purpose="images with text")


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
            ``height``, or a list of the two; whole numbers.

    Returns:
        The number of images of each row, int64 [rows]; width and height of each image,
        int64 [images, 2], 0 where a size is null or no image has it.

    Raises:
        UnsupportedError: If it holds anything else.
    """
    types, kind = pyarrow().types, column.type
    is_many = _is_list(kind) and not types.is_integer(kind.value_type)
    if is_many:
        kind = kind.value_type
    sides = [kind.value_type] if _is_list(kind) else []
    if types.is_struct(kind):
        names = "width", "height"
        sides = [
            kind.field(name).type for name in names if kind.get_field_index(name) >= 0
        ]
        sides = sides if len(sides) == 2 else []
    if not sides or not all(map(types.is_integer, sides)):
        raise UnsupportedError(
            f"a column of sizes holds {column.type}: expected structs with width and "
            "height, or lists of the two, one or a list of them a row, in whole numbers"
        )
    rows = column.to_pylist()
    many = rows if is_many else [[] if size in (None, []) else [size] for size in rows]
    sizes = [_checked_size(size) for of_row in many for size in of_row or ()]
    counts = np.array([len(of_row or ()) for of_row in many], dtype=np.int64)
    return counts, np.array(sizes, dtype=np.int64).reshape(-1, 2)


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    lists = types.is_list, types.is_large_list, types.is_fixed_size_list
    return any(is_list(kind) for is_list in lists)


def _checked_size(size: Any) -> tuple[int, int]:
    """Return width and height; 0, 0 if the size is null or impossible."""
    sides = [size["width"], size["height"]] if isinstance(size, dict) else size
    if sides is None or None in sides:
        return 0, 0
    if len(sides) != 2:
        raise UnsupportedError(f"a size of an image is (width, height), found {sides}")
    width, height = sides
    return (width, height) if is_possible(width, height) else (0, 0)
