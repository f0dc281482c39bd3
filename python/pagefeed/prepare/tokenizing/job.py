"""A job: inputs, tokenizer, layout of shards, and tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagefeed.core._base import Work, near_name
from pagefeed.core.dataset import folder_columns
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError, UnsupportedError
from pagefeed.prepare.parquet_sinks import Compression
from pagefeed.prepare.texts import FileRange, Inputs, Wanted, arrow, ranges_of, types_of
from pagefeed.remote import OutputFolder
from pagefeed.tokenizer import Rows, Tokenizer

VERSION = 8
TEXT_PER_SHARD = 2
"""Bytes of text for a byte of a shard, so that a task has about one shard."""
SETTINGS = ("column", "shard_bytes", "page_bytes", "compression", "on_error")
"""Settings of a job that its folder records as they are."""
TYPES_READ = 8
"""Files whose columns are read for types."""


TEXTS = {
    *("string", "large_string", "string_view", "binary", "large_binary"),
    *("binary_view",),
}
"""Types of plain texts, as Arrow writes them."""
Types = Mapping[str, Any] | None
"""Types of columns by name; None if columns are not restricted."""
Task = tuple[FileRange, ...]
"""Ranges that are tokenized in order, into separate shards."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything needed to run any task on any machine."""

    inputs: Inputs
    wanted: Wanted
    tokenizer: Tokenizer
    rows: Rows | None
    """Encodes rows, if the source does not hold plain texts."""
    written: tuple[str, ...]
    """Kept columns that are written; others are only read."""
    require_labels: bool
    """Refuse chats of which nothing is learned."""
    column: str
    """Name of the column of tokens."""
    shard_bytes: int
    """Bytes after which a shard is complete."""
    page_bytes: int
    """Approximate bytes of a page of tokens before compression."""
    compression: Compression
    on_error: str
    folder: OutputFolder
    """Folder of the shards."""
    tasks: tuple[Task, ...]
    num_tokens: tuple[int | None, int | None] = (None, None)
    """Least and most tokens of a row; None for no bound."""

    @property
    def has_labels(self) -> bool:
        """Whether the output has a column of labels."""
        return self.rows is not None and self.rows.has_labels

    def settings(self) -> dict[str, Any]:
        """Return all settings that decide on the output, for comparison."""
        files, storage = self.inputs.files, self.inputs.storage
        versions = hashlib.blake2b(digest_size=16)
        listed = zip(files, self.inputs.formats, storage.versions(files), strict=True)
        for file, format_, version in listed:
            versions.update(f"{file} {format_} {version}\n".encode())
        return {
            "version": VERSION,
            "tokenizer": self.tokenizer.fingerprint,
            "rows": None if self.rows is None else self.rows.fingerprint,
            "source": self.wanted.source,
            "keep": {name: str(self.wanted.kept[name]) for name in self.written},
            "record_bytes": self.wanted.record_bytes,
            **{name: getattr(self, name) for name in SETTINGS},
            "num_tokens": list(self.num_tokens),
            "num_inputs": len(files),
            "inputs": versions.hexdigest(),
        }


def plan(inputs: Inputs, shard_bytes: int) -> tuple[Task, ...]:
    """Divide inputs into tasks of about one shard each, by their sizes."""
    most = max(1, shard_bytes * TEXT_PER_SHARD)
    numbers = range(len(inputs.files))
    tasks: list[Task] = []
    waiting: list[FileRange] = []
    weight = 0
    work = Work("sizes of inputs", total=len(numbers), unit="files")
    for ranges in work.map(lambda file: ranges_of(inputs, file, most), numbers):
        for file_range in ranges:
            if waiting and weight + file_range.weight > most:
                tasks.append(tuple(waiting))
                waiting, weight = [], 0
            waiting.append(file_range)
            weight += file_range.weight
    if waiting:
        tasks.append(tuple(waiting))
    return tuple(tasks)


