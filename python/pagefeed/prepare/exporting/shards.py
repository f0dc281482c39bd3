"""Files of a shard of sequences: one of Parquet, or an array for every field."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from pagefeed import _core
from pagefeed.caches import WholeWriter
from pagefeed.core._base import FIELDS, require
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat import check_fitting
from pagefeed.prepare.parquet_sinks import (
    GROUP_BYTES,
    STORED_BYTES,
    Compression,
    Digested,
    ListSink,
)
from pagefeed.remote import OutputFolder

ExportFormat: TypeAlias = Literal["parquet", "npy", "raw"]
_RAGGED = "doc_lens"
"""A field that is as wide as its batch needs; the rest of a row is 0."""


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """Format, type and compression of the files."""

    to: ExportFormat
    dtype: str
    """Type of the tokens."""
    compression: Compression
    page_bytes: int

    def writer(self, folder: OutputFolder, number: int, num_rows: int) -> SequenceShard:
        """Return the writer of a shard with as many rows."""
        kind = ParquetShard if self.to == "parquet" else ArrayShard
        return kind(self, folder, number, num_rows)

    def typed(self, name: str, values: Any) -> Any:
        """Return a field as an array of the type in which it is written.

        Other fields, such as texts, become an array of pyarrow.
        """
        if isinstance(values, list | _core.ArrowArray):
            return _arrow().array(values)
        array = np.asarray(values)
        if array.dtype.kind in "OSU":
            return _arrow().array(values)
        kind = np.dtype(self.dtype) if name == "input_ids" else array.dtype
        if name != "input_ids" and name in FIELDS and kind == np.int64:
            kind = np.dtype(np.int32)
        return check_fitting(array, kind, name).astype(kind, copy=False)


class SequenceShard(WholeWriter):
    """The files of a shard, which appear when they are complete.

    Args:
        settings: How they are written.
        folder: Where.
        number: Number of the shard.
        num_rows: Rows that will be added.
    """

    def __init__(
        self, settings: FileSettings, folder: OutputFolder, number: int, num_rows: int
    ) -> None:
        self.settings, self.folder, self.number = settings, folder, number
        self.num_rows = num_rows

    def add(self, batch: Mapping[str, Any], num_rows: int) -> None:
        """Write the first rows of a batch.

        Raises:
            InvalidArgumentError: If a field cannot be written in this format.
            TokenRangeError: If a number does not fit the type.
        """
        columns = {}
        for name, values in batch.items():
            column = self.settings.typed(name, values)
            is_one = isinstance(column, np.ndarray) and not column.ndim
            if is_one or len(column) < num_rows:
                raise InvalidArgumentError(
                    f"{name!r} has no row for each of the {num_rows} sequences of a "
                    "batch: leave it out of fields, and of what transform returns"
                )
            columns[name] = column[:num_rows]
        self._add(columns)

    @abstractmethod
    def _add(self, columns: dict[str, Any]) -> None:
        """Write rows."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Return what the manifest says of each file, once all are complete."""


