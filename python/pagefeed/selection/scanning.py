"""Reads the columns that queries name, in batches, with pyarrow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, Work, joined_ranges, logger
from pagefeed.core.dataset import FolderColumn, PageIndex, Spans
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    PagefeedError,
)
from pagefeed.selection.expansion import named_in, rows_at_once
from pagefeed.selection.inner_fields import is_readable, scanner_of
from pagefeed.selection.int96 import check_years, int96_columns, is_coarse, used_of
from pagefeed.selection.query import (
    Expression,
    Schema,
    arrow,
    field_of,
    scalar_columns,
    with_default,
    with_kernels,
)
from pagefeed.selection.row_groups import RowGroups, row_groups_of
from pagefeed.selection.table_columns import Naming, TableColumns

Fragment: TypeAlias = Any
"""A ``pyarrow.dataset.ParquetFileFragment``."""

BATCH_ROWS = 1 << 16
SUMMARY_ROWS = 1 << 20
COMMON_VALUES = 5
LACKING = "(a field that the file lacks)"


class Files(NamedTuple):
    """Files, and the columns in the names of their folders."""

    storage: Storage
    files: Sequence[str]
    folder_columns: Mapping[str, FolderColumn]
    table: TableColumns | None = None

    @classmethod
    def of(cls, index: PageIndex) -> Files:
        """Return the files of an index."""
        return cls(index.storage, index.files, index.folder_columns, index.recipe.table)


class Opened(NamedTuple):
    """Row groups of a file."""

    fragment: Fragment
    schema: Schema
    """Columns of the files, and those in the names of folders."""
    int96: Sequence[str] = ()
    """Columns of INT96 timestamps."""


def open_groups(row_groups: RowGroups) -> Opened:
    """Open those row groups that hold wanted rows."""
    return _with_folders(
        Files.of(row_groups.index), row_groups.file, row_groups.groups_with_rows()
    )


def schema_of(
    files: Files | PageIndex, file: int, *, as_stored: bool = False
) -> Schema:
    """Return the columns of a file, and those in the names of its folders.

    They have the types in which predicates read them, or their own.
    """
    files = files if isinstance(files, Files) else Files.of(files)
    return _with_folders(files, file, as_stored=as_stored).schema


def column_of(files: Files, column: str, file: int) -> Any:
    """Return the values of a column in all rows of a file, as an Arrow array.

    Raises:
        ColumnNotFoundError: If there is no such column.
        InvalidArgumentError: If it holds lists or further columns.
        CorruptFileError: If pyarrow cannot read it.
    """
    pa = arrow()
    fragment, schema, _ = _with_folders(files, file)
    field, _ = field_of(schema, column)
    rows = _rows_at_once(files, file, Opened(fragment, schema), column)
    try:
        scanner = scanner_of(fragment, schema, {"found": field}, rows)
        return scanner.to_table()["found"].combine_chunks()
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(files.storage, files.files[file], problem) from None


def scan(
    row_groups: RowGroups, opened: Opened, expression: Expression
) -> Iterator[tuple[Int64Array, npt.NDArray[Any]]]:
    """Evaluate an expression for the rows of a fragment.

    Args:
        row_groups: The row groups of the fragment, and others.
        opened: Some of its row groups.
        expression: Gives truth values, where null is false; or numbers.

    Yields:
        The rows of a batch, counted from the first of the row groups, and their values.

    Raises:
        CorruptFileError: If pyarrow cannot read it, or finds other rows than the
            index.
    """
    _check_years(row_groups, opened, expression)
    numbers = row_groups.numbers
    groups = [numbers.index(group.id) for group in opened.fragment.row_groups]
    if not groups:
        return
    # Batches may cross row groups: rows are counted through all of them.
    firsts = row_groups.first_rows[groups] - row_groups.begin
    rows = joined_ranges(firsts, firsts + np.diff(row_groups.first_rows)[groups])
    at = 0
    for values in _values(row_groups, opened, expression):
        here = rows[at : at + len(values)]
        at += len(values)
        if at > len(rows):
            break
        yield here, values
    if at != len(rows):
        raise CorruptFileError(
            f"{row_groups.path}: pyarrow reads {at} rows in the row groups "
            f"{[numbers[each] for each in groups]}, and the index has {len(rows)}: "
            "write the file again"
        ).at(file=row_groups.path)


def _check_years(row_groups: RowGroups, opened: Opened, expression: Expression) -> None:
    """Refuse times that would wrap around, of columns that an expression uses."""
    used = used_of(opened.int96, expression, opened.schema)
    if not used:
        return
    groups = [group.id for group in opened.fragment.row_groups]
    coarse = _open(Files.of(row_groups.index), row_groups.file, groups, unit="s")
    for name, field in used.items():
        try:
            schema = coarse.physical_schema
            scanner = scanner_of(coarse, schema, {name: field}, BATCH_ROWS)
            table = scanner.to_table()
        except (arrow().ArrowException, OSError) as problem:
            storage = row_groups.index.storage
            raise _unreadable(storage, row_groups.path, problem) from None
        unit = field_of(opened.schema, name)[1].unit
        check_years(name, table[name], unit, row_groups.path)


def quantiles_of(spans: Spans, column: str, count: int) -> list[int | float]:
    """Return the values that divide rows into ``count`` groups of equal size.

    Values are kept on disk while they are sorted, 8 bytes a row.

    Raises:
        ColumnNotFoundError: If there is no such column.
        InvalidArgumentError: If it holds no numbers, or too few different ones.
    """
    with tempfile.TemporaryFile() as file:
        num_values, is_whole = 0, True
        total, what = spans.num_rows, f"quantiles of {column}"
        logger.info("%s: %d rows are looked at", what, total)
        with Work(what, total=total, unit="rows") as work:
            for row_groups in row_groups_of(spans):
                values, whole = _numbers(row_groups, column)
                is_whole = is_whole and whole
                num_values += len(values)
                values.tofile(file)
                work.advance(row_groups.num_wanted)
        file.flush()
        if num_values < count:
            raise InvalidArgumentError(
                f"quantiles={count} of {column!r}: only {num_values} rows have a value"
            )
        sorted_values = np.memmap(file, dtype=np.float64, shape=(num_values,))
        ranks = np.arange(1, count) * num_values // count
        sorted_values.partition(ranks)
        edges = sorted_values[ranks].tolist()
        lowest = float(sorted_values[: ranks[0]].min()) if count > 1 else 0.0
        del sorted_values
    if len(set(edges)) < len(edges) or (edges and lowest == edges[0]):
        raise InvalidArgumentError(
            f"quantiles={count} of {column!r} would divide rows of equal value: the "
            f"edges are {edges}, the lowest value is {lowest}; use fewer quantiles, or "
            "edges=[...]"
        )
    return [int(edge) if is_whole else edge for edge in edges]


def _numbers(
    row_groups: RowGroups, column: str
) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the values of row groups without nulls; whether they are integers."""
    types, pc = arrow("pyarrow.types"), arrow("pyarrow.compute")
    opened = open_groups(row_groups)
    field, kind = field_of(opened.schema, column)
    if not (types.is_integer(kind) or types.is_floating(kind)):
        raise InvalidArgumentError(
            f"column {column!r} has type {kind}: quantiles need numbers; use edges"
        )
    # Nulls become NaN, which quantiles leave out.
    float_or_nan = pc.if_else(
        field.is_null(), float("nan"), field.cast("float64", safe=False)
    )
    values_of_rows = np.full(row_groups.num_rows, np.nan)
    for rows, values in scan(row_groups, opened, float_or_nan):
        values_of_rows[rows] = values
    values_of_rows = values_of_rows[row_groups.wanted()]
    return values_of_rows[~np.isnan(values_of_rows)], bool(types.is_integer(kind))


