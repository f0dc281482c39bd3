"""Arrow files and streams of this machine: their record batches, mapped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, near_name, require
from pagefeed.core.storage import Storage
from pagefeed.errors import ColumnNotFoundError, CorruptFileError, UnsupportedError
from pagefeed.made import is_list
from pagefeed.parsing import SENSELESS

_MAGIC = b"ARROW1"
_KINDS = {"record batch", "dictionary", "schema"}


class MappedColumn:
    """A column of a file or a stream, whose record batches are read one by one.

    Args:
        path: The file.
        column: A column of it.

    Raises:
        CorruptFileError: If the file is cut, or no Arrow file; it names the record
            batch.
        ColumnNotFoundError: If it lacks the column; lists the columns it has.
        UnsupportedError: If the type of the column cannot be read.
    """

    def __init__(self, path: str, column: str) -> None:
        self._pa = pa = require("pyarrow", extra="pyarrow", purpose="reading Arrow")
        self.path, self._column = path, column
        size = Storage().size(path)
        is_file = size > 8 and Storage().read(path, 0, len(_MAGIC)) == _MAGIC
        self._parts: list[Any] = []
        self._batches: list[int] = []
        with self._damage("message 0"):
            # An empty file cannot be mapped.
            self._map = pa.memory_map(path).read_buffer() if size else pa.py_buffer(b"")
        reader = pa.ipc.MessageReader.open_stream(self._map[8 * is_file :])
        while True:
            with self._damage(f"record batch {len(self._batches)}"):
                message = next(reader, None)
                if message is None:
                    break
                if message.type not in _KINDS:
                    raise ValueError(f"a message of type {message.type}")
            if message.type == "record batch":
                self._batches.append(len(self._parts))
            self._parts.append(message)
        if is_file and Storage().read(path, size - len(_MAGIC), size) != _MAGIC:
            raise self._corrupt(
                f"record batch {len(self._batches)}", "its end is missing"
            )
        with self._damage("its schema"):
            self._schema = pa.ipc.read_schema(self._parts[0])
        names = self._schema.names
        if names.count(column) != 1:
            raise ColumnNotFoundError(
                f"{path}: there is no column {column!r}{near_name(column, names)}; it "
                f"has {names}"
            ).at(file=path, column=column)
        kind = self._schema.field(column).type
        plain = {"string_view": pa.string(), "binary_view": pa.binary()}
        self.type = plain.get(str(kind), kind)
        if pa.types.is_dictionary(kind):
            self.type = kind.value_type
        if "_view" in str(self.type) or "dictionary" in str(self.type):
            raise UnsupportedError(
                f"{path}: column {column!r} is {kind}: write it without views "
                "and without dictionaries inside, by table.cast() of pyarrow"
            ).at(file=path, column=column)

    def __len__(self) -> int:
        """Return the number of record batches."""
        return len(self._batches)

    @property
    def is_list(self) -> bool:
        """Whether a row is a list."""
        return is_list(self.type)

    def rows(self, batch: int) -> Any:
        """Return the column in a record batch, as it lies if it is not compressed."""
        pa, number = self._pa, self._batches[batch]
        with self._damage(f"record batch {batch}"):
            before = [part for part in self._parts[:number] if part.type != _BATCH]
            if len(before) == 1:
                read = pa.ipc.read_record_batch(self._parts[number], self._schema)
            else:  # Dictionaries come first: the batch's columns refer to them.
                sink = pa.BufferOutputStream()
                for part in (*before, self._parts[number]):
                    part.serialize_to(sink)
                read = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
            rows = read.column(self._column)
            rows.validate()
            return rows if rows.type == self.type else rows.cast(self.type)

    @property
    def empty(self) -> Any:
        """An array of the column's type, without rows."""
        return self._pa.array([], self.type)

    def lie_mapped(self, rows: Any) -> bool:
        """Return whether all values of rows lie in the file as they are."""
        begin, end = self._map.address, self._map.address + self._map.size
        buffers = (buffer for buffer in rows.buffers() if buffer is not None)
        return all(begin <= buffer.address < end for buffer in buffers if buffer.size)

    def slice(self, batch: int, first: int, stop: int) -> Any:
        """Return some rows of a record batch, checked.

        Raises:
            CorruptFileError: If they are not what their type promises.
        """
        with self._damage(f"record batch {batch}"):
            rows = self.rows(batch).slice(first, stop - first)
            rows.validate(full=True)
            return rows

    def run(self, batch: int) -> tuple[int, Int64Array] | None:
        """Return the place in the file of integers, and how many each row has.

        None if they do not lie there one after another, without nulls.
        """
        rows = self.rows(batch)
        if not self.is_list or not self._pa.types.is_integer(self.type.value_type):
            return None
        with self._damage(f"record batch {batch}"):
            values, width = rows.values, self.type.value_type.bit_width // 8
            if rows.null_count or values.null_count:
                return None
            if self._pa.types.is_fixed_size_list(self.type):
                size = self.type.list_size
                offsets = (np.arange(len(rows) + 1) + rows.offset) * size
            else:
                offsets = rows.offsets.to_numpy().astype(np.int64)
            if not offsets[-1]:
                return 0, np.zeros(len(rows), np.int64)
            if (np.diff(offsets) < 0).any() or offsets[-1] > len(values):
                raise ValueError("its list offsets fall")
        first = values.offset + int(offsets[0])
        place = values.buffers()[1].address - self._map.address + first * width
        return (place, np.diff(offsets)) if self.lie_mapped(rows) else None

    def _corrupt(self, what: str, problem: object) -> CorruptFileError:
        error = CorruptFileError(
            f"{self.path}: {what} is damaged or cut, or the file is not Arrow: "
            f"{problem}: copy the file again"
        )
        return error.at(file=self.path)

    @contextmanager
    def _damage(self, what: str) -> Iterator[None]:
        """Turn errors of pyarrow and NumPy into one that names file and batch."""
        try:
            yield
        except CorruptFileError:
            raise
        except (*SENSELESS, OSError, RuntimeError) as problem:
            raise self._corrupt(what, problem) from problem


_BATCH = "record batch"
