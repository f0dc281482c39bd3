"""Iceberg tables whose snapshots are written by hand, as the specification has them."""

import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record

from made.tables import DeletesWriter, bitmap_of, framed

FIELD_ID = b"PARQUET:field_id"
FILE_PATH, POSITION = 2147483546, 2147483545


class Written(NamedTuple):
    """A file to commit: ways to partition have numbers, partitions values."""

    rows: pa.Table
    spec: int = 0
    partition: tuple[Any, ...] = ()
    keys: tuple[int, ...] = ()
    """Field ids of an equality delete."""
    path: str = ""
    """Where it was written; "" if it was not yet."""
    metrics: Mapping[str, Mapping[int, Any]] = MappingProxyType({})
    """What is told of its columns by their ids, such as ``lower_bounds``."""


class Vector(NamedTuple):
    """Rows of a file to delete by a deletion vector."""

    path: str
    rows: Sequence[int]
    spec: int = 0
    partition: tuple[Any, ...] = ()


def with_ids(columns: dict[tuple[str, int], pa.Array]) -> pa.Table:
    """A table whose columns have field ids, by name and id."""
    fields = [
        pa.field(name, values.type, metadata={FIELD_ID: str(number).encode()})
        for (name, number), values in columns.items()
    ]
    return pa.table([*columns.values()], schema=pa.schema(fields))


def positions(rows: Sequence[tuple[str | None, int]]) -> pa.Table:
    """The columns of a file that lists deleted rows."""
    return with_ids(
        {
            ("file_path", FILE_PATH): pa.array([path for path, _ in rows], pa.string()),
            ("pos", POSITION): pa.array([row for _, row in rows], pa.int64()),
        }
    )


@dataclass
class IcebergLog:
    """A table, to which snapshots are added.

    Its metadata is that of a table which pyiceberg made, without snapshots.
    """

    metadata: str
    version: Any = 2
    manifests: list[ManifestFile] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.metadata).parent

    def write(self, written: Written, name: str) -> str:
        """Write a file of a few rows a row group; its path."""
        path = self.folder.parent / f"{name}-{uuid.uuid4().hex}.parquet"
        pq.write_table(written.rows, path, row_group_size=3)
        return str(path)

    def commit(
        self,
        data: Sequence[Written] = (),
        deletes: Sequence[Written] = (),
        vectors: Sequence[Vector] = (),
        operation: str = "overwrite",
    ) -> None:
        """Add a snapshot: files of data, of deletes, and vectors.

        Args:
            data: Files of data.
            deletes: Files of deletes.
            vectors: Deletion vectors.
            operation: What made it; with ``"replace"`` these are all of its files.
        """
        if operation == "replace":
            self.manifests = []
        snapshot = uuid.uuid4().int >> 66
        files = [self._file(each, DataFileContent.DATA) for each in data]
        for each in deletes:
            kind = DataFileContent.POSITION_DELETES
            kind = DataFileContent.EQUALITY_DELETES if each.keys else kind
            files.append(self._file(each, kind))
        files += map(self._puffin, vectors)
        added = [self._manifest(one, snapshot) for one in files]
        self._add_snapshot(snapshot, added, operation)

    def _file(self, written: Written, kind: Any) -> DataFile:
        path = written.path or self.write(written, "file")
        file = DataFile.from_args(
            _table_format_version=self.version,
            content=kind,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(*written.partition),
            record_count=len(written.rows),
            file_size_in_bytes=Path(path).stat().st_size,
            equality_ids=[*written.keys] or None,
            **written.metrics,
        )
        file.spec_id = written.spec
        return file

    def _puffin(self, vector: Vector) -> DataFile:
        """A file with one vector, behind bytes of a blob of something else."""
        path = self.folder.parent / f"{uuid.uuid4().hex}.puffin"
        blob, begin = framed(bitmap_of(vector.rows)), 4 + 9
        footer = json.dumps({"blobs": []}).encode()
        path.write_bytes(
            b"PFA1"
            + bytes(9)
            + blob
            + b"PFA1"
            + footer
            + struct.pack("<I", len(footer))
            + bytes(4)
            + b"PFA1"
        )
        file = DataFile.from_args(
            _table_format_version=self.version,
            content=DataFileContent.POSITION_DELETES,
            file_path=str(path),
            file_format=FileFormat.PUFFIN,
            partition=Record(*vector.partition),
            record_count=len(vector.rows),
            file_size_in_bytes=path.stat().st_size,
            referenced_data_file=vector.path,
            content_offset=begin,
            content_size_in_bytes=len(blob),
        )
        file.spec_id = vector.spec
        return file

    def _manifest(self, file: DataFile, snapshot: int) -> ManifestFile:
        table, io = StaticTable.from_metadata(self.metadata), PyArrowFileIO()
        output = io.new_output(f"{self.folder}/{uuid.uuid4().hex}-m0.avro")
        about = table.specs()[file.spec_id], table.schema(), output, snapshot
        writer: Any = write_manifest(2, *about, avro_compression="null")
        if file.content != DataFileContent.DATA:
            writer = DeletesWriter(*about, "null")
            writer.format_version = self.version
        with writer:
            writer.add_entry(
                ManifestEntry.from_args(
                    _table_format_version=self.version,
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot,
                    data_file=file,
                )
            )
        return writer.to_manifest_file()

    def _add_snapshot(
        self, number: int, added: Sequence[ManifestFile], operation: str
    ) -> str:
        told = json.loads(Path(self.metadata).read_text())
        sequence, now = told["last-sequence-number"] + 1, told["last-updated-ms"] + 1
        path = f"{self.folder}/{uuid.uuid4().hex}-list.avro"
        parent = told.get("current-snapshot-id")
        with write_manifest_list(
            format_version=2,
            output_file=PyArrowFileIO().new_output(path),
            snapshot_id=number,
            parent_snapshot_id=parent,
            sequence_number=sequence,
            avro_compression="null",
        ) as listed:
            listed.add_manifests([*self.manifests, *added])
        io = PyArrowFileIO()
        snapshot = {
            "snapshot-id": number,
            "sequence-number": sequence,
            "timestamp-ms": now,
            "manifest-list": path,
            "summary": {"operation": operation},
            "schema-id": told["current-schema-id"],
            **({} if parent is None else {"parent-snapshot-id": parent}),
        }
        told["format-version"] = self.version
        if self.version == 3:
            told["next-row-id"] = 0
            snapshot |= {"first-row-id": 0, "added-rows": 0}
        told["snapshots"] = [*told.get("snapshots", []), snapshot]
        told |= {"current-snapshot-id": number, "last-sequence-number": sequence}
        told["last-updated-ms"] = now
        told["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}
        self.metadata = f"{self.folder}/{uuid.uuid4().hex}.metadata.json"
        Path(self.metadata).write_text(json.dumps(told))
        current = StaticTable.from_metadata(self.metadata).current_snapshot()
        assert current is not None
        self.manifests = current.manifests(io)
        return path
