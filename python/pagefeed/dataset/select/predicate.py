"""Predicates as text: ``quality > 0.8 and lang in ['en', 'de']``.

The grammar is a small part of Python's, and Python parses it. Only what is listed here
is accepted, and nothing is evaluated as Python. As in SQL, a comparison with a missing
value is neither true nor false. A row is selected if the whole predicate is true.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

from pagefeed.dataset.select.query import (
    Constant,
    Expression,
    ExpressionQuery,
    Query,
    Schema,
    arrow,
    balanced,
    check_boolean,
    field_of,
)
from pagefeed.errors import InvalidArgumentError

__all__ = ["Predicate", "query_of"]

Bind: TypeAlias = Callable[[Schema], Expression]
"""Makes the expression of a part for files of a schema."""

_WORDS = {"true": True, "false": False, "null": None}
_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_GRAMMAR = (
    "a predicate is made of columns (quality, meta.score, column('any name')), "
    "numbers, 'strings', true and false, compared by == != < <= > >=, "
    "in [...], not in [...], is null, is not null, and joined by and, or, not, ( )"
)
_FORMS = (
    "must be text such as \"quality > 0.8 and lang == 'en'\", or a "
    "pyarrow.compute.Expression"
)


class Predicate(Query):
    """A predicate as text; it is well formed, its columns are looked up later.

    Args:
        text: The predicate.

    Raises:
        InvalidArgumentError: If it is not well formed; the message marks the place.

    Example:
        >>> Predicate("quality>0.8 and lang=='en'").text
        "quality > 0.8 and lang == 'en'"
        >>> Predicate("meta.score is not null").columns
        ('meta.score',)
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgumentError(f"the predicate {text!r} {_FORMS}")
        # Places in the tree count characters of one line without leading spaces.
        self._source = " ".join(text.split("\n")).strip()
        self._names: dict[str, None] = {}
        self.tree = self._parsed()
        self._bind = self._boolean(self.tree)
        self.text = ast.unparse(self.tree)
        self.key = f"text {self.text}"
        self.columns = tuple(self._names)

    def __reduce__(self) -> tuple[type[Predicate], tuple[str]]:
        """Pickle as the text."""
        return Predicate, (self._source,)

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema."""
        expression = self._bind(schema)
        check_boolean(expression, schema, self.text)
        return expression

    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may be used, which do not tell whether there are NaNs.

        All comparisons with NaN are false except ``!=``, and ranges leave NaN out. So
        statistics lose no row unless something is negated.
        """
        types = arrow("pyarrow.types")
        has_floats = any(
            types.is_floating(field_of(schema, name)[1]) for name in self.columns
        )
        negations = ast.Not | ast.NotEq | ast.NotIn
        return not has_floats or not any(
            isinstance(node, negations) for node in ast.walk(self.tree)
        )

    def _parsed(self) -> ast.expr:
        try:
            return ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            hint = _hint(self._source) or error.msg
            message = self._marked(f"bad syntax: {hint}", (error.offset or 1) - 1)
            raise InvalidArgumentError(message) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise InvalidArgumentError(f"bad predicate: {error}; {_GRAMMAR}") from None

    def _marked(self, problem: str, start: int, length: int = 1) -> str:
        mark = " " * start + "^" * max(1, length)
        return f"{problem}; {_GRAMMAR}\n  {self._source}\n  {mark}"

    def _refuse(self, node: ast.expr, problem: str) -> InvalidArgumentError:
        """Return the error that marks a part of the text."""
        source = self._source.encode()
        before = source[: node.col_offset].decode()
        end = node.end_col_offset or node.col_offset + 1
        marked = source[node.col_offset : end].decode()
        message = self._marked(problem, len(before), len(marked))
        return InvalidArgumentError(message)

    def _boolean(self, node: ast.expr) -> Bind:
        """Check a part that is true or false, and return what binds it."""
        match node:
            case ast.BoolOp(op=op, values=values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return _joined(join, [self._boolean(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._boolean(operand)
                return lambda schema: ~inner(schema)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                for joined, right in zip(ops[:-1], rights, strict=False):
                    if type(joined) not in _OPERATORS:
                        problem = "nothing can be compared with in [...] or is null"
                        raise self._refuse(right, problem)
                sides = zip(ops, [left, *rights], rights, strict=False)
                return _joined(
                    operator.and_, [self._comparison(node, *each) for each in sides]
                )
        name = self._column(node, "this is neither a comparison nor a column")

        def flag(schema: Schema) -> Expression:
            field, kind = field_of(schema, name)
            if not arrow("pyarrow.types").is_boolean(kind):
                problem = f"column {name!r} has type {kind}: compare it with something"
                raise self._refuse(node, problem)
            return field

        return flag

    def _comparison(
        self, whole: ast.expr, op: ast.cmpop, left: ast.expr, right: ast.expr
    ) -> Bind:
        match op:
            case ast.In() | ast.NotIn():
                return self._membership(left, right, is_in=isinstance(op, ast.In))
            case ast.Is() | ast.IsNot():
                if not _is_null(right):
                    raise self._refuse(right, "is must be followed by null or not null")
                name = self._column(left)
                if isinstance(op, ast.Is):
                    return lambda schema: field_of(schema, name)[0].is_null()
                return lambda schema: ~field_of(schema, name)[0].is_null()
        values = [_constant_of(side) for side in (left, right)]
        for side, value in zip((left, right), values, strict=True):
            if _is_null(side):
                problem = "nothing equals null: write is null, or is not null"
                raise self._refuse(side, problem)
            if value is None:
                self._column(side, "this is not a column, number or string")
        if None not in values:
            raise self._refuse(whole, "no column is compared here")
        return lambda schema: _OPERATORS[type(op)](
            self._side(left, values[0], right, schema),
            self._side(right, values[1], left, schema),
        )

    def _membership(self, left: ast.expr, right: ast.expr, *, is_in: bool) -> Bind:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise self._refuse(right, "in is followed by a list of values, [...]")
        name, items = self._column(left), [(n, _constant_of(n)) for n in right.elts]
        for item, value in items:
            if value is None:
                raise self._refuse(item, "this is not a number or string")

        def bind(schema: Schema) -> Expression:
            field, _ = field_of(schema, name)
            # By equality: is_in takes null for false, so that not in would select it.
            parts = [field == self._side(n, v, left, schema) for n, v in items]
            parts = parts or [arrow("pyarrow.compute").scalar(False)]  # noqa: FBT003
            found = balanced(operator.or_, parts)
            return found if is_in else ~found

        return bind

    def _column(
        self, node: ast.expr, problem: str = "here a column is expected"
    ) -> str:
        name = _column_of(node)
        if name is None:
            raise self._refuse(node, problem)
        self._names[name] = None
        return name

    def _side(
        self, node: ast.expr, value: Constant | None, other: ast.expr, schema: Schema
    ) -> Expression:
        """One side of a comparison: a column, or a literal in the type of the other."""
        if value is None:
            return field_of(schema, self._column(node))[0]
        name = self._column(other)
        pa, types, kind = arrow(), arrow("pyarrow.types"), field_of(schema, name)[1]
        is_decimal = types.is_decimal(kind)
        if types.is_integer(kind) or types.is_floating(kind) or is_decimal:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            fits = isinstance(value, bool if types.is_boolean(kind) else str)
        try:
            if fits and isinstance(value, str) and types.is_temporal(kind):
                return pa.scalar(value).cast(kind)
            if fits:
                return pa.scalar(Decimal(repr(value)) if is_decimal else value)
        except (pa.ArrowException, OverflowError):
            pass
        raise self._refuse(
            node, f"{value!r} cannot be compared with column {name!r} of type {kind}"
        )


def query_of(predicate: str | Expression) -> Query:
    """Return the query of a predicate in either form.

    Raises:
        InvalidArgumentError: If it is neither, or not well formed.
        MissingDependencyError: If pyarrow is not installed.
    """
    found = Predicate(predicate) if isinstance(predicate, str) else None
    if found is None and isinstance(predicate, arrow("pyarrow.compute").Expression):
        return ExpressionQuery(predicate)
    if found is None:
        raise InvalidArgumentError(f"{predicate!r} {_FORMS}")
    arrow()
    return found


def _joined(join: Callable[[Any, Any], Expression], parts: list[Bind]) -> Bind:
    return lambda schema: reduce(join, [part(schema) for part in parts])


def _column_of(node: ast.expr) -> str | None:
    """Return the dotted name of a column; None if the node is something else."""
    match node:
        case ast.Name(id=name) if name not in _WORDS:
            return name
        case ast.Attribute(value=value, attr=attr):
            outer = _column_of(value)
            return None if outer is None else f"{outer}.{attr}"
        case ast.Call(
            func=ast.Name(id="column"),
            args=[ast.Constant(value=str(name))],
            keywords=[],
        ):
            return name
    return None


def _constant_of(node: ast.expr) -> Constant | None:
    """Return the value of a literal; None if the node is something else."""
    match node:
        case ast.Name(id=name):
            return _WORDS.get(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            value = _constant_of(operand)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            return -value if isinstance(op, ast.USub) else value
        case ast.Constant(value=str() | int() | float() as value):
            return value
    return None


def _is_null(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None) | ast.Name(id="null"):
            return True
    return False


def _hint(source: str) -> str | None:
    """Return advice for people who write SQL."""
    words = source.replace("(", " ").replace(")", " ").split()
    for word in ("AND", "OR", "NOT", "IN", "IS"):
        if word in words:
            return f"write {word.lower()} for {word}"
    if "<>" in words:
        return "write != for <>"
    if "&&" in source or "||" in source:
        return "write and, or for &&, ||"
    # One = alone, whatever is beside it.
    return "write == for equality" if re.search(r"(?<![=!<>])=(?!=)", source) else None
