"""Values that a table gives whole files: a partition, or a column that files lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import require
from pagefeed.core.dataset import FolderColumn

BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TableColumn(FolderColumn):
    """A column of a table with one value in all rows of a file."""

    kind: Any = None
    """Arrow type of the values."""
    is_given: BoolArray | None = None
    """Whether the table has an entry, also null, for each file; None: for all files."""

    def arrow_type(self) -> Any:
        """Return the Arrow type of the values."""
        return self.kind

    def gives(self, file: int) -> bool:
        """Return whether the table has an entry, also null, for a file."""
        return self.is_given is None or bool(self.is_given[file])

    @property
    def is_complete(self) -> bool:
        """Whether the table has an entry for all files."""
        return self.is_given is None

    def _for_engines(self, values: list[Any]) -> Any:
        return read_by_engines(values, self.kind)

    def with_files(self, numbers: Sequence[int]) -> Self:
        """Return the column for some of the files."""
        if self.is_given is None:
            return super().with_files(numbers)
        is_given = self.is_given[np.array(numbers, dtype=np.int64)]
        return replace(super().with_files(numbers), is_given=is_given)


def read_by_engines(values: list[Any], kind: Any) -> Any:
    """Return values of an Arrow type in the form that engines read."""
    arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
    batch = arrow.record_batch({"": arrow.array(values, _as_in_files(kind))})
    stream = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(stream, batch.schema) as writer:
        writer.write(batch)
    return _core.ArrowArray._from_bytes(stream.getvalue().to_pybytes())  # noqa: SLF001


def _as_in_files(kind: Any) -> Any:
    """Return a type as files have texts and lists, or wider ones, which take these."""
    arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
    types = arrow.types
    if types.is_large_string(kind) or types.is_string_view(kind):
        return arrow.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return arrow.binary()
    if types.is_struct(kind):
        fields = [(f, getattr(f.type, "storage_type", f.type)) for f in kind]
        return arrow.struct([f.with_type(_as_in_files(own)) for f, own in fields])
    if types.is_list(kind) or types.is_large_list(kind):
        item = kind.value_field
        return arrow.list_(item.with_type(_as_in_files(item.type)))
    if types.is_map(kind):
        return arrow.map_(_as_in_files(kind.key_type), _as_in_files(kind.item_type))
    return kind
