"""Keys of the rows of a table: a column that the user names, or row ids."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    ArrayWriter,
    check_column,
    find_arrays,
    in_order,
    logger,
    near_name,
)
from pagefeed.core.dataset import PageIndex, derived_arrays, derived_key
from pagefeed.core.storage import Storage
from pagefeed.errors import ColumnNotFoundError, CorruptFileError, InvalidArgumentError
from pagefeed.selection import ROW_ID, Files, column_of

__all__ = ["ICEBERG_ROW_ID", "KeyedRows", "RowIds", "check_key"]


VERSION = 1
DIGEST_BYTES = 16

KeyArray = npt.NDArray[Any]
"""Keys of rows: int64 of whole numbers, digests of 16 bytes of texts and bytes."""


def check_key(key: str | None, types: Mapping[str, Any], table: str) -> str | None:
    """Return the key that a user named, after a check that the table has it.

    Raises:
        ColumnNotFoundError: If it is not a column; the message lists the columns.
    """
    if key is None or check_column(key, "key") == ROW_ID or key in types:
        return key
    raise ColumnNotFoundError(
        f"key={key!r} is no column of {table}{near_name(key, [*types])}: it has "
        f"{', '.join(types)}; {ROW_ID!r} means the ids that a table gives its rows"
    ).at(column=key)


class KeyedRows(ABC):
    """Reads the keys of the rows of an index, and stores them beside it."""

    key: str | None
    """The column, or :data:`ROW_ID`; None for ids of the table, if it has any."""

    @property
    @abstractmethod
    def row_ids(self) -> RowIds | None:
        """Function that returns the row ids of a snapshot; None if it has none."""

    def keep_keys(self, index: PageIndex) -> None:
        """Keep the keys of an index in its cache folder, if the user named a key.

        Raises:
            InvalidArgumentError: If values of the key do not identify rows.
        """
        if self.key is None or index.cache_dir is None:
            return

        def write(writer: ArrayWriter) -> None:
            logger.info("keys of %d rows are kept, once", index.num_rows)
            writer.append_bytes("keys", b"")  # There may be none.
            keys = self._read(index)
            if keys is None:
                raise InvalidArgumentError(
                    f"key={ROW_ID!r}: the table has no row ids, as Iceberg 3 and row "
                    "tracking of Delta have: name a column whose values identify rows"
                )
            if len(np.unique(keys)) < len(keys):
                raise InvalidArgumentError(
                    f"key={self.key!r} does not identify rows: some share a value"
                )
            writer.append_bytes("keys", keys.tobytes())
            writer.about["type"] = keys.dtype.str

        derived_arrays(index, "row-keys", self._name_of(index), write)

    def keys_of(self, index: PageIndex) -> KeyArray | None:
        """Return the keys of all rows of an index: stored ones, or read from files.

        None if the user named no key, and the table gives no ids to rows.

        Raises:
            MissingFileError: If the keys are not stored, and files are gone.
        """
        folder, key = index.cache_dir, self._name_of(index)
        stored = folder and find_arrays(folder, f"row-keys-{key}", key)
        if not stored:
            return self._read(index)
        return stored["keys"].view(stored.about["type"])

    def _name_of(self, index: PageIndex) -> str:
        return derived_key(index, str(VERSION), index.fingerprint, str(self.key))

    def _read(self, index: PageIndex) -> KeyArray | None:
        files = range(len(index.files))
        if self.key is not None and self.key != ROW_ID:
            read = partial(column_of, Files.of(index), self.key)
            return _joined([*in_order(read, files)], self.key)
        ids = self.row_ids
        if ids is None:
            return None
        ids_of_files = [*in_order(partial(ids.of, index.storage), index.files)]
        return (
            None
            if any(each is None for each in ids_of_files)
            else _joined(ids_of_files, ROW_ID)
        )


def _joined(columns: list[Any], key: str | None) -> KeyArray:
    """Return the keys of several files, joined.

    Raises:
        InvalidArgumentError: If values are null, or of a type that cannot identify
            rows.
    """
    return np.concatenate([_keys(column, key) for column in columns])


def _keys(column: Any, key: str | None) -> KeyArray:
    from pyarrow import compute, large_binary, types

    if types.is_dictionary(column.type):
        column = compute.cast(column, column.type.value_type)
    if column.null_count:
        raise InvalidArgumentError(
            f"key={key!r} does not identify rows: {column.null_count} rows have none"
        )
    if types.is_integer(column.type):
        return np.asarray(column).astype(np.int64)
    kind = str(column.type)
    if "string" not in kind and "binary" not in kind:
        raise InvalidArgumentError(
            f"key={key!r} has the type {kind}: name a column of whole numbers, texts "
            "or bytes"
        )
    values = compute.cast(column, large_binary()).to_pylist()
    digest = partial(hashlib.blake2b, digest_size=DIGEST_BYTES)
    digests = b"".join(digest(value).digest() for value in values)
    return np.frombuffer(digests, dtype=f"S{DIGEST_BYTES}")


FIELD_ID = b"PARQUET:field_id"
ICEBERG_ROW_ID = 2147483540
"""Field id of the column that holds ids of rows, as Iceberg reserves it."""


@dataclass(frozen=True)
class RowIds:
    """Ids of the rows of some files.

    A rewritten file holds the ids of its rows. Otherwise the table gives the id of the
    first row, and the others follow.
    """

    first: Mapping[str, int]
    """Id of the first row of each file that has one."""
    column: int | str | None
    """The column of ids in files that hold them: its field id, or its name."""

    def of(self, storage: Storage, file: str) -> Any | None:
        """Return the ids of the rows of a file, an Arrow array; None if it has none.

        Raises:
            CorruptFileError: If pyarrow cannot read it.
        """
        import pyarrow as pa
        from pyarrow import compute, parquet

        try:
            opened = parquet.ParquetFile(storage.open_arrow(file))
            held = next(filter(self._is_it, opened.schema_arrow), None)
            first, ids = self.first.get(file), None
            if first is not None:
                following = np.arange(first, first + opened.metadata.num_rows)
                ids = pa.array(following, pa.int64())
            if held is not None:
                stored = opened.read([held.name], use_threads=False)[held.name]
                stored = stored.combine_chunks().cast(pa.int64())
                ids = stored if ids is None else compute.coalesce(stored, ids)
        except (pa.ArrowException, OSError) as problem:
            storage.size(file)  # If it is gone, that is what to tell.
            raise CorruptFileError(f"{file}: pyarrow cannot read it: {problem}").at(
                file=file
            ) from None
        return None if ids is None or ids.null_count else ids

    def _is_it(self, field: Any) -> bool:
        if isinstance(self.column, str):
            return bool(field.name == self.column)
        field_id = (field.metadata or {}).get(FIELD_ID)
        return field_id is not None and int(field_id) == self.column
