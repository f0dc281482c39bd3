"""Questions to the other columns of the rows, answered by pyarrow.

Everything here is made for one schema: files of a dataset may differ in the types of
their columns.
"""

from __future__ import annotations

import ast
import hashlib
import operator
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeAlias

from pagefeed._base import near_name, require
from pagefeed.dataset.select.predicate import (
    Constant,
    Predicate,
    column_of,
    constant_of,
)
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError

__all__ = ["ColumnQuery", "Query", "arrow", "field_of", "query_of"]

Expression: TypeAlias = Any
"""A ``pyarrow.compute.Expression``."""
Schema: TypeAlias = Any
"""A ``pyarrow.Schema``."""

_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def arrow(module: str = "pyarrow") -> Any:  # noqa: ANN401
    """Import pyarrow, or a module of it.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    return require(module, extra="pyarrow", purpose="selecting rows by their columns")


class Query(ABC):
    """An expression over the columns of a row."""

    text: str
    """What it asks, as shown to people."""
    key: str
    """What tells it from all other queries."""
    columns: tuple[str, ...]
    """Columns it names, as far as that is known."""

    @abstractmethod
    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema.

        Raises:
            ColumnNotFoundError: If the schema lacks a column.
            InvalidArgumentError: If its types do not fit.
        """

    @abstractmethod
    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may show that no row of a row group is selected."""


class WhereQuery(Query):
    """A predicate in text form."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self.text = predicate.text
        self.key = f"text {predicate.text}"
        self.columns = predicate.columns

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema."""
        expression = self._boolean(self._predicate.tree, schema)
        _check_boolean(expression, schema, self.text)
        return expression

    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may be used: they say nothing about NaN.

        Every comparison with NaN is false but ``!=``, and all ranges leave it out; so
        without a negation no row is lost.
        """
        types = arrow("pyarrow.types")
        if not any(
            types.is_floating(field_of(schema, name)[1]) for name in self.columns
        ):
            return True
        return not any(
            isinstance(node, ast.Not | ast.NotEq | ast.NotIn)
            for node in ast.walk(self._predicate.tree)
        )

    def _boolean(self, node: ast.expr, schema: Schema) -> Expression:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            first, *others = [self._boolean(part, schema) for part in node.values]
            for other in others:
                first = join(first, other)
            return first
        if isinstance(node, ast.UnaryOp):
            return ~self._boolean(node.operand, schema)
        if isinstance(node, ast.Compare):
            return self._comparison(node, schema)
        name = column_of(node) or ""
        field, kind = field_of(schema, name)
        if not arrow("pyarrow.types").is_boolean(kind):
            raise self._predicate.refuse(
                node, f"column {name!r} has type {kind}: compare it with something"
            )
        return field

    def _comparison(self, node: ast.Compare, schema: Schema) -> Expression:
        left, found = node.left, None
        for comparison, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(comparison, ast.In | ast.NotIn):
                one = self._membership(left, right, schema)
                one = ~one if isinstance(comparison, ast.NotIn) else one
            elif isinstance(comparison, ast.Is | ast.IsNot):
                one = self._column(left, schema)[0].is_null()
                one = ~one if isinstance(comparison, ast.IsNot) else one
            else:
                one = _OPERATORS[type(comparison)](*self._pair(left, right, schema))
            found = one if found is None else found & one
            left = right
        return found

    def _pair(
        self, left: ast.expr, right: ast.expr, schema: Schema
    ) -> tuple[Expression, Expression]:
        """The two sides of a comparison; a literal in the type of the column."""
        values = constant_of(left), constant_of(right)
        if values[0] is not None and values[1] is not None:
            raise self._predicate.refuse(left, "no column is compared here")
        if values[0] is not None:
            field, kind = self._column(right, schema)
            return self._scalar(values[0], kind, left, right), field
        field, kind = self._column(left, schema)
        if values[1] is None:
            return field, self._column(right, schema)[0]
        return field, self._scalar(values[1], kind, right, left)

    def _membership(
        self, left: ast.expr, right: ast.expr, schema: Schema
    ) -> Expression:
        field, kind = self._column(left, schema)
        items = getattr(right, "elts", ())
        values = [
            self._scalar(value, kind, item, left)
            for item in items
            if (value := constant_of(item)) is not None
        ]
        # By equality: is_in takes null for false, so that not in would select it.
        parts = [field == value for value in values]
        parts = parts or [arrow("pyarrow.compute").scalar(bool(values))]
        return _balanced(operator.or_, parts)

    def _column(self, node: ast.expr, schema: Schema) -> tuple[Expression, Any]:
        name = column_of(node)
        if name is None:
            raise self._predicate.refuse(node, "here a column is expected")
        return field_of(schema, name)

    def _scalar(
        self,
        value: Constant,
        kind: Any,  # noqa: ANN401
        node: ast.expr,
        column: ast.expr,
    ) -> Expression:
        """A literal that can be compared with values of a type."""
        pa, types = arrow(), arrow("pyarrow.types")
        numeric = types.is_integer(kind) or types.is_floating(kind)
        if numeric or types.is_decimal(kind):
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            fits = isinstance(value, bool if types.is_boolean(kind) else str)
        try:
            if fits and isinstance(value, str) and types.is_temporal(kind):
                return pa.scalar(value).cast(kind)
            if fits and types.is_decimal(kind):
                return pa.scalar(Decimal(repr(value)))
            if fits:
                return pa.scalar(value)
        except (pa.ArrowException, OverflowError):
            pass
        raise self._predicate.refuse(
            node,
            f"{value!r} cannot be compared with column {column_of(column)!r} of type "
            f"{kind}",
        )


