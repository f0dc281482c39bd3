"""Divide rows by the interval in which the value of a column lies."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from pagefeed.errors import InvalidArgumentError
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
from pagefeed.selection.values import Misfit, Value, compare

__all__ = ["ColumnQuery"]


class ColumnQuery(Query):
    """Divides rows by the interval in which the value of a column lies.

    Values below the first edge are in part 0, from the first edge on in part 1, and so
    on; those that are missing or not a number in the last part.
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
        refusal = f"{self.text} cannot be told by {self._edges}"
        try:
            reached = [
                compare(">=", Value(field, kind), edge).cast(pa.int32())
                for edge in self._edges
            ]
        except Misfit as misfit:
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
