"""Tables with deleted rows, made from the specifications of Delta and Iceberg."""

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record
from pyroaring import BitMap

import pagefeed as pf

MAGIC = 1_681_511_377
Z85 = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ".-:+=^!/*?&<>()[]{}@%$#"
)


def rows_table(begin: int, end: int, **columns: Any) -> pa.Table:
    """Rows with an id, and tokens that tell it."""
    numbers = range(begin, end)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "lang": [("en", "de", None)[n % 3] for n in numbers],
            "tokens": pa.array(
                [[n] * (1 + n % 5) for n in numbers], pa.list_(pa.int32())
            ),
            **columns,
        }
    )


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """Rows by id, from any reader, to compare."""
    return sorted((row["id"], row["lang"], tuple(row["tokens"])) for row in rows)


def of_delta(folder: Path, version: int | None = None) -> pf.dataset.ParquetDataset:
    """Return a version of a table of such rows."""
    return pf.delta(folder, version, column="tokens", metadata=["id", "lang"])


def by_deltalake(folder: Path) -> list[Any]:
    """The same rows as deltalake reads them."""
    return sorted_rows(pa.table(DeltaTable(folder).scan()).to_pylist())


def bitmap_of(rows: Sequence[int]) -> bytes:
    """Magic and roaring bitmap of a deletion vector."""
    halves: dict[int, list[int]] = {}
    for row in rows:
        halves.setdefault(row >> 32, []).append(row & 0xFFFFFFFF)
    data = struct.pack("<IQ", MAGIC, len(halves))
    for high in sorted(halves):
        bits = BitMap(halves[high])
        bits.run_optimize()
        data += struct.pack("<I", high) + bits.serialize()
    return data


def framed(data: bytes) -> bytes:
    """A vector as files have it: length, data, checksum."""
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def z85(data: bytes) -> str:
    """Text of a multiple of four bytes."""
    text = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        text += "".join(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def write_delta(folder: Path, tables: Sequence[pa.Table], **options: Any) -> str:
    """A Delta table of a commit each."""
    for table in tables:
        write_deltalake(folder, table, mode="append", **options)
        options = {}
    return str(folder)


def delete_from_delta(
    folder: Path,
    deleted: Mapping[str, Sequence[int]],
    kind: str = "u",
    *,
    damage: bool = False,
    features: Sequence[str] = (),
) -> None:
    """Commit a deletion vector for each of some files: inline, or in a file."""
    log = folder / "_delta_log"
    commits = sorted(log.glob("*.json"))
    lines = [
        json.loads(line) for path in commits for line in path.read_text().splitlines()
    ]
    adds = {line["add"]["path"]: line["add"] for line in lines if "add" in line}
    known = ["deletionVectors", *features]
    if any("delta.columnMapping" in json.dumps(line) for line in lines):
        known.append("columnMapping")
    protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": known, "writerFeatures": known}
    actions: list[dict[str, Any]] = [{"protocol": protocol}]
    for path, rows in deleted.items():
        data, name = bitmap_of(rows), uuid.uuid4()
        vector: dict[str, Any] = {"storageType": kind, "sizeInBytes": len(data)}
        vector["cardinality"] = len(rows)
        if kind == "i":
            padded = data + bytes(-len(data) % 4)
            vector["pathOrInlineDv"] = z85(padded)
        else:
            file = folder / f"deletion_vector_{name}.bin"
            stored = b"\x01" + framed(data)
            file.write_bytes(stored[:-1] + bytes([stored[-1] ^ damage]))
            vector["offset"] = 1
            absolute = file.absolute().as_uri()
            vector["pathOrInlineDv"] = z85(name.bytes) if kind == "u" else absolute
        old = adds[path].get("deletionVector")
        remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}
        remove |= {"deletionVector": old} if old else {}
        add = {**adds[path], "deletionVector": vector}
        actions += [{"remove": remove}, {"add": add}]
    (log / f"{len(commits):020}.json").write_text("\n".join(map(json.dumps, actions)))