def summary_of(spans: Spans, columns: Sequence[str]) -> str:
    """Describe columns, for the message of a predicate that selects no row.

    Reads about a million rows at most. Returns an empty text instead of failing.
    """
    pa = arrow()
    tables, num_rows = [], 0
    try:
        for row_groups in row_groups_of(spans):
            opened = open_groups(row_groups)
            fields = {name: field_of(opened.schema, name)[0] for name in columns}
            files, text = Files.of(spans.index), " ".join(columns)
            rows = _rows_at_once(files, row_groups.file, opened, text)
            scanner = scanner_of(opened.fragment, opened.schema, fields, rows)
            tables.append(scanner.head(min(rows, SUMMARY_ROWS - num_rows)))
            num_rows += len(tables[-1])
            if num_rows >= SUMMARY_ROWS:
                break
        table = pa.concat_tables(tables, promote_options="permissive")
    except (PagefeedError, pa.ArrowException, OSError):
        return ""
    described = [_describe(name, table[name]) for name in columns]
    begin = f"in the first {num_rows:,} rows " if num_rows >= SUMMARY_ROWS else ""
    return begin + "; ".join(described)


def _describe(name: str, values: Any) -> str:
    """Describe a column: the range of its values, or the most frequent ones."""
    pa, pc, types = arrow(), arrow("pyarrow.compute"), arrow("pyarrow.types")
    missing = f", {values.null_count:,} null" if values.null_count else ""
    if values.null_count == len(values):
        return f"{name} is null everywhere"
    if "string" in str(values.type) or types.is_boolean(values.type):
        counts = pc.value_counts(values.drop_null()).to_pylist()
        counts.sort(key=lambda count: -count["counts"])
        shown = [f"{count['values']!r} ({count['counts']:,})" for count in counts]
        more = ", ..." if len(shown) > COMMON_VALUES else ""
        return f"{name} is {', '.join(shown[:COMMON_VALUES])}{more}{missing}"
    try:
        ends = pc.min_max(values).as_py()
    except pa.ArrowException:
        return f"{name} has type {values.type}{missing}"
    return f"{name} is from {ends['min']!r} to {ends['max']!r}{missing}"


