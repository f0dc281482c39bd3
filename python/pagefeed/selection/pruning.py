"""Leave out files of a table in which, by its statistics, no row can be selected."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pagefeed.core.dataset import FolderColumn
from pagefeed.selection.predicate import query_of
from pagefeed.selection.query import (
    Expression,
    Query,
    Schema,
    arrow,
    balanced,
    field_of,
    scalar_columns,
)
from pagefeed.selection.scanning import Files, schema_of
from pagefeed.selection.table_columns import Bounds, TableColumns

COLUMNS_WITH_NULLS = 2
"""Columns whose rows with and without a value are considered separately, at most."""
GROUP = "pagefeed.group"
"""Column that identifies the file where only statistics are read."""
NO_VALUE = Bounds(None, None, may_have_values=False)
SLACK = datetime.timedelta(milliseconds=1)
"""Writers of Delta cut times to milliseconds, the upper bound as the lower one."""


def files_that_may_match(files: Files, predicate: str | Expression) -> list[int]:
    """Return the numbers of the files of a table in which a predicate may select rows.

    The others are not opened: like statistics of row groups, partition values and
    bounds of columns prove that it is true for none of their rows. A file for which the
    table has too little metadata stays. The first file is opened for the types of
    columns.

    Raises:
        InvalidArgumentError: If it is not a predicate over the columns.
        ColumnNotFoundError: If there is no such column.
    """
    query, table = query_of(predicate), files.table
    schema = schema_of(files, 0)
    expression = query.bind(schema)
    everything = [*range(len(files.files))]
    if table is None:
        return everything
    columns = []
    for name in _columns_of(query, schema):
        field, kind = field_of(schema, name)
        bounds = _bounds_of(table, name)
        if bounds is not None and any(bounds):
            columns.append(((field, kind), bounds))
    if not columns:
        return everything
    # Many files have equal bounds, such as those of a partition: look at each once.
    alike: defaultdict[tuple[Bounds | None, ...], list[int]] = defaultdict(list)
    for nth, said in enumerate(zip(*(bounds for _, bounds in columns), strict=True)):
        alike[said].append(nth)
    pa, dataset = arrow(), arrow("pyarrow.dataset")
    form, group = dataset.ParquetFileFormat(), arrow("pyarrow.compute").field(GROUP)
    fragments = [
        form.make_fragment(
            pa.py_buffer(b""), partition_expression=fact & (group == nth)
        )
        for nth, said in enumerate(alike)
        for fact in _facts([of for of, _ in columns], said)
    ]
    schema = schema.append(pa.field(GROUP, pa.int64()))
    facts = dataset.FileSystemDataset(fragments, schema, form)
    groups = {
        dataset.get_partition_keys(fragment.partition_expression)[GROUP]
        for fragment in facts.get_fragments(filter=expression)
    }
    return sorted(
        file
        for nth, files_alike in enumerate(alike.values())
        for file in files_alike
        if nth in groups
    )


def _columns_of(query: Query, schema: Schema) -> Iterable[str]:
    """Names of the columns whose bounds may be used.

    Bounds ignore NaN. So bounds of floats are used only for a query that may be pruned
    by them.
    """
    types = arrow("pyarrow.types")
    kinds = {name: kind for name, (_, kind) in scalar_columns(schema)}
    names = query.columns or tuple(kinds)
    # Fields that files lack are not among them.
    names = tuple(n for n in names if n in kinds and not types.is_nested(kinds[n]))
    if not query.columns or not query.prunes(schema):
        names = tuple(name for name in names if not types.is_floating(kinds[name]))
    return names


def _bounds_of(table: TableColumns, name: str) -> Sequence[Bounds | None] | None:
    """Return the bounds of a column in each file, from partitions or statistics."""
    from_statistics = None if table.bounds is None else table.bounds.of(name)
    column = table.of_files.get(name)
    if column is None:
        return from_statistics
    files = range(len(column.number_of_file))
    said = [_bounds_of_value(column, file) for file in files]
    return [new or old for new, old in zip(said, from_statistics or said, strict=True)]


def _bounds_of_value(column: FolderColumn, file: int) -> Bounds | None:
    value = column.value_of_file(file)
    if not column.gives(file):
        return None
    if value is None:
        return NO_VALUE
    return Bounds(value, value, may_be_null=False)


def _facts(
    columns: Sequence[tuple[Expression, Any]], said: Iterable[Bounds | None]
) -> Iterator[Expression]:
    """Return an expression that holds for all rows of a file."""
    always = arrow("pyarrow.compute").scalar(True)  # noqa: FBT003
    choices = list[list[Expression]]()
    for (field, kind), bounds in zip(columns, said, strict=True):
        if bounds is None:
            continue
        between = _between(field, kind, bounds) if bounds.may_have_values else None
        if between is None and bounds.may_have_values:
            continue
        is_null = [field.is_null()] * bounds.may_be_null
        choices.append(is_null if between is None else [between, *is_null])
    choices.sort(key=len)
    apart = sum(len(choice) == 1 for choice in choices) + COLUMNS_WITH_NULLS
    for facts in itertools.product(*choices[:apart]):
        yield balanced(lambda left, right: left & right, [always, *facts])


def _between(field: Expression, kind: Any, bounds: Bounds) -> Expression | None:
    """Return the expression that a column is within bounds; None if unknown."""
    lower, upper = (
        _constant(bound, kind, slack)
        for bound, slack in ((bounds.lower, -SLACK), (bounds.upper, SLACK))
    )
    if lower is None or upper is None:
        facts = [field >= lower] if lower is not None else []
        facts += [field <= upper] if upper is not None else []
        return facts[0] if facts else None
    types = arrow("pyarrow.types")
    if lower == upper and not types.is_floating(kind):
        return field == lower
    return (field >= lower) & (field <= upper)


_OWN = (
    *(("is_boolean", bool), ("is_integer", int), ("is_floating", float)),
    *(("is_string", str), ("is_large_string", str), ("is_decimal", decimal.Decimal)),
    *(("is_timestamp", datetime.datetime), ("is_date", datetime.date)),
)
"""Kinds of columns, and the Python type of their bounds."""


def _constant(bound: Any, kind: Any, slack: datetime.timedelta) -> Any:
    """A bound in the type of a column; None if it is not one that can be relied on."""
    pa, types = arrow(), arrow("pyarrow.types")
    own = next((own for is_kind, own in _OWN if getattr(types, is_kind)(kind)), None)
    fits = type(bound) is own and not (isinstance(bound, float) and math.isnan(bound))
    if own is datetime.datetime:
        fits = isinstance(bound, own) and (bound.tzinfo is None) == (kind.tz is None)
    try:
        if fits and types.is_timestamp(kind):
            bound += slack
        return pa.scalar(bound, kind) if fits else None
    except (pa.ArrowException, OverflowError):
        return None
