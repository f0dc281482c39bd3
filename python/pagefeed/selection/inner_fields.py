"""Reads single fields of structs; pyarrow's scanner of a file reads whole structs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pagefeed.selection.expansion import named_in
from pagefeed.selection.query import Expression, Schema, arrow, scalar_columns

_INNER = re.compile(r"FieldRef\.Nested\((?:FieldRef\.Name\(.*?\) ?)+\)")
"""A field of a struct in the text of an expression."""


def scanner_of(
    fragment: Any, schema: Schema, fields: Mapping[str, Expression], rows: int
) -> Any:
    """Return a scanner that evaluates expressions and reads the fields they name.

    Args:
        fragment: A ``pyarrow.dataset.ParquetFileFragment``.
        schema: Its columns, in the types in which the expressions take them.
        fields: The expressions, by the names of their values.
        rows: Rows of a batch.
    """
    pa, dataset = arrow(), arrow("pyarrow.dataset")
    text = " ".join(map(str, fields.values()))
    outside = _INNER.sub("", text)
    wanted = _named(text, outside, schema)
    asked = {"columns": dict(fields), "batch_size": rows, "use_threads": False}
    stored = _named(text, outside, fragment.physical_schema)
    if outside == text or "FieldPath" in outside or not wanted <= stored:
        return fragment.scanner(schema, **asked)
    file = arrow("pyarrow.parquet").ParquetFile(
        fragment.open(),
        metadata=fragment.metadata,
        coerce_int96_timestamp_unit=fragment.format.read_options.coerce_int96_timestamp_unit,
        pre_buffer=True,
    )
    kind = pa.schema(_pruned(schema, wanted))
    paths = [".".join(path) for path in wanted]
    batches = (
        batch.select(kind.names).cast(kind)
        # Not all at once: dictionaries in structs differ between row groups.
        for group in fragment.row_groups
        for batch in file.iter_batches(rows, [group.id], paths, use_threads=False)
    )
    return dataset.Scanner.from_batches(batches, schema=kind, **asked)


def is_readable(fragment: Any, text: str, rows: int) -> bool:
    """Whether pyarrow reads the columns that a text names, with nothing evaluated."""
    names = named_in(text, fragment)
    try:
        for _ in fragment.to_batches(columns=names, batch_size=rows):
            pass
    except (arrow().ArrowException, OSError):
        return False
    return True


def _named(text: str, outside: str, schema: Schema) -> set[tuple[str, ...]]:
    """Return the paths of columns, and of fields of structs, that a text may name.

    ``outside`` is the text without fields of structs.
    """
    is_struct = arrow("pyarrow.types").is_struct
    return {
        path
        for _, (path, kind) in scalar_columns(schema)
        if (len(path) == 1 and path[0] in outside)
        or (
            not is_struct(kind)
            and all(f"FieldRef.Name({name})" in text for name in path)
        )
    }


def _pruned(
    fields: Iterable[Any], wanted: set[tuple[str, ...]], path: tuple[str, ...] = ()
) -> list[Any]:
    """Return the fields on some paths."""
    pa, kept = arrow(), []
    for field in fields:
        here = (*path, field.name)
        if here in wanted:
            kept.append(field)
        elif pa.types.is_struct(field.type):
            inside = _pruned(field.type, wanted, here)
            kept += [field.with_type(pa.struct(inside))] if inside else []
    return kept
