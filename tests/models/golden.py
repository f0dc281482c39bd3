"""What must hold for every file and column: pages are slices of what pyarrow reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed


def whole_column(path: Path, column: str) -> pa.ChunkedArray:
    """A column, or the top-level column pruned to one leaf, as pyarrow reads it."""
    with pq.ParquetFile(path) as file:
        table = file.read(columns=[column], use_threads=False)
    if table.num_columns != 1:
        raise ValueError(f"{column!r} is {table.column_names} to pyarrow")
    return table.column(0)


def leaf_paths(path: Path) -> list[str]:
    with pq.ParquetFile(path) as file:
        return [file.schema.column(at).path for at in range(len(file.schema.names))]


def columns_of(path: Path) -> list[str]:
    """The top-level columns, then the leaves and the groups between."""
    with pq.ParquetFile(path) as file:
        found = dict.fromkeys(file.schema_arrow.names)
        for leaf in leaf_paths(path):
            parts = leaf.split(".")
            inner = (".".join(parts[:size]) for size in range(1, len(parts) + 1))
            found |= dict.fromkeys(inner) if parts[0] in found else {}
    return list(found)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without what two readers may choose.

    That is the width of offsets, views, dictionaries, extensions over a storage type,
    and names and nullability inside lists and maps.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("item", plain_type(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("item", plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    return kind


def plain(array: pa.Array) -> pa.Array:
    return array.cast(plain_type(array.type))


def leaf_counts(array: pa.Array) -> Iterator[int]:
    """How many values are not null, leaf by leaf in schema order."""
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            yield from leaf_counts(child)
    elif pa.types.is_map(kind):
        entries = pa.struct({"key": kind.key_type, "value": kind.item_type})
        yield from leaf_counts(array.cast(pa.list_(entries)))
    elif pa.types.is_nested(kind):
        yield from leaf_counts(array.flatten())
    else:
        yield len(array) - array.null_count


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal, NaN being equal to NaN."""
    return left.equals(right) or repr(left.to_pylist()) == repr(right.to_pylist())


def read_pages(index: "pagefeed.PageIndex") -> list[pa.Array]:
    return [pa.array(index.read_page(at)) for at in range(len(index))]


def check_pages(path: Path, column: str, **options: Any) -> "pagefeed.PageIndex":
    """Read a column page by page and hold it against pyarrow's; the index is returned.

    Args:
        path: One file.
        column: A top-level column or a dotted path.
        options: For `PageIndex.build`.
    """
    whole = whole_column(path, column)
    index = pagefeed.PageIndex.build(path, column=column, **options)
    pages = [plain(page) for page in read_pages(index)]
    expected = plain_type(whole.type)
    assert {str(page.type) for page in pages} <= {str(expected)}
    assert [len(page) for page in pages] == index.page_rows.tolist()
    assert index.num_rows == len(whole) == index.page_rows.sum()
    joined = pa.chunked_array(pages, expected)
    if not same(joined, plain(whole)):
        row = 0
        for at, page in enumerate(pages):
            part = plain(whole.slice(row, len(page)).combine_chunks())
            assert same(page, part), f"page {at} of {len(index)}, rows from {row}"
            row += len(page)
    check_counts(index, pages)
    check_places(index, path)
    return index


def check_counts(index: "pagefeed.PageIndex", pages: list[pa.Array]) -> None:
    """Non-null leaf values, of columns with a single leaf."""
    counts = [list(leaf_counts(page)) for page in pages]
    assert index.page_rows.dtype == index.page_values.dtype == np.int64
    assert len(index.page_values) == len(index)
    assert index.num_values == index.page_values.sum()
    if all(len(count) == 1 for count in counts):
        assert index.page_values.tolist() == [count[0] for count in counts]


def check_places(index: "pagefeed.PageIndex", path: Path) -> None:
    """What `locate` says of every page of an index over one file."""
    size = path.stat().st_size
    with pq.ParquetFile(path) as file:
        groups = file.num_row_groups
        group_rows = [file.metadata.row_group(at).num_rows for at in range(groups)]
    found = [0] * groups
    first_row, before = 0, (0, -1)
    for at, num_rows in enumerate(index.page_rows.tolist()):
        page = index.locate(at)
        assert Path(page.file) == path
        assert (page.first_row, page.num_rows) == (first_row, num_rows)
        assert (page.row_group, page.page) > before
        assert page.page >= 0
        assert page.offset >= 4
        assert 0 < page.compressed_size <= size - page.offset
        found[page.row_group] += num_rows
        first_row, before = first_row + num_rows, (page.row_group, page.page)
    assert found == group_rows
