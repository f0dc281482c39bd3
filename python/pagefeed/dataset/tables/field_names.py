"""What files of an Iceberg table call columns, which are told by their field ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from pagefeed._base import in_order
from pagefeed.dataset.folders import ColumnNames
from pagefeed.errors import CorruptFileError
from pagefeed.storage import Storage

__all__ = ["field_names"]

FIELD_ID = b"PARQUET:field_id"


def field_names(
    schema: Any,
    schemas: Iterable[Any],
    storage: Storage,
    files: Sequence[str],
    *,
    missing_as_null: bool = False,
) -> ColumnNames:
    """Return what files call columns.

    Footers are read only where the table's schemas leave it open: where a column had
    another name, or a name another column.

    Args:
        schema: The ``Schema`` of pyiceberg whose columns are meant.
        schemas: All that the table ever had.
        storage: Where the files lie.
        files: Their paths.
        missing_as_null: Whether rows of files that lack a column are null.
    """
    current = dict(_columns(schema.as_struct()))
    doubtful = _doubtful(current, schemas)
    if not doubtful:
        return ColumnNames({})
    names: dict[str, str] = {}
    torn: dict[str, str] = {}
    first: dict[str, str] = {}
    lacking = list[tuple[str, str, set[str]]]()
    of_file = []
    found_of = in_order(partial(_ids_in, storage), files)
    for file, found in zip(files, found_of, strict=True):
        for name, number in doubtful.items():
            called = found.get(number)
            if called is None:
                lacking.append((name, file, {*found.values()}))
                continue
            if names.setdefault(name, called) != called:
                torn.setdefault(
                    name,
                    f"column {name!r} is called {names[name]!r} in {first[name]} and "
                    f"{called!r} in {file}, as it was renamed between: rewrite the "
                    "older files (a compaction does), or mix the two kinds of files",
                )
            first.setdefault(name, file)
        in_table = {called: f"{called} of field id {n}" for n, called in found.items()}
        for name, number in current.items():
            if number in found:
                in_table[found[number]] = name
        of_file.append(in_table)
    for name, file, others in lacking:
        # By its name another column would be read.
        if not missing_as_null or names.get(name, name) in others:
            torn.setdefault(
                name,
                f"{file} has no column of field id {current[name]}, which is {name!r} "
                "in the table now: it was written before, and nothing is made up for "
                "its rows; write the file anew, or leave its rows out",
            )
    return ColumnNames(names, torn, of_file)


def _doubtful(current: Mapping[str, int], schemas: Iterable[Any]) -> dict[str, int]:
    """Columns that had another name, or a name that another column had."""
    ids_of, names_of = defaultdict(set), defaultdict(set)
    each = (_columns(schema.as_struct()) for schema in schemas)
    for name, number in chain(current.items(), *each):
        ids_of[name].add(number)
        names_of[number].add(name)
    return {
        name: number
        for name, number in current.items()
        if len(ids_of[name]) > 1 or len(names_of[number]) > 1
    }


def _columns(kind: Any, before: str = "") -> Iterator[tuple[str, int]]:
    """Dotted names of a struct's fields, and their ids."""
    for field in kind.fields:
        name = f"{before}{field.name}"
        yield name, field.field_id
        if hasattr(field.field_type, "fields"):
            yield from _columns(field.field_type, f"{name}.")


def _ids_in(storage: Storage, file: str) -> dict[int, str]:
    """Dotted names of the columns of a file, by their field ids."""
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_arrow(file) as opened:
            schema = parquet.read_schema(opened)
    except (ArrowException, OSError) as problem:
        storage.size(file)  # If it is gone, that is what to tell.
        error = CorruptFileError(f"{file}: pyarrow cannot read it: {problem}")
        raise error.at(file=file) from None
    return dict(_numbered(schema))


def _numbered(fields: Iterable[Any], before: str = "") -> Iterator[tuple[int, str]]:
    from pyarrow import types

    for field in fields:
        name = f"{before}{field.name}"
        number = (field.metadata or {}).get(FIELD_ID)
        if number is not None:
            yield int(number), name
        if types.is_struct(field.type):
            yield from _numbered(field.type, f"{name}.")
