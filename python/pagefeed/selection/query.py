"""Expressions over the columns of rows, which pyarrow evaluates.

An expression is made for one schema: files of a dataset may differ in the types of
their columns.
"""

from __future__ import annotations

import hashlib
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pagefeed.core._base import near_name, require
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError

Constant: TypeAlias = str | bytes | int | float | bool

DEFAULT = b"pagefeed: rows have this where a struct has no field "
"""Prefix of keys in the metadata of a schema: names of fields follow."""
Expression: TypeAlias = Any
"""A ``pyarrow.compute.Expression``."""
Schema: TypeAlias = Any
"""A ``pyarrow.Schema``."""


def arrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, or a module of it.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    return require(module, extra="pyarrow", purpose="selecting rows by their columns")


class Query(ABC):
    """An expression over the columns of a row."""

    text: str
    """Text of the query, for messages."""
    key: str
    """Differs between any two queries."""
    columns: tuple[str, ...]
    """Names of its columns; empty if unknown."""

    @abstractmethod
    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema.

        Raises:
            ColumnNotFoundError: If the schema lacks a column.
            InvalidArgumentError: If its types do not fit.
        """

    @abstractmethod
    def prunes(self, schema: Schema) -> bool:
        """Return whether statistics may show that no row of a row group is selected."""

    def may_use(self, leaf: str) -> bool:
        """Return whether a leaf, by its dotted path, may be among its columns."""
        return leaf in self.columns


class ExpressionQuery(Query):
    """A predicate that is a ``pyarrow.compute.Expression`` of the user."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self.text = " ".join(str(expression).split())
        # Not the text, which rounds numbers.
        content = hashlib.blake2b(pickle.dumps(expression, protocol=4), digest_size=16)
        self.key = f"expression {content.hexdigest()}"
        self.columns = ()

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema."""
        check_boolean(self._expression, schema, self.text)
        return self._expression

    def prunes(self, schema: Schema) -> bool:
        """Whether statistics may rule out rows.

        They may not if a column could hold NaN, see :meth:`Predicate.prunes`.
        """
        return not any(_holds_floats(kind) for kind in schema.types)

    def may_use(self, leaf: str) -> bool:
        """Whether the text, which has the names of all columns, could mean a leaf."""
        begin = " ".join(leaf.partition(".")[0].split())
        return begin in self.text or "FieldPath" in self.text


def _holds_floats(kind: Any) -> bool:
    """Whether values of a type are floating-point numbers, or have some inside."""
    inside = (kind.field(number).type for number in range(kind.num_fields))
    is_float: bool = arrow("pyarrow.types").is_floating(kind)
    return is_float or any(map(_holds_floats, inside))


def with_default(schema: Schema, field: str, value: Any) -> Schema:
    """Return a schema that records the default of a field which structs of files lack.

    Rows whose struct is null do not get it.

    Args:
        schema: Columns of the files.
        field: Dotted name of the field.
        value: The default, a ``pyarrow.Scalar``.
    """
    pa = arrow()
    table, stream = pa.table({"": pa.repeat(value, 1)}), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write(table)
    stored = {DEFAULT + field.encode(): stream.getvalue().to_pybytes()}
    return schema.with_metadata({**(schema.metadata or {}), **stored})


def field_of(schema: Schema, name: str) -> tuple[Expression, Any]:
    """Return a scalar column, also a nested one by its dotted path, and its type.

    Raises:
        ColumnNotFoundError: If there is none; the message lists the columns.
        InvalidArgumentError: If it holds lists or further columns.
    """
    types, pc = arrow("pyarrow.types"), arrow("pyarrow.compute")
    columns = dict(scalar_columns(schema))
    made_up = (schema.metadata or {}).get(DEFAULT + name.encode())
    if made_up is not None:
        value = arrow().ipc.open_stream(made_up).read_all().column(0)[0]
        path, _ = columns[name.rpartition(".")[0]]
        is_null, null = pc.field(*path).is_null(), arrow().scalar(None, value.type)
        return pc.if_else(is_null, null, pc.scalar(value)), value.type
    if name not in columns:
        raise _missing(name, schema)
    path, kind = columns[name]
    if types.is_nested(kind):
        raise InvalidArgumentError(
            f"column {name!r} has type {kind}: rows are selected by columns with one "
            f"value per row; there are {_listed(schema)}"
        )
    return pc.field(*path), kind


def with_kernels(kind: Any) -> Any:
    """Return the type in which a column is read: the kernels of pyarrow take it.

    They lack some for views, dictionaries and extensions.
    """
    pa, types = arrow(), arrow("pyarrow.types")
    if types.is_struct(kind):
        return pa.struct([field.with_type(with_kernels(field.type)) for field in kind])
    if types.is_dictionary(kind):
        return with_kernels(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return with_kernels(kind.storage_type)
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def balanced(
    join: Callable[[Expression, Expression], Expression], parts: list[Expression]
) -> Expression:
    """Join one or more expressions in a balanced tree: a chain could be too deep."""
    while len(parts) > 1:
        parts = [
            join(*parts[n : n + 2]) if n + 1 < len(parts) else parts[n]
            for n in range(0, len(parts), 2)
        ]
    return parts[0]


def scalar_columns(
    fields: Iterable[Any], path: tuple[str, ...] = ()
) -> Iterable[tuple[str, tuple[tuple[str, ...], Any]]]:
    """Dotted name, path and type of all columns; the inner ones of structs first."""
    types = arrow("pyarrow.types")
    for field in fields:
        here = (*path, field.name)
        if types.is_struct(field.type):
            yield from scalar_columns(field.type, here)
        yield ".".join(here), (here, field.type)


def _listed(schema: Schema) -> str:
    types = arrow("pyarrow.types")
    names = [
        f"{name} ({kind})"
        for name, (_, kind) in scalar_columns(schema)
        if not types.is_nested(kind)
    ]
    more = f" and {len(names) - 50} more" if len(names) > 50 else ""
    return ", ".join(names[:50]) + more or "none"


def _missing(name: str, schema: Schema) -> ColumnNotFoundError:
    names = [name for name, _ in scalar_columns(schema)]
    return ColumnNotFoundError(
        f"no column {name!r}{near_name(name, names)}; columns with one value per row: "
        f"{_listed(schema)}"
    ).at(column=name)


def type_of(expression: Expression, schema: Schema, text: str) -> Any:
    """Return the type of an expression over the columns of a schema.

    Raises:
        InvalidArgumentError: If it cannot be evaluated.
    """
    pa, dataset = arrow(), arrow("pyarrow.dataset")
    try:
        # Arrow compares types only if there is a row.
        nulls = pa.table([pa.nulls(1, kind) for kind in schema.types], schema=schema)
        scanner = dataset.dataset(nulls).scanner(columns={"found": expression})
        return scanner.to_table().schema.field("found").type
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


def check_boolean(expression: Expression, schema: Schema, text: str) -> None:
    """Refuse an expression that is not true or false.

    Raises:
        InvalidArgumentError: Naming its type.
    """
    kind = type_of(expression, schema, text)
    if not arrow("pyarrow.types").is_boolean(kind):
        raise InvalidArgumentError(
            f"{text} is of type {kind}, and must be true or false: compare it with "
            "something"
        )