def catalog_in(folder: Path) -> tuple[SqlCatalog, dict[str, str]]:
    """A catalog in SQLite, and its properties."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = {
        "name": "local",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": folder.as_uri(),
    }
    catalog = SqlCatalog(**properties)
    catalog.create_namespace_if_not_exists("corpus")
    return catalog, properties


def write_iceberg(folder: Path, tables: Sequence[pa.Table], version: int = 2) -> str:
    """An Iceberg table of a snapshot each; the path of its metadata."""
    catalog, _ = catalog_in(folder)
    table = catalog.create_table(
        "corpus.web",
        schema=tables[0].schema,
        properties={"format-version": str(version)},
    )
    for each in tables:
        table.append(each)
    catalog.close()
    return str(table.metadata_location).removeprefix("file://")


class DeletesWriter(ManifestWriterV2):
    """A manifest of deletes."""

    format_version = 2

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def version(self) -> Any:
        return self.format_version

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> Any:
        # As the format has it: the base class writes no more than version 2.
        from pyiceberg.avro.file import AvroOutputFile

        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(self.version),
            record_schema=self._with_partition(self.version),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def data_files(metadata: str) -> list[str]:
    """Files of the current snapshot, as the table names them, oldest first."""
    table = StaticTable.from_metadata(metadata)
    found = [
        (entry["sequence_number"], entry["data_file"]["file_path"])
        for entry in table.inspect.entries().to_pylist()
        if entry["status"] != 2 and entry["data_file"]["content"] == 0
    ]
    return [path for _, path in sorted(found)]


def delete_from_iceberg(
    metadata: str,
    deleted: Sequence[tuple[str, Sequence[int]]],
    kind: str,
    *,
    damage: str = "",
) -> str:
    """Commit deletes of rows of files; the path of the new metadata.

    ``kind`` is ``"positions"``, a file for each; ``"vectors"``, all in one Puffin file;
    or ``"equality"``.
    """
    table, io = StaticTable.from_metadata(metadata), PyArrowFileIO()
    folder, name = Path(metadata).parent, uuid.uuid4().hex
    version: Any = 3 if kind == "vectors" else max(2, table.format_version)
    found = _vectors if kind == "vectors" else _positions
    files = found(folder / name, deleted, version, damage, kind)
    snapshot_id = uuid.uuid4().int >> 66
    writer = DeletesWriter(
        table.spec(),
        table.schema(),
        io.new_output(f"{folder}/{name}-m0.avro"),
        snapshot_id,
        "null",
    )
    writer.format_version = version
    with writer:
        for file in files:
            entry = ManifestEntry.from_args(
                _table_format_version=version,
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                data_file=file,
            )
            writer.add_entry(entry)
    return _commit(metadata, version, snapshot_id, [writer.to_manifest_file()])


def name_twice(metadata: str) -> str:
    """Commit a snapshot that has all manifests twice; the path of the new metadata."""
    table = StaticTable.from_metadata(metadata)
    current = table.current_snapshot()
    assert current is not None
    manifests = current.manifests(PyArrowFileIO())
    return _commit(metadata, 2, uuid.uuid4().int >> 66, manifests)


def _commit(
    metadata: str, version: int, snapshot_id: int, added: Sequence[ManifestFile]
) -> str:
    """A snapshot with further manifests."""
    old = json.loads(Path(metadata).read_text())
    folder, name = Path(metadata).parent, uuid.uuid4().hex
    table, io = StaticTable.from_metadata(metadata), PyArrowFileIO()
    current = table.current_snapshot()
    assert current is not None
    manifests = [*current.manifests(io), *added]
    sequence = old.get("last-sequence-number", 0) + 1
    manifest_list = f"{folder}/{name}-list.avro"
    with write_manifest_list(
        format_version=2,
        output_file=io.new_output(manifest_list),
        snapshot_id=snapshot_id,
        parent_snapshot_id=current.snapshot_id,
        sequence_number=sequence,
        avro_compression="null",
    ) as listed:
        listed.add_manifests(manifests)
    now = old["last-updated-ms"] + 1
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": current.snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": now,
        "manifest-list": manifest_list,
        "summary": {"operation": "delete"},
        "schema-id": old["current-schema-id"],
    }
    old["format-version"] = version
    old.setdefault("table-uuid", str(uuid.uuid4()))
    if version == 3:
        old["next-row-id"] = 0
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    old["snapshots"].append(snapshot)
    old |= {"current-snapshot-id": snapshot_id, "last-sequence-number": sequence}
    old |= {"last-updated-ms": now, "snapshot-log": [], "metadata-log": []}
    old["refs"] = {"main": {"snapshot-id": snapshot_id, "type": "branch"}}
    path = folder / f"{name}.metadata.json"
    path.write_text(json.dumps(old))
    return str(path)


def _positions(
    path: Path,
    deleted: Sequence[tuple[str, Sequence[int]]],
    version: Any,
    damage: str,
    kind: str,
) -> list[DataFile]:
    found = []
    for number, (data_file, rows) in enumerate(deleted):
        file = Path(f"{path}-{number}-deletes.parquet")
        columns: Any = {"file_path": [data_file] * len(rows)}
        columns["pos"] = pa.array(rows, pa.int64())
        pq.write_table(pa.table(columns), file)
        content = DataFileContent.POSITION_DELETES
        if kind == "equality":
            content = DataFileContent.EQUALITY_DELETES
        found.append(
            DataFile.from_args(
                _table_format_version=version,
                content=content,
                file_path=str(file),
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=len(rows) + (damage == "cardinality"),
                file_size_in_bytes=file.stat().st_size,
            )
        )
        found[-1].spec_id = 0
    return found


def _vectors(
    path: Path,
    deleted: Sequence[tuple[str, Sequence[int]]],
    version: Any,
    damage: str,
    _: str,
) -> list[DataFile]:
    file, stored, blobs, places = Path(f"{path}.puffin"), b"PFA1", [], []
    for data_file, rows in deleted:
        blob = framed(bitmap_of(rows))
        if damage == "checksum":
            blob = blob[:-1] + bytes([blob[-1] ^ 1])
        places.append((len(stored), len(blob)))
        properties = {"referenced-data-file": data_file, "cardinality": str(len(rows))}
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(stored),
                "length": len(blob),
                "properties": properties,
            }
        )
        stored += blob
    footer = json.dumps({"blobs": blobs}).encode()
    stored += b"PFA1" + footer + struct.pack("<I", len(footer)) + bytes(4) + b"PFA1"
    file.write_bytes(stored)
    found = []
    for (data_file, rows), (begin, size) in zip(deleted, places, strict=True):
        found.append(
            DataFile.from_args(
                _table_format_version=version,
                content=DataFileContent.POSITION_DELETES,
                file_path=str(file),
                file_format=FileFormat.PUFFIN,
                partition=Record(),
                record_count=len(rows) + (damage == "cardinality"),
                file_size_in_bytes=len(stored),
                referenced_data_file=data_file,
                content_offset=begin,
                content_size_in_bytes=size,
            )
        )
        found[-1].spec_id = 0
    return found
