"""The snapshot and the columns of a table, with bounds of their values.

Only the table names its columns. A file identifies a column by its field id, or by
another name: :class:`Naming` says how. Readers see a footer with the names of the
table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagefeed import _core
from pagefeed.core._base import require
from pagefeed.core.dataset import FolderColumn
from pagefeed.core.storage import Storage
from pagefeed.selection.renamed_files import open_renamed
from pagefeed.selection.table_values import TableColumn


class Bounds(NamedTuple):
    """Lower and upper bound of a column in a file."""

    lower: Any
    """Lower bound; None if unknown. NaN does not count."""
    upper: Any
    """Upper bound; None if unknown. NaN does not count."""
    may_be_null: bool = True
    """Whether rows may have no value."""
    may_have_values: bool = True
    """Whether rows may have one."""


def bounds_of(
    lower: object, upper: object, num_nulls: int | None, num_rows: int | None
) -> Bounds | None:
    """Return bounds, and what follows from the counts; None if nothing is known.

    Bounds that contradict themselves or the counts prove nothing.
    """
    if num_nulls is not None:
        if num_nulls < 0 or (num_rows is not None and num_nulls > num_rows):
            return None
        if num_nulls == num_rows and (lower is not None or upper is not None):
            return None
    if _is_above(lower, upper):
        return None
    bounds = Bounds(
        lower,
        upper,
        may_be_null=num_nulls != 0,
        may_have_values=None in (num_nulls, num_rows) or num_nulls != num_rows,
    )
    return None if bounds == Bounds(None, None) else bounds


def _is_above(lower: Any, upper: Any) -> bool:
    try:
        return bool(lower > upper)
    except TypeError:  # One is unknown.
        return False


class FileBounds(Protocol):
    """The bounds of the columns of some files."""

    def of(self, column: str) -> Sequence[Bounds | None]:
        """Return the bounds of a column in each file; None where unknown.

        Args:
            column: Its name in the table.
        """

    def with_files(self, numbers: Sequence[int]) -> FileBounds:
        """Return the bounds of some of the files."""


class FieldType(NamedTuple):
    """Type of a column of a table."""

    kind: str = "value"
    """``"value"``, ``"struct"``, ``"list"`` or ``"map"``."""
    fields: tuple[NamedField, ...] = ()
    """Fields of a struct."""
    inside: tuple[FieldType, ...] = ()
    """Items of a list; keys and values of a map."""


class NamedField(NamedTuple):
    """A column of a table, or a field in one."""

    name: str
    """Name in the table."""
    id: int | None
    """Field id."""
    names: tuple[str, ...]
    """Names in files that have no field ids."""
    type: FieldType = FieldType()
    """Type of the field."""


@dataclass(frozen=True)
class Naming:
    """Finds columns of the table in its files.

    Example:
        >>> naming = Naming((NamedField("tokens", 7, ("col-7",)),), by_name=True)
        >>> "col-7" in naming.key_of("tokens.list")
        True
    """

    fields: tuple[NamedField, ...]
    """The columns of the table."""
    by_id: bool = False
    """Whether field ids decide, in files that have any."""
    by_name: bool = False
    """Whether names decide in the others; without it these are refused."""

    @property
    def core(self) -> _core.Naming:
        """The snapshot as the data plane takes it, to read footers."""
        return _core.Naming(self.fields, by_id=self.by_id, by_name=self.by_name)

    def key_of(self, column: str) -> str:
        """Return text that identifies how a column is found in files."""
        top = [
            named for named in self.fields if f"{column}.".startswith(f"{named.name}.")
        ]
        return repr((top, self.by_id, self.by_name))

    def name_in_files(self, column: str) -> str | None:
        """Return the name of a column in files without field ids; None if unknown."""
        names = {named.name: named.names for named in self.fields}.get(column)
        return names[0] if names else None

    def open_arrow(self, storage: Storage, file: str) -> Any:
        """Open a file as pyarrow reads it, with the names of the table."""
        return open_renamed(storage, file, self.core.rename)


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The snapshot of a table, and its columns."""

    snapshot: str
    """Kind of the table and number of the snapshot: ``delta:12``."""
    types: Mapping[str, Any]
    """Arrow types of the columns of the snapshot, in their order."""
    naming: Naming | None = None
    """Finds columns in files; None if files use the names of the table."""
    of_files: Mapping[str, FolderColumn] = field(default_factory=dict)
    """Columns with one value in all rows of a file: its partition."""
    partition_decides: bool = False
    """Whether the value of a partition overrides values in its files."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of columns that a file lacks: a ``pyarrow.Scalar`` each."""
    inner_defaults: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    """Values of fields in structs that a file lacks, by their paths, in which ``item``
    is what a list holds, and ``value`` what a map does: a ``pyarrow.Scalar`` each."""
    reads: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Files that were read to know this, and their bytes, by what they are."""
    missing_as_null: bool = False
    """Whether columns are null in the rows of files that lack them."""
    bounds: FileBounds | None = None
    """Bounds of columns in each file."""
    pruned: frozenset[str] = frozenset()
    """Files left out because the table proves that none of their rows is selected."""
    without_rows: frozenset[str] = frozenset()
    """Files left out because a scan showed that none of their rows is selected."""

    @property
    def left_out(self) -> frozenset[str]:
        """Files of the snapshot of which no row is selected."""
        return self.pruned | self.without_rows

    @property
    def key(self) -> str:
        """Text that differs if columns of the same files have different values."""
        parts = [repr(self.naming), str(self.missing_as_null), str(self.types)]
        defaults = (*self.defaults.items(), *self.inner_defaults.items())
        parts += [f"{name} {value}" for name, value in defaults]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    def has_default(self, field: str) -> bool:
        """Return whether rows of files that lack a field in a struct have a value."""
        return any(".".join(path) == field for path in self.inner_defaults)

    def has_defaults_under(self, column: str) -> bool:
        """Return whether fields in a column have a default."""
        paths = map(".".join, self.inner_defaults)
        return any(path.startswith(f"{column}.") for path in paths)

    def defaults_inside(self, column: str) -> Any | None:
        """Return the defaults of fields that structs in a column have and a file lacks.

        A ``pyarrow.Scalar`` of nested structs; None if all of it is null.
        """
        top = column.partition(".")[0]
        inside = {p[1:]: v for p, v in self.inner_defaults.items() if p[0] == top}
        return _nested(inside) if inside else None

    def decides(self, column: str) -> bool:
        """Return whether a column has the partition's values, not those of files."""
        return self.partition_decides and column in self.of_files

    def constants_of(self, column: str, num_files: int) -> FolderColumn | None:
        """Return the values of a column in files that lack it.

        The value is that of the partition of the file, else the default of the column,
        else null if the rule allows it.

        Args:
            column: Its dotted name.
            num_files: Number of the files.
        """
        constant, default = self.of_files.get(column), self.defaults.get(column)
        top = column.partition(".")[0]
        has_rule = self.missing_as_null and top in self.types
        if constant is None and default is None and not has_rule:
            return None
        if constant is None:
            kind = self.type_of(column)
            if kind is None:
                return None
            constant = TableColumn(
                (),
                np.zeros(num_files, dtype=np.int64),
                kind,
                np.zeros(num_files, dtype=np.bool_),
            )
        if not isinstance(constant, TableColumn) or constant.is_given is None:
            return constant
        if default is None and not has_rule:
            return constant
        values, number_of_file = constant.values, constant.number_of_file
        if default is not None:
            of_default = len(values)
            number_of_file = np.where(
                number_of_file == of_default, of_default + 1, number_of_file
            )
            values = (*values, default.as_py())
            number_of_file = np.where(constant.is_given, number_of_file, of_default)
        return replace(
            constant, values=values, number_of_file=number_of_file, is_given=None
        )

    def type_of(self, column: str) -> Any | None:
        """Return the Arrow type of a column as pages have it.

        A nested field comes as structs that hold this field alone. None for fields
        inside lists and maps, and for columns that the table lacks.
        """
        if column in self.types:
            return self.types[column]
        top, *path = column.split(".")
        kind: Any = self.types.get(top)
        for name in path:
            if not hasattr(kind, "get_field_index") or kind.get_field_index(name) < 0:
                return None
            kind = kind.field(name).type
        arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
        for name in reversed(path):
            kind = arrow.struct({name: kind})
        return kind

    def with_files(self, numbers: Sequence[int]) -> TableColumns:
        """Return the columns for some of the files."""
        of_files = {
            name: column.with_files(numbers) for name, column in self.of_files.items()
        }
        bounds = self.bounds and self.bounds.with_files(numbers)
        return replace(self, of_files=of_files, bounds=bounds)


def _nested(values: Mapping[tuple[str, ...], Any]) -> Any:
    """Return values by their paths as a scalar of nested structs."""
    arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
    by_name: dict[str, dict[tuple[str, ...], Any]] = {}
    for (name, *path), value in values.items():
        by_name.setdefault(name, {})[*path,] = value
    fields = {
        name: inside[()] if () in inside else _nested(inside)
        for name, inside in by_name.items()
    }
    kind = arrow.struct({name: value.type for name, value in fields.items()})
    return arrow.scalar({name: value.as_py() for name, value in fields.items()}, kind)