def _with_folders(
    files: Files,
    file: int,
    row_groups: Sequence[int] | None = None,
    *,
    as_stored: bool = False,
) -> Opened:
    """Open a file with the values in the names of its folders.

    A column of the file has precedence, unless a table says otherwise.
    """
    fragment, unit = _open(files, file, row_groups), "us"
    int96 = int96_columns(fragment)
    if int96 and _naming(files) is None and not is_coarse(fragment, int96):
        fragment, unit = _open(files, file, row_groups, unit="ns"), "ns"
    schema, table = fragment.physical_schema, files.table
    if table is not None:
        schema = _in_table(schema, table)
    if not as_stored:
        fields = [field.with_type(with_kernels(field.type)) for field in schema]
        schema = arrow().schema(fields, metadata=schema.metadata)
    own = {*schema.names, *(name for name, _ in scalar_columns(schema))}
    constants = _constants(
        files, [*dict.fromkeys((*files.folder_columns, *_later(table)))]
    )
    pa, pc = arrow(), arrow("pyarrow.compute")
    facts = None
    for name, column in constants.items():
        if name in own or not column.gives(file):
            continue
        kind = column.arrow_type()
        schema = schema.append(pa.field(name, kind))
        value, field = column.value_of_file(file), pc.field(name)
        if value is None and pa.types.is_nested(kind):
            continue  # The scanner makes null structs; a null has no type to compare.
        fact = field.is_null() if value is None else field == pa.scalar(value, kind)
        facts = fact if facts is None else facts & fact
    if facts is not None:
        fragment = _open(files, file, row_groups, facts, unit)
    return Opened(fragment, schema, int96)


def _naming(files: Files) -> Naming | None:
    return None if files.table is None else files.table.naming


def _later(table: TableColumns | None) -> Iterable[str]:
    """Columns that files of a table may lack."""
    if table is None:
        return ()
    return table.types if table.missing_as_null else table.defaults


def _constants(files: Files, names: Iterable[str]) -> Mapping[str, FolderColumn]:
    """Return the columns whose values folders or a table give, by name."""
    table = files.table
    if table is None:
        return files.folder_columns
    constants = {name: table.constants_of(name, len(files.files)) for name in names}
    return {name: column for name, column in constants.items() if column is not None}


