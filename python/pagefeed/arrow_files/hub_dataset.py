"""Files and rows of a ``datasets.Dataset``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.errors import InvalidArgumentError, UnsupportedError

_HARMLESS = {"cast", "combine_chunks", "drop", "remove_column", "select"}
_HARMLESS |= {"replace_schema_metadata"}
"""Changes of a table that leave the rows and names of other columns as they are."""
_WAY_OUT = "save it by dataset.save_to_disk(folder) and give the folder"


class FileRows(NamedTuple):
    """Consecutive rows of a dataset that come from one file."""

    file: str
    """The file, in a spelling that no other block has."""
    first: int
    """First row of the file."""
    num_rows: int
    """Number of rows."""


def is_hub_dataset(value: object) -> bool:
    """Return whether a value is a dataset of the library ``datasets``."""
    return type(value).__module__.partition(".")[0] == "datasets"


def blocks_of(dataset: Any) -> tuple[list[FileRows], dict[str, Int64Array] | None]:
    """Return the files of a dataset, and which of their rows it has.

    Returns:
        The blocks, in order; and rising rows by file. None for all rows.

    Raises:
        InvalidArgumentError: If it is a dict of datasets, or another kind.
        UnsupportedError: If its rows are not those of files as they lie.
    """
    if isinstance(dataset, dict):
        raise InvalidArgumentError(
            f"{type(dataset).__name__} has several splits: give one of them, "
            + ", ".join(f"dataset[{name!r}]" for name in dataset)
        )
    if type(dataset).__name__ != "Dataset":
        raise InvalidArgumentError(
            f"{type(dataset).__name__} has no rows by number: give a datasets.Dataset, "
            "as load_dataset() returns without streaming=True"
        )
    if dataset.format["type"] == "custom":
        raise UnsupportedError(
            "the files of this Dataset lack its transform: give "
            "dataset.with_format(None), or use pagefeed.rows(dataset)"
        )
    blocks = [*_blocks(dataset.data)]
    names: dict[str, int] = {}
    for number, block in enumerate(blocks):
        folder, _, name = block.file.rpartition("/")
        # A file that occurs twice counts as two files in states and selections.
        again = names[block.file] = names.get(block.file, -1) + 1
        file = "/".join([folder, *["."] * again, name])
        blocks[number] = block._replace(file=file)
    chosen = dataset._indices  # noqa: SLF001 - it has no public name
    is_cut = any(block.first >= 0 for block in blocks)
    starts = np.cumsum([0, *(block.num_rows for block in blocks)])
    if chosen is None and not is_cut:
        return blocks, None
    rows = np.arange(int(starts[-1]))
    if chosen is not None:
        rows = np.sort(chosen.column(0).to_numpy().astype(np.int64))
    if len(rows) and (np.diff(rows) == 0).any():
        raise UnsupportedError(
            f"this Dataset has row {rows[:-1][np.diff(rows) == 0][0]} of its files "
            f"several times: {_WAY_OUT}"
        )
    if not is_cut and len(rows) == starts[-1]:
        return blocks, None
    borders = np.searchsorted(rows, starts)
    of_files = {
        block.file: rows[borders[n] : borders[n + 1]] - starts[n] + max(0, block.first)
        for n, block in enumerate(blocks)
    }
    return blocks, of_files


def _blocks(table: Any) -> Iterator[FileRows]:
    """Yield the rows of a table, file by file; -1 means all rows of a file."""
    kind = type(table).__name__
    if kind == "ConcatenationTable":
        for parts in table.blocks:
            if len(parts) > 1:
                raise UnsupportedError(
                    f"columns of this Dataset come from several tables: {_WAY_OUT}"
                )
            yield from _blocks(parts[0])
        return
    if kind != "MemoryMappedTable":
        raise UnsupportedError(
            f"rows of this Dataset are in memory, not in files: {_WAY_OUT}, or use "
            "pagefeed.rows(dataset, column=...)"
        )
    first, is_cut = 0, False
    for name, args, named in table.replays or ():
        if name == "slice":
            offset, is_cut = args[0] if args else named.get("offset", 0), True
            first += int(offset)
        elif name not in _HARMLESS:
            raise UnsupportedError(
                f"the columns of this Dataset were changed by {name}(), and its files "
                f"have the former ones: {_WAY_OUT}"
            )
    yield FileRows(table.path, first if is_cut else -1, table.num_rows)
