"""Parts of a dataset: rows chosen by predicate, tier, length or hash.

A ``Criterion`` labels rows. ``DividedRows`` keeps the labels next to the page index, as
runs of rows. A :class:`Selection` is one part of a division, as spans. The functions
of ``divide`` make them.
"""

from pagefeed.selection.criteria import NO_PART, Criterion, Labels
from pagefeed.selection.divide import (
    by_length,
    by_tiers,
    by_weights,
    select_rows,
    taken_by,
    where,
)
from pagefeed.selection.expansion import check_expansion, rows_at_once
from pagefeed.selection.int96 import check_years, int96_columns, is_coarse
from pagefeed.selection.pruning import files_that_may_match
from pagefeed.selection.query import Constant, Expression
from pagefeed.selection.row_groups import RowGroups
from pagefeed.selection.rows import checked_row, rows_at
from pagefeed.selection.scanning import Files, column_of, schema_of
from pagefeed.selection.selection import RowRuns, Selection
from pagefeed.selection.table_columns import (
    Bounds,
    FieldType,
    NamedField,
    Naming,
    TableColumns,
    bounds_of,
)
from pagefeed.selection.table_values import TableColumn, read_by_engines
from pagefeed.selection.taking import taken

__all__ = [
    "NO_PART",
    "Bounds",
    "Constant",
    "Criterion",
    "Expression",
    "FieldType",
    "Files",
    "Labels",
    "NamedField",
    "Naming",
    "RowGroups",
    "RowRuns",
    "Selection",
    "TableColumn",
    "TableColumns",
    "bounds_of",
    "by_length",
    "by_tiers",
    "by_weights",
    "check_expansion",
    "check_years",
    "checked_row",
    "column_of",
    "files_that_may_match",
    "int96_columns",
    "is_coarse",
    "read_by_engines",
    "rows_at",
    "rows_at_once",
    "schema_of",
    "select_rows",
    "taken",
    "taken_by",
    "where",
]
