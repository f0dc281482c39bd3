"""Predicates as text: ``quality > 0.8 and lang in ['en', 'de']``.

The grammar is a small part of Python's, so that Python reads it; only what is listed
here is accepted, and nothing is ever evaluated. As in SQL a comparison with a missing
value is neither true nor false, and only rows for which the whole is true are selected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pagefeed.errors import InvalidArgumentError

__all__ = ["Constant", "Predicate", "column_of", "constant_of"]

Constant = str | int | float | bool

_WORDS = {"true": True, "false": False, "null": None}
_GRAMMAR = (
    "a predicate is made of columns (quality, meta.score, column('any name')), "
    "numbers, 'strings', true and false, compared by == != < <= > >=, "
    "in [...], not in [...], is null, is not null, and joined by and, or, not, ( )"
)


class Predicate:
    """A predicate that is well formed; its columns are not looked at yet.

    Args:
        text: The predicate.

    Raises:
        InvalidArgumentError: If it is not well formed; the place is marked.

    Example:
        >>> Predicate("quality>0.8 and lang=='en'").text
        "quality > 0.8 and lang == 'en'"
        >>> Predicate("meta.score is not null").columns
        ('meta.score',)
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgumentError(
                f'the predicate {text!r} must be text such as "quality > 0.8 and '
                "lang == 'en'\", or a pyarrow.compute.Expression"
            )
        self.source = " ".join(text.split("\n"))
        """The text on one line, as places in the tree refer to it."""
        self.tree = self._parse()
        """What it says: only nodes that ``_check`` lets pass."""
        self._check(self.tree)
        self.text = ast.unparse(self.tree)
        """The same for predicates that are written alike but for spaces."""
        names = (column_of(node) for node in _operands(self.tree))
        self.columns = tuple(dict.fromkeys(name for name in names if name is not None))
        """Names of the columns, dotted, in the order of their first use."""
        if not self.columns:
            raise self.refuse(self.tree, "no column is named")

    def refuse(self, node: ast.expr, problem: str) -> InvalidArgumentError:
        """Return the error that marks a part of the text."""
        before = self.source.encode()[: node.col_offset].decode()
        end = node.end_col_offset or node.col_offset + 1
        marked = self.source.encode()[node.col_offset : end].decode()
        message = self._marked(problem, len(before), len(marked))
        return InvalidArgumentError(message)

    def _marked(self, problem: str, start: int, length: int = 1) -> str:
        mark = " " * start + "^" * max(1, length)
        return f"{problem}; {_GRAMMAR}\n  {self.source}\n  {mark}"

    def _parse(self) -> ast.expr:
        try:
            # Spaces in front would be an indentation; places stay right without them.
            self.source = self.source.strip()
            return ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            place = (error.offset or 1) - 1
            hint = _hint(self.source) or error.msg
            raise InvalidArgumentError(
                self._marked(f"bad syntax: {hint}", place)
            ) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise InvalidArgumentError(f"bad predicate: {error}; {_GRAMMAR}") from None

    def _check(self, node: ast.expr) -> None:
        """Check a part that must be true or false."""
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._check(part)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._check(node.operand)
        elif isinstance(node, ast.Compare):
            self._check_comparison(node)
        elif column_of(node) is None:
            raise self.refuse(node, "this is neither a comparison nor a column")

    def _check_comparison(self, node: ast.Compare) -> None:
        self._check_value(node.left)
        last = node.comparators[-1]
        for operator, right in zip(node.ops, node.comparators, strict=True):
            joins_on = isinstance(operator, ast.In | ast.NotIn | ast.Is | ast.IsNot)
            if joins_on and right is not last:
                raise self.refuse(
                    right, "nothing can be compared with in [...] or is null"
                )
            if isinstance(operator, ast.In | ast.NotIn):
                if not isinstance(right, ast.List | ast.Tuple | ast.Set):
                    raise self.refuse(
                        right, "in is followed by a list of values, [...]"
                    )
                for item in right.elts:
                    if constant_of(item) is None:
                        raise self.refuse(item, "this is not a number or string")
            elif isinstance(operator, ast.Is | ast.IsNot):
                if not is_null(right):
                    raise self.refuse(right, "is must be followed by null or not null")
            else:
                self._check_value(right)

    def _check_value(self, node: ast.expr) -> None:
        if is_null(node):
            raise self.refuse(
                node, "nothing equals null: write is null, or is not null"
            )
        if constant_of(node) is None and column_of(node) is None:
            raise self.refuse(node, "this is not a column, number or string")


def column_of(node: ast.expr) -> str | None:
    """Return the dotted name of a column, or None if the node is something else."""
    if isinstance(node, ast.Name):
        return None if node.id in _WORDS else node.id
    if isinstance(node, ast.Attribute):
        outer = column_of(node.value)
        return None if outer is None else f"{outer}.{node.attr}"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "column"
        and not node.keywords
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ):
        return node.args[0].value
    return None


def constant_of(node: ast.expr) -> Constant | None:
    """Return the value of a literal, or None if the node is something else."""
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = constant_of(node.operand)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    return None


def is_null(node: ast.expr) -> bool:
    """Whether the node is null, or None."""
    if isinstance(node, ast.Constant):
        return node.value is None
    return isinstance(node, ast.Name) and node.id == "null"


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The values that are compared, and the columns that are true or false."""
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _operands(part)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _operands(node.operand)
    elif isinstance(node, ast.Compare):
        yield node.left
        yield from node.comparators
    else:
        yield node


def _hint(source: str) -> str | None:
    """What people who write SQL need to hear."""
    words = source.replace("(", " ").replace(")", " ").split()
    for word in ("AND", "OR", "NOT", "IN", "IS"):
        if word in words:
            return f"write {word.lower()} for {word}"
    if "<>" in words:
        return "write != for <>"
    if "&&" in source or "||" in source:
        return "write and, or for &&, ||"
    if "=" in words:
        return "write == for equality"
    return None