def make_wanted(
    inputs: Inputs,
    types: Types,
    source: str,
    keep: Mapping[str, str | None],
    *,
    rows: Rows | None,
    column: str,
    batch_bytes: int,
    record_bytes: int,
) -> Wanted:
    """Return what to read of the inputs, whose columns have some types.

    Raises:
        ColumnNotFoundError: If there is no such column.
        InvalidArgumentError: If a type is unknown, or a name is given twice.
        UnsupportedError: If the column holds no texts.
    """
    taken = {column, "labels"} if rows is not None and rows.has_labels else {column}
    if taken & keep.keys():
        raise InvalidArgumentError(
            f"keep: {sorted(taken & keep.keys())} is the name of the tokens: give "
            "column_name='tokens', or another, to keep it"
        )
    names = dict.fromkeys(rows.columns[1:] if rows else ()) | dict(keep)
    by_folder = {
        name: column
        for name, column in folder_columns(inputs.files).items()
        if name in names and name not in {source, *(types or ())}
    }
    known = dict(types or {}) | {n: by_folder[n].arrow_type() for n in by_folder}
    if types is not None:
        for name, given in {**names, source: None}.items():
            if name not in known and given is None:
                raise ColumnNotFoundError(
                    f"{inputs.files[0]}: there is no column {name!r}"
                    f"{near_name(name, known)}; it has {list(known)[:20]}"
                )
        if rows is None or rows.has_labels:
            _check_source(source, types[source], is_chat=rows is not None)
    kept = {name: _type(name, given, known) for name, given in names.items()}
    if "jsonl" in inputs.formats:
        for name, kind in kept.items():
            # Later objects may have more fields than the first objects.
            is_open = "struct<" in str(kind) or str(kind).count("list<") > 1
            kept[name] = arrow().string() if is_open else kind
    is_nested = arrow().types.is_nested
    return Wanted(
        source=source,
        kept=kept,
        given=frozenset(name for name, kind in names.items() if kind is not None),
        folders={
            os.path.dirname(file): {
                n: by_folder[n].value_of_file(at) for n in by_folder
            }
            for at, file in enumerate(inputs.files)
        },
        is_chat=rows is not None,
        objects=frozenset(n for n, kind in (types or {}).items() if is_nested(kind)),
        batch_bytes=batch_bytes,
        record_bytes=record_bytes,
    )


def nested_text(types: Types, column: str) -> str | None:
    """Return a template for texts in a struct or list; None for plain texts."""
    columns = types or {}
    kind: Any = columns.get(column)
    inner = kind
    while _is_list(inner):
        inner = inner.value_type
    is_inside = kind is None and column.partition(".")[0] in columns
    if is_inside or (_is_list(kind) and _is_text(inner)):
        return "{" + column + "}"
    return None


def types_of_inputs(inputs: Inputs) -> Types:
    """Return the columns of some files; numbers have the widest of their types."""
    pa = arrow()
    schemas = []
    step = -(-len(inputs.files) // TYPES_READ)
    for file in range(0, len(inputs.files), step):
        types = types_of(inputs, file)
        if types is None:
            return None
        schemas.append(pa.schema(types))
    try:
        together = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException:
        together = schemas[0]
    return {field.name: field.type for field in together}


def _check_source(name: str, kind: Any, *, is_chat: bool) -> None:
    is_list = _is_list(kind)
    if _is_text(kind) or str(kind) == "null" or (is_chat and is_list):
        return
    advice = f": for chats, give messages={name!r}" if is_list and not is_chat else ""
    raise UnsupportedError(f"column {name!r} holds {kind}, no texts{advice}")


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return kind is not None and (types.is_list(kind) or types.is_large_list(kind))


def _is_text(kind: Any) -> bool:
    is_dictionary = arrow().types.is_dictionary(kind)
    return str(kind.value_type if is_dictionary else kind) in TEXTS


def _type(name: str, given: str | None, types: Mapping[str, Any]) -> Any:
    pa = arrow()
    if given is not None:
        try:
            return pa.type_for_alias(given)
        except ValueError as problem:
            raise InvalidArgumentError(
                f"keep: {name}={given!r} is not a type: give one such as 'string', "
                "'int64' or 'float64'"
            ) from problem
    kind = types.get(name, pa.null())
    return pa.string() if pa.types.is_null(kind) else kind
