"""Manifests whose Avro schema is not that of the specification."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

import pagefeed as pf
from made.tables import rows_table, write_iceberg
from pagefeed.errors import CorruptFileError, UnsupportedError


def avro_of(schema: Any) -> bytes:
    """A file of no records."""

    def number(value: int) -> bytes:
        value, stored = value * 2, b""
        while value > 127:
            stored += bytes([value & 127 | 128])
            value >>= 7
        return stored + bytes([value])

    entries = b""
    for name, value in (
        ("avro.schema", json.dumps(schema).encode()),
        ("avro.codec", b"null"),
    ):
        entries += number(len(name)) + name.encode() + number(len(value)) + value
    return b"Obj\x01" + number(2) + entries + b"\x00" + bytes(16)


def field(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "field-id": number, "type": ["null", kind]}


def test_entries_of_maps_that_may_be_null(tmp_path):
    """As BigQuery writes them: refused by that name, where pyiceberg fails."""
    metadata = write_iceberg(tmp_path, [rows_table(0, 3)])
    snapshot = StaticTable.from_metadata(metadata).current_snapshot()
    assert snapshot is not None
    [manifest] = snapshot.manifests(PyArrowFileIO())
    pair = [{"name": name, "type": ["null", "int"]} for name in ("key", "value")]
    entry = {"type": "record", "name": "entry", "fields": pair}
    counts = {"logicalType": "map", "type": "array", "items": ["null", entry]}
    file: Any = {"type": "record", "name": "file", "fields": [field("n", 109, counts)]}
    fields = [field("status", 0, "int"), field("data_file", 2, file)]
    schema = {"type": "record", "name": "manifest_entry", "fields": fields}
    path = Path(manifest.manifest_path.removeprefix("file://"))
    path.write_bytes(avro_of(schema))
    with pytest.raises(UnsupportedError, match="entries of maps may be null"):
        pf.iceberg(metadata, column="tokens")
    path.write_bytes(avro_of({"type": "record"}))
    with pytest.raises(CorruptFileError, match="pyiceberg says"):
        pf.iceberg(metadata, column="tokens")