class ParquetShard(SequenceShard):
    """A file of Parquet with a column for every field."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._name = f"part-{self.number:05}.parquet"
        self._sink: ListSink | None = None
        self._others: list[Any] = []
        self._waiting = 0

    def _add(self, columns: dict[str, Any]) -> None:
        lists = {name: values for name, values in columns.items() if _is_list(values)}
        others = {name: _nested(columns[name]) for name in columns if name not in lists}
        table = _arrow().table(others)
        if self._sink is None:
            self._sink = ListSink(
                self.folder.writer(self._name),
                {name: values.dtype for name, values in lists.items()},
                table.schema,
                compression=self.settings.compression,
                page_bytes=self.settings.page_bytes,
            )
        for name, values in lists.items():
            numbers, counts = values.reshape(-1), np.full(len(values), values.shape[1])
            if name == _RAGGED:
                numbers, counts = numbers[numbers > 0], np.count_nonzero(values, 1)
            self._sink.add(name, numbers, counts)
            self._waiting += STORED_BYTES * len(numbers)
        self._others.append(table)
        self._waiting += table.nbytes
        if self._waiting >= GROUP_BYTES:
            self._end_group(self._sink)

    def _end_group(self, sink: ListSink) -> None:
        sink.end_group(_arrow().concat_tables(self._others))
        self._others, self._waiting = [], 0

    def commit(self) -> None:
        """Complete the files, and give them their names."""
        if self._sink is not None:
            self._end_group(self._sink)
            self._sink.commit()

    def abandon(self) -> None:
        """Remove the files, unless they were committed."""
        if self._sink is not None:
            self._sink.abandon()

    def records(self) -> list[dict[str, Any]]:
        """Return name, size, digest and rows of each file."""
        if self._sink is None:
            return []
        record = self._sink.output.record(self._name)
        return [record | {"rows": self.num_rows}]


class ArrayShard(SequenceShard):
    """A file for every field: an array of NumPy, or its numbers alone."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._files: dict[str, tuple[Digested, tuple[int, ...], str]] = {}
        self._ragged: list[Any] = []

    def _add(self, columns: dict[str, Any]) -> None:
        for name, values in columns.items():
            is_array = isinstance(values, np.ndarray) and "/" not in name
            if not is_array or values.dtype.kind not in "iufb":
                raise InvalidArgumentError(
                    f"{name!r} holds no numbers, which {self.settings.to!r} needs: "
                    "give to='parquet', or leave it out of the loader's fields"
                )
            if name == _RAGGED:
                self._ragged.append(values)
            else:
                self._write(name, values)

    def _write(self, name: str, values: Any) -> None:
        shape = (self.num_rows, *values.shape[1:])
        if name not in self._files:
            is_npy = self.settings.to == "npy"
            path = f"{name}-{self.number:05}.{'npy' if is_npy else 'bin'}"
            file = Digested(self.folder.writer(path))
            self._files[name] = file, shape, path
            if is_npy:
                about: dict[str, Any] = {"descr": values.dtype.str, "shape": shape}
                about["fortran_order"] = False
                np.lib.format.write_array_header_1_0(file, about)
        file, begun, _ = self._files[name]
        if shape != begun:
            raise InvalidArgumentError(
                f"rows of {name!r} have the shapes {begun[1:]} and {shape[1:]}, and an "
                "array has one: give to='parquet', or Documents(pad='max_length')"
            )
        file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def commit(self) -> None:
        """Complete the files, and give them their names."""
        if self._ragged:
            width = max(values.shape[1] for values in self._ragged)
            padded = (
                np.pad(v, ((0, 0), (0, width - v.shape[1]))) for v in self._ragged
            )
            self._write(_RAGGED, np.concatenate([*padded]))
        for file, _, _ in self._files.values():
            file.file.commit()

    def abandon(self) -> None:
        """Remove the files, unless they were committed."""
        for file, _, _ in self._files.values():
            file.file.abandon()

    def records(self) -> list[dict[str, Any]]:
        """Return name, size, digest and rows of each file."""
        return [
            file.record(path) | {"rows": self.num_rows, "shape": shape}
            for file, shape, path in self._files.values()
        ]


def _arrow() -> Any:
    return require("pyarrow", extra="pyarrow", purpose="Parquet files")


def _is_list(values: Any) -> bool:
    """Return whether values are lists of integers, which the core writes."""
    is_list = isinstance(values, np.ndarray) and values.ndim == 2
    return is_list and values.dtype.kind in "iu" and values.dtype.itemsize <= 4


def _nested(values: Any) -> Any:
    """Return an array of any number of dimensions as lists of pyarrow."""
    if not isinstance(values, np.ndarray):
        return values
    column = _arrow().array(values.reshape(-1))
    for depth in range(values.ndim - 1, 0, -1):
        starts = np.arange(np.prod(values.shape[:depth]) + 1) * values.shape[depth]
        column = _arrow().ListArray.from_arrays(starts.astype(np.int32), column)
    return column
