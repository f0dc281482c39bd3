"""Divides datasets by predicates, tiers, lengths and hashes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, check_column, check_number, check_whole
from pagefeed.core.dataset import Spans
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection.criteria import (
    NO_PART,
    ByLength,
    Criterion,
    Hashing,
    Listed,
    Scan,
)
from pagefeed.selection.divided_rows import DividedRows
from pagefeed.selection.hashes import HashedColumn
from pagefeed.selection.predicate import query_of
from pagefeed.selection.query import (
    Constant,
    Expression,
    Query,
    Schema,
    arrow,
    balanced,
    field_of,
    type_of,
)
from pagefeed.selection.scanning import quantiles_of, schema_of
from pagefeed.selection.selection import Selection
from pagefeed.selection.values import LiteralTypeError, Value, compare


class ColumnQuery(Query):
    """Divides rows by the interval in which the value of a column lies.

    Part 0 has the values below the first edge, part 1 those from the first edge on, and
    so on. The last part has missing values and NaN.
    """

    def __init__(self, column: str, edges: Iterable[Constant]) -> None:
        self._edges = list(edges)
        self._column = column
        self.text = f"tiers of {column}"
        self.key = f"tiers {column!r} {self._edges!r}"
        self.columns = (column,)

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema: int32."""
        pa, pc, types = arrow(), arrow("pyarrow.compute"), arrow("pyarrow.types")
        field, kind = field_of(schema, self._column)
        refusal = f"{self.text} cannot be divided at {self._edges}"
        try:
            reached = [
                compare(">=", Value(field, kind), edge).cast(pa.int32())
                for edge in self._edges
            ]
        except LiteralTypeError as misfit:
            hint = f": {misfit}" if str(misfit) else ""
            message = f"{refusal}, the column has type {kind}{hint}"
            raise InvalidArgumentError(message) from None
        num_reached = balanced(operator.add, reached)
        missing = field.is_null(nan_is_null=types.is_floating(kind))
        last = pa.scalar(len(self._edges) + 1, pa.int32())
        expression = pc.if_else(missing, last, num_reached)
        if not types.is_integer(type_of(expression, schema, self.text)):
            raise InvalidArgumentError(refusal)
        return expression

    def prunes(self, schema: Schema) -> bool:  # noqa: ARG002 - as others are asked
        """Return False: rows without a match have a part, too, so none is left out."""
        return False


def where(spans: Spans, predicate: str | Expression) -> Selection:
    """Select the rows for which a predicate is true."""
    query = query_of(predicate)
    if spans.index.files:
        # Bind to the first file for early errors; other files are bound when read.
        query.bind(schema_of(spans.index, 0))
    return taken_by(Scan(query, [query.text]), spans)


def select_rows(
    spans: Spans, rows: Mapping[str, Int64Array], *, are_deleted: bool = False
) -> Selection:
    """Select rows, of files by their path numbers that rise; or leave them out."""
    return taken_by(Listed(rows, are_deleted=are_deleted), spans)


def taken_by(criterion: Criterion, spans: Spans) -> Selection:
    """Return the rows in the first part of a criterion."""
    return Selection(DividedRows(spans, criterion), 0)


def by_tiers(
    spans: Spans,
    column: str,
    edges: Sequence[Constant] | None,
    quantiles: int | None,
) -> dict[str, Selection]:
    """Divide by the value of a column; rows without a value become the last part."""
    check_column(column, "column")
    if (edges is None) == (quantiles is None):
        raise InvalidArgumentError("give either edges=[...] or quantiles=")
    if quantiles is not None:
        check_whole(quantiles, "quantiles", least=2, most=NO_PART - 1)
        edges = quantiles_of(spans, column, quantiles)
    checked = _rising(edges)
    missing = f"{column} is null"
    query = ColumnQuery(column, checked)
    if spans.index.files:
        query.bind(schema_of(spans.index, 0))
    criterion = Scan(query, [*_names(column, checked), missing])
    parts = _parts(spans, criterion)
    if parts[missing].num_rows == 0:
        del parts[missing]
    return parts


def by_length(spans: Spans, edges: Sequence[int]) -> dict[str, Selection]:
    """Divide by the number of tokens of the rows."""
    checked = _rising(edges)
    if not all(isinstance(edge, int) and edge > 0 for edge in checked):
        raise InvalidArgumentError(f"edges={list(edges)} must be numbers of tokens")
    numbers = [int(edge) for edge in checked]
    return _parts(spans, ByLength(numbers, _names("tokens", numbers)))


def by_weights(
    spans: Spans, weights: Mapping[str, float], seed: int, by: str | None
) -> dict[str, Selection]:
    """Divide by a hash of a column, or of the rows, in proportion to weights."""
    if not weights:
        raise InvalidArgumentError("name the parts: split(train=0.99, validation=0.01)")
    for name, weight in weights.items():
        check_number(weight, name, "a share of the rows", above=0, most=1)
    if math.fsum(weights.values()) > 1 + 1e-9:
        raise InvalidArgumentError(
            f"the shares {dict(weights)} sum to {math.fsum(weights.values())}, and "
            "must not exceed 1"
        )
    if len(weights) > NO_PART:
        raise InvalidArgumentError(
            f"{len(weights)} parts are too many: there may be {NO_PART}"
        )
    if by is None:
        return _parts(spans, Hashing(check_whole(seed, "seed"), weights))
    check_column(by, "by")
    seed = check_whole(seed, "seed", least=0, most=(1 << 63) - 1)
    criterion = HashedColumn(by, seed, weights)
    if spans.index.files:
        criterion.query.bind(schema_of(spans.index, 0))
    return _parts(spans, criterion)


def _parts(spans: Spans, criterion: Criterion) -> dict[str, Selection]:
    division = DividedRows(spans, criterion)
    return {
        name: Selection(division, index) for index, name in enumerate(criterion.parts)
    }


def _rising(edges: Any) -> list[Constant]:
    """Return checked edges as plain values."""
    is_list = isinstance(edges, Sequence | np.ndarray) and np.ndim(edges) == 1
    values: list[Any] = [
        edge.item() if isinstance(edge, np.generic) else edge
        for edge in (edges if is_list else ())
    ]
    if not values or len(values) >= NO_PART - 1:
        raise InvalidArgumentError(
            f"edges={edges!r:.200} must be a list of 1 to {NO_PART - 2} values"
        )
    try:
        rising = all(low < high for low, high in itertools.pairwise(values))
    except TypeError:  # Texts among numbers.
        rising = False
    # A NaN is not itself.
    if not rising or any(edge is None or edge != edge for edge in values):  # noqa: PLR0124
        raise InvalidArgumentError(f"edges={values!r} must rise from value to value")
    return values


def _names(what: str, edges: Sequence[Constant]) -> list[str]:
    between = [
        f"{low!r} <= {what} < {high!r}" for low, high in itertools.pairwise(edges)
    ]
    return [f"{what} < {edges[0]!r}", *between, f"{what} >= {edges[-1]!r}"]