def _in_table(schema: Schema, table: TableColumns) -> Schema:
    """Return the columns of a file that a table has, in their present types."""
    fields = [
        field.with_type(
            _type_in_file(table.types[field.name], field.type, (field.name,), table)
        )
        for field in schema
        if field.name in table.types and not table.decides(field.name)
    ]
    in_table = arrow().schema(fields)
    columns = {path for path, _ in dict(scalar_columns(in_table)).values()}
    for path, value in table.inner_defaults.items():
        if path[:-1] in columns and path not in columns:
            in_table = with_default(in_table, ".".join(path), value)
    return in_table


def _type_in_file(
    kind: Any, own: Any, path: tuple[str, ...], table: TableColumns
) -> Any:
    """Return a type of a table without fields that a file does not have.

    Such fields are in structs, and have a default.
    """
    pa, types = arrow(), arrow("pyarrow.types")
    if not table.inner_defaults or not types.is_struct(kind):
        return kind
    own_types, fields = {own_field.name: own_field.type for own_field in own}, []
    for field in kind:
        name = (*path, field.name)
        if field.name not in own_types and name in table.inner_defaults:
            continue
        inside = own_types.get(field.name, field.type)
        fields.append(field.with_type(_type_in_file(field.type, inside, name, table)))
    # pyarrow does not read a struct without fields: name one that the file lacks.
    return pa.struct(fields or {LACKING: kind.field(0).type})


def _open(
    files: Files,
    file: int,
    row_groups: Sequence[int] | None = None,
    facts: Expression | None = None,
    unit: str = "us",
) -> Fragment:
    """Open a fragment of a file, with an expression that is true for all its rows.

    INT96 timestamps are read in one unit.

    Raises:
        CorruptFileError: If pyarrow cannot read its footer.
        MissingFileError: If the file is gone.
    """
    pa, dataset = arrow(), arrow("pyarrow.dataset")
    storage, path, naming = files.storage, files.files[file], _naming(files)
    form = dataset.ParquetFileFormat(coerce_int96_timestamp_unit=unit)
    try:
        fragment = form.make_fragment(
            storage.open_arrow(path)
            if naming is None
            else naming.open_arrow(storage, path),
            partition_expression=facts,
            row_groups=None if row_groups is None else list(row_groups),
        )
        fragment.ensure_complete_metadata()
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(storage, path, problem) from None
    return fragment


def _values(
    row_groups: RowGroups, opened: Opened, expression: Expression
) -> Iterator[npt.NDArray[Any]]:
    pa, pc = arrow(), arrow("pyarrow.compute")
    files, text = Files.of(row_groups.index), f"{expression}"
    rows = _rows_at_once(files, row_groups.file, opened, text)
    try:
        found = {"found": expression}
        scanner = scanner_of(opened.fragment, opened.schema, found, rows)
        for batch in scanner.to_batches():
            column = batch.column(0)
            if column.null_count:
                column = pc.fill_null(column, pa.scalar(0).cast(column.type))
            yield np.asarray(column.to_numpy(zero_copy_only=False))
    except (pa.ArrowException, OSError) as problem:
        if is_readable(opened.fragment, text, rows):
            raise InvalidArgumentError(
                f"the predicate cannot be evaluated for the rows of {row_groups.path}: "
                f"{_first_line(problem)}; cast its columns first, as in "
                "pyarrow.compute.field('number').cast('float64', safe=False)"
            ) from None
        raise _unreadable(row_groups.index.storage, row_groups.path, problem) from None


def _rows_at_once(files: Files, file: int, opened: Opened, text: str) -> int:
    """Return how many rows may be decoded at once of the columns that a text names."""
    names = named_in(text, opened.fragment)
    groups = [group.id for group in opened.fragment.row_groups]
    path, naming = files.files[file], _naming(files)
    return rows_at_once(files.storage, path, names, groups, BATCH_ROWS, naming)


def _unreadable(storage: Storage, path: str, problem: Exception) -> PagefeedError:
    try:
        storage.size(path)
    except FileAccessError as gone:  # It says nothing of the file's contents.
        return gone
    line = _first_line(problem)
    return CorruptFileError(f"{path}: pyarrow cannot read it: {line}").at(file=path)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