class ExpressionQuery(Query):
    """A ``pyarrow.compute.Expression`` that somebody made."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self.text = " ".join(str(expression).split())
        # Not the text, which rounds numbers.
        content = hashlib.blake2b(pickle.dumps(expression, protocol=4), digest_size=16)
        self.key = f"expression {content.hexdigest()}"
        self.columns = ()

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema."""
        _check_boolean(self._expression, schema, self.text)
        return self._expression

    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may be used: not if there can be NaN, see WhereQuery."""
        types = arrow("pyarrow.types")
        return not any(
            types.is_floating(kind) or types.is_nested(kind) for kind in schema.types
        )


class ColumnQuery(Query):
    """Which part of a scale the value of a column lies in.

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
        reached = []
        for edge in self._edges:
            value = pa.scalar(edge)
            if isinstance(edge, str) and types.is_temporal(kind):
                value = value.cast(kind)
            reached.append((field >= value).cast(pa.int32()))
        part = _balanced(operator.add, reached)
        missing = field.is_null(nan_is_null=types.is_floating(kind))
        last = pa.scalar(len(self._edges) + 1, pa.int32())
        expression = pc.if_else(missing, last, part)
        if not types.is_integer(_type_of(expression, schema, self.text)):
            raise InvalidArgumentError(f"{self.text} cannot be told by {self._edges}")
        return expression

    def prunes(self, schema: Schema) -> bool:  # noqa: ARG002 - as others are asked
        """Every row has a part."""
        return False


def query_of(predicate: str | Expression) -> Query:
    """Return the query of a predicate in either form.

    Raises:
        InvalidArgumentError: If it is neither, or not well formed.
        MissingDependencyError: If pyarrow is not installed.
    """
    if isinstance(predicate, str):
        found = WhereQuery(Predicate(predicate))
        arrow()
        return found
    if isinstance(predicate, arrow("pyarrow.compute").Expression):
        return ExpressionQuery(predicate)
    raise InvalidArgumentError(
        f"{predicate!r} must be text such as \"quality > 0.8 and lang == 'en'\", or a "
        "pyarrow.compute.Expression"
    )


def field_of(schema: Schema, name: str) -> tuple[Expression, Any]:
    """Return a scalar column, also a nested one by its dotted path, and its type.

    Raises:
        ColumnNotFoundError: If there is none; the message lists those that are.
        InvalidArgumentError: If it holds lists or further columns.
    """
    types, pc = arrow("pyarrow.types"), arrow("pyarrow.compute")
    columns = dict(_scalar_columns(schema))
    if name not in columns:
        raise _missing(name, schema)
    path, kind = columns[name]
    if types.is_nested(kind):
        raise InvalidArgumentError(
            f"column {name!r} has type {kind}: rows are selected by columns with one "
            f"value per row; there are {_listed(schema)}"
        )
    field = pc.field(*path)
    if types.is_dictionary(kind):
        return field.cast(kind.value_type), kind.value_type
    return field, kind


def _balanced(
    join: Callable[[Expression, Expression], Expression], parts: list[Expression]
) -> Expression:
    """Join one or more expressions in a balanced tree: a chain could be too deep."""
    while len(parts) > 1:
        parts = [
            join(*parts[n : n + 2]) if n + 1 < len(parts) else parts[n]
            for n in range(0, len(parts), 2)
        ]
    return parts[0]


def _scalar_columns(
    fields: Iterable[Any], path: tuple[str, ...] = ()
) -> Iterable[tuple[str, tuple[tuple[str, ...], Any]]]:
    """Dotted name, path and type of all columns; the inner ones of structs first."""
    types = arrow("pyarrow.types")
    for field in fields:
        here = (*path, field.name)
        if types.is_struct(field.type):
            yield from _scalar_columns(field.type, here)
        yield ".".join(here), (here, field.type)


def _listed(schema: Schema) -> str:
    types = arrow("pyarrow.types")
    names = [
        f"{name} ({kind})"
        for name, (_, kind) in _scalar_columns(schema)
        if not types.is_nested(kind)
    ]
    more = f" and {len(names) - 50} more" if len(names) > 50 else ""
    return ", ".join(names[:50]) + more or "none"


def _missing(name: str, schema: Schema) -> ColumnNotFoundError:
    names = [name for name, _ in _scalar_columns(schema)]
    error = ColumnNotFoundError(
        f"no column {name!r}{near_name(name, names)} (columns with one value per row: "
        f"{_listed(schema)})"
    )
    error.column = name
    return error


def _type_of(expression: Expression, schema: Schema, text: str) -> Any:  # noqa: ANN401
    """The type of an expression over columns of a schema, which binds it."""
    pa, dataset = arrow(), arrow("pyarrow.dataset")
    try:
        scanner = dataset.dataset(schema.empty_table()).scanner(
            columns={"found": expression}
        )
        return scanner.projected_schema.field("found").type
    except (pa.ArrowException, TypeError, ValueError) as error:
        problem = str(error).splitlines()[0]
        if "No match for FieldRef" in problem:
            name = problem.partition("FieldRef.")[2].partition(" in ")[0]
            raise _missing(name.removeprefix("Name(").removesuffix(")"), schema) from (
                None
            )
        raise InvalidArgumentError(
            f"{text} cannot be evaluated: {problem}; columns with one value per row: "
            f"{_listed(schema)}"
        ) from None


def _check_boolean(expression: Expression, schema: Schema, text: str) -> None:
    kind = _type_of(expression, schema, text)
    if not arrow("pyarrow.types").is_boolean(kind):
        raise InvalidArgumentError(
            f"{text} is of type {kind}, and must be true or false: compare it with "
            "something"
        )
