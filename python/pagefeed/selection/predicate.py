"""Predicates as text: ``quality > 0.8 and lang in ['en', 'de']``.

The grammar is a small part of Python's, and Python parses it. Only what is listed here
is accepted, and nothing is evaluated as Python. As in SQL, a comparison with a missing
value is neither true nor false. A row is selected if the whole predicate is true.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias, cast

from pagefeed.errors import InvalidArgumentError
from pagefeed.selection.hashes import hash_of
from pagefeed.selection.query import (
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
from pagefeed.selection.syntax import PredicateText
from pagefeed.selection.values import (
    COMPARISONS,
    LiteralTypeError,
    Value,
    as_float,
    compare,
    is_number,
)

Bind: TypeAlias = Callable[[Schema], Expression]
"""Function from a schema to the expression of a node."""
Side: TypeAlias = Constant | Callable[[Schema], Value]
"""A literal, or what makes a side of a comparison for files of a schema."""

_WORDS = {"true": True, "false": False, "null": None}
_SIGNS: dict[type[ast.cmpop], str] = dict(
    zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), COMPARISONS, strict=True)
)
_ARITHMETIC: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "add"),
    ast.Sub: (operator.sub, "subtract"),
    ast.Mult: (operator.mul, "multiply"),
    ast.Div: (operator.truediv, "divide"),
}
"""Arithmetic operators: the function for literals, and the name in Arrow."""
_MATCHES = {"startswith": "starts_with", "contains": "match_substring"}
"""Functions of a text that are true or false, as Arrow calls them."""
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
        self._source = PredicateText(text)
        self._names: dict[str, None] = {}
        self.tree = self._source.parse()
        self._bind = self._boolean(self.tree)
        self.text = ast.unparse(self.tree)
        self.key = f"text {self.text}"
        self.columns = tuple(self._names)

    def __reduce__(self) -> tuple[type[Predicate], tuple[str]]:
        """Pickle as the text."""
        return Predicate, (self._source.text,)

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema."""
        expression = self._bind(schema)
        check_boolean(expression, schema, self.text)
        return expression

    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may rule out rows; they may not where NaN could match.

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

    def _refuse(self, node: ast.expr, problem: str) -> InvalidArgumentError:
        return self._source.refuse(node, problem)

    def _boolean(self, node: ast.expr) -> Bind:
        """Check a node that must be true or false; return its binding."""
        match node:
            case ast.BoolOp(op=op, values=values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return _joined(join, [self._boolean(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._boolean(operand)
                return lambda schema: ~inner(schema)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                for joined, right in zip(ops[:-1], rights, strict=False):
                    if type(joined) not in _SIGNS:
                        problem = "nothing can be compared with in [...] or is null"
                        raise self._refuse(right, problem)
                sides = zip(ops, [left, *rights], rights, strict=False)
                return _joined(
                    operator.and_,
                    [self._comparison(node, *comparison) for comparison in sides],
                )
            case ast.Call(func=ast.Name(id=called)) if called in _MATCHES:
                return self._match(node, called)
        name = self._column(node, "this is neither a comparison nor a column")

        def flag(schema: Schema) -> Expression:
            field, kind = field_of(schema, name)
            if not arrow("pyarrow.types").is_boolean(kind):
                problem = f"column {name!r} has type {kind}: compare it with something"
                raise self._refuse(node, problem)
            return field

        return flag

    def _match(self, node: ast.Call, called: str) -> Bind:
        """Check a call that asks whether a text begins with, or has, another text."""
        match node:
            case ast.Call(args=[column, ast.Constant(value=str(pattern))], keywords=[]):
                text = self._text(column)
            case _:
                problem = f"write {called}(column, 'text'), with the text that is meant"
                raise self._refuse(node, problem)
        function = getattr(arrow("pyarrow.compute"), _MATCHES[called])
        return lambda schema: function(text(schema).field, pattern)

    def _text(self, node: ast.expr) -> Callable[[Schema], Value]:
        """Check a column of texts."""
        name = self._column(node)

        def bind(schema: Schema) -> Value:
            value = Value(*field_of(schema, name))
            types = arrow("pyarrow.types")
            if not (types.is_string(value.kind) or types.is_large_string(value.kind)):
                problem = f"column {name!r} has type {value.kind}, and no texts"
                raise self._refuse(node, problem)
            return value

        return bind

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
        for side in (left, right):
            if _is_null(side):
                problem = "nothing equals null: write is null, or is not null"
                raise self._refuse(side, problem)
        left_side, right_side = self._side(left), self._side(right)
        if not callable(left_side) and not callable(right_side):
            raise self._refuse(whole, "no column is compared here")
        sign = _SIGNS[type(op)]
        return lambda schema: self._compared(
            schema, sign, (left, left_side), (right, right_side)
        )

    def _membership(self, left: ast.expr, right: ast.expr, *, is_in: bool) -> Bind:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise self._refuse(right, "in is followed by a list of values, [...]")
        column, items = self._side(left), [(n, _constant_of(n)) for n in right.elts]
        if not callable(column):
            raise self._refuse(left, "here a column is expected")
        for item, value in items:
            if value is None:
                raise self._refuse(item, "this is not a number or string")

        def bind(schema: Schema) -> Expression:
            # By equality: is_in takes null for false, so that not in would select it.
            parts = [
                self._compared(schema, "==", (left, column), (n, v))
                for n, v in items
                if v is not None
            ]
            parts = parts or [arrow("pyarrow.compute").scalar(False)]  # noqa: FBT003
            is_member = balanced(operator.or_, parts)
            return is_member if is_in else ~is_member

        return bind

    def _column(
        self, node: ast.expr, problem: str = "here a column is expected"
    ) -> str:
        name = _column_of(node)
        if name is None:
            raise self._refuse(node, problem)
        self._names[name] = None
        return name

    def _side(self, node: ast.expr) -> Side:
        """Check a side of a comparison: a literal, a column, or arithmetic of these."""
        value = _constant_of(node)
        if value is not None:
            return value
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return self._arithmetic(node, type(op), left, right)
            case ast.BinOp(op=ast.Mod()) | ast.Call(func=ast.Name(id="hash")):
                return self._hash(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                zero = ast.copy_location(ast.Constant(0), node)
                return self._arithmetic(node, ast.Sub, zero, operand)
            case ast.Call(func=ast.Name(id="length"), args=[column], keywords=[]):
                text, pc = self._text(column), arrow("pyarrow.compute")

                def length(schema: Schema) -> Value:
                    num_chars = pc.utf8_length(text(schema).field)
                    return Value(num_chars.cast("int64"), arrow().int64())

                return length
        name = self._column(node, "this is not a column, number or string")
        return lambda schema: Value(*field_of(schema, name))

    def _hash(self, node: ast.expr) -> Side:
        """Check the hash of a column, or the rest of its division by a number."""
        divisor: ast.expr | None = None
        match node:
            case ast.BinOp(left=left, right=right):
                node, divisor = left, right
        number = 1 if divisor is None else _constant_of(divisor)
        match node:
            case ast.Call(func=ast.Name(id="hash"), args=[column], keywords=[]):
                seed = 0
            case ast.Call(
                func=ast.Name(id="hash"),
                args=[column, ast.Constant(value=int() as seed)],
                keywords=[],
            ) if seed < 1 << 63:
                pass
            case _:
                problem = "write hash(column) or hash(column, seed), alone or before %"
                raise self._refuse(node, problem)
        name = self._column(column)
        if type(number) is not int or number < 1:
            raise self._refuse(divisor or node, "here a whole number above 0 is needed")

        def bind(schema: Schema) -> Value:
            pa, pc = arrow(), arrow("pyarrow.compute")
            try:
                value = hash_of(schema, name, seed)
            except InvalidArgumentError as error:
                raise self._refuse(node, str(error)) from None
            if divisor is not None:
                by = pa.scalar(number, pa.uint64())
                value = pc.subtract(value, pc.multiply(pc.divide(value, by), by))
            return Value(value, pa.uint64())

        return bind

    def _arithmetic(
        self, node: ast.expr, op: type[ast.operator], *operands: ast.expr
    ) -> Side:
        """Check arithmetic of numbers; that of literals is done at once."""
        sides = [(operand, self._side(operand)) for operand in operands]
        for operand, side in sides:
            if isinstance(side, bool | str | bytes):
                raise self._refuse(operand, "this is not a number")
        (calculate, name), values = _ARITHMETIC[op], [side for _, side in sides]
        if not any(map(callable, values)):
            try:
                return cast("Constant", calculate(*values))
            except (ZeroDivisionError, OverflowError) as error:
                raise self._refuse(node, str(error)) from None

        def bind(schema: Schema) -> Value:
            numbers = [self._number(schema, *side) for side in sides]
            function = getattr(arrow("pyarrow.compute"), name)
            return Value(function(*numbers), arrow().float64())

        return bind

    def _number(self, schema: Schema, node: ast.expr, side: Side) -> Expression:
        """Return a number as arithmetic takes it: float64."""
        if not callable(side):
            try:
                return arrow("pyarrow.compute").scalar(float(side))
            except OverflowError as error:
                raise self._refuse(node, str(error)) from None
        value = side(schema)
        if not is_number(value.kind):
            raise self._refuse(node, f"this has type {value.kind}, and is not a number")
        return as_float(value)

    def _compared(
        self, schema: Schema, sign: str, *sides: tuple[ast.expr, Side]
    ) -> Expression:
        """Return the comparison of two sides that are not both literals."""
        bound = [side(schema) if callable(side) else side for _, side in sides]
        try:
            return compare(sign, *bound)
        except LiteralTypeError as misfit:
            [(node, literal)] = [
                side_of for side_of in sides if not callable(side_of[1])
            ]
            [(other, value)] = [
                (side_of[0], value)
                for side_of, value in zip(sides, bound, strict=True)
                if isinstance(value, Value)
            ]
            name = _column_of(other)
            shown = ast.unparse(other) if name is None else f"column {name!r}"
            hint = f": {misfit}" if str(misfit) else ""
            problem = (
                f"{literal!r} cannot be compared with {shown} of type {value.kind}"
            )
            raise self._refuse(node, problem + hint) from None


def query_of(predicate: str | Expression) -> Query:
    """Return the query of a predicate in either form.

    Raises:
        InvalidArgumentError: If it is neither, or not well formed.
        MissingDependencyError: If pyarrow is not installed.
    """
    query = Predicate(predicate) if isinstance(predicate, str) else None
    if query is None and isinstance(predicate, arrow("pyarrow.compute").Expression):
        return ExpressionQuery(predicate)
    if query is None:
        raise InvalidArgumentError(f"{predicate!r} {_FORMS}")
    arrow()
    return query


def _joined(join: Callable[[Any, Any], Expression], parts: list[Bind]) -> Bind:
    return lambda schema: reduce(join, [bind(schema) for bind in parts])


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
        case ast.Constant(value=str() | bytes() | int() | float() as value):
            return value
    return None


def _is_null(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None) | ast.Name(id="null"):
            return True
    return False
