"""Deleted rows of a Delta table: the deletion vectors that its log names.

The library ``deltalake`` hangs on more than about 500 of them in files.
"""

from __future__ import annotations

import uuid
from base64 import b85decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from pagefeed.core._base import Int64Array, in_order
from pagefeed.core.storage import Storage, is_url, located_exactly
from pagefeed.errors import CorruptFileError, PagefeedError
from pagefeed.remote import StorageOptions
from pagefeed.tables.deletion_vector import (
    ranges_of_file,
    rows_of_bitmap,
    rows_of_vector,
)
from pagefeed.tables.delta_checkpoint import added_up_to, log_of
from pagefeed.tables.snapshot import readers_of

VERSION = b"\x01"
"""First byte of a file of vectors."""
UUID_LENGTH = 20
"""Characters of the id of a file of vectors; a folder may be named before it."""
Z85 = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    b".-:+=^!/*?&<>()[]{}@%$#"
)
B85 = (
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    b"!#$%&()*+-;<=>?@^_`{|}~"
)
_TO_B85 = bytes.maketrans(Z85, B85)


class _Vector(NamedTuple):
    """A deletion vector, and the file whose rows it deletes."""

    data_file: str
    stored: str
    """Place of storage: its file, or for an inline vector the bytes as text."""
    begin: int
    size: int
    """Bytes."""
    cardinality: int


def deleted_by_vectors(
    root: str,
    version: int,
    files: Iterable[str],
    path_of: Callable[[str, str], str],
    options: StorageOptions | None,
) -> dict[str, Int64Array]:
    """Return the deleted rows of the files of a version, by their paths.

    Args:
        root: Folder or URL of the table.
        version: The version.
        files: Its files.
        path_of: Returns the path of a file, by the root and the path in the log.
        options: Settings of remote storage.

    Raises:
        CorruptFileError: If the log or a vector is malformed.
        ChecksumError: If the checksum of a vector does not match.
        FileAccessError: If a commit or a file of vectors cannot be read.
    """
    added: dict[str, Any] = {}
    for add in added_up_to(*log_of(root, options), version):
        added[path_of(root, str(add.get("path")))] = add.get("deletionVector")
    inline, in_file = list[_Vector](), defaultdict[str, list[_Vector]](list)
    for file in files:
        if file not in added:
            raise CorruptFileError(
                f"{root}: the log of version {version} does not add {file}"
            ).at(file=file)
        if added[file]:
            vector, is_inline = _vector_of(root, file, added[file], path_of)
            (inline if is_inline else in_file[vector.stored]).append(vector)
    deleted = [*map(_rows_of_text, inline)]
    if in_file:
        paths = [*in_file]
        storage = located_exactly(
            paths, options if any(map(is_url, paths)) else None
        ).storage
        read = partial(_rows_of_file, storage)
        threads = readers_of(storage)
        groups = in_order(read, in_file.items(), num_threads=threads)
        deleted += chain.from_iterable(groups)
    return dict(deleted)


def _vector_of(
    root: str, file: str, told: Mapping[str, Any], path_of: Callable[[str, str], str]
) -> tuple[_Vector, bool]:
    """Return a vector by what the log says of it, and whether it is inline."""
    try:
        kind, stored = told["storageType"], str(told["pathOrInlineDv"])
        begin = told.get("offset")
        begin, size = 1 if begin is None else int(begin), int(told["sizeInBytes"])
        cardinality = int(told["cardinality"])
        if kind == "u":
            folder, name = stored[:-UUID_LENGTH], stored[-UUID_LENGTH:]
            identifier = uuid.UUID(bytes=_decoded(name))
            folder = f"{folder}/" if folder else ""
            stored = f"{root.rstrip('/')}/{folder}deletion_vector_{identifier}.bin"
    except (KeyError, TypeError, ValueError) as problem:
        raise _wrong(root, file, told, str(problem)) from None
    if kind not in ("u", "p", "i") or min(begin, size) < 0:
        raise _wrong(root, file, told, "there is no such place")
    if kind == "p":
        stored = path_of(root, stored)
    return _Vector(file, stored, begin, size, cardinality), kind == "i"


def _wrong(
    root: str, file: str, told: Mapping[str, Any], problem: str
) -> CorruptFileError:
    return CorruptFileError(
        f"{root}: the log says of the deletion vector of {file} that it is {told}: "
        f"{problem}"
    ).at(file=file)


def _decoded(text: str) -> bytes:
    return b85decode(text.encode().translate(_TO_B85))


def _rows_of_text(vector: _Vector) -> tuple[str, Int64Array]:
    try:
        stored = _decoded(vector.stored)[: vector.size]
        return vector.data_file, rows_of_bitmap(stored, vector.cardinality)
    except (PagefeedError, ValueError) as problem:
        raise _damaged(vector, "the log", problem) from None


def _rows_of_file(
    storage: Storage, of_file: tuple[str, Sequence[_Vector]]
) -> list[tuple[str, Int64Array]]:
    """Return the rows of the vectors of a file: each with its length and checksum."""
    path, vectors = of_file
    ranges = [(each.begin, each.begin + each.size + 8) for each in vectors]
    deleted = []
    vector = vectors[0]
    try:
        stored_ranges = ranges_of_file(storage, path, VERSION, ranges)
        for vector, stored in zip(vectors, stored_ranges, strict=True):
            rows = rows_of_vector(stored, vector.cardinality)
            deleted.append((vector.data_file, rows))
    except CorruptFileError as problem:
        raise _damaged(vector, path, problem) from None
    return deleted


def _damaged(vector: _Vector, where: str, problem: Exception) -> CorruptFileError:
    kind = type(problem) if isinstance(problem, CorruptFileError) else CorruptFileError
    text = problem.args[0] if problem.args else problem
    return kind(
        f"{where}, at {vector.begin}, deletes rows of {vector.data_file}: {text}"
    ).at(file=vector.data_file if where == "the log" else where)
