"""Files that describe a table and stand for very much: refused before they are read."""

import io
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import compute

import pagefeed as pf
from made.tables import (
    data_files,
    delete_from_iceberg,
    rows_table,
    write_delta,
    write_iceberg,
)
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError, LimitExceededError
from pagefeed.selection import expansion
from pagefeed.tables import avro_records
from pagefeed.tables.delta_checkpoint import added_up_to


def with_block(manifest: bytes, block: bytes) -> bytes:
    """An Avro file with another block: of one record, as it says."""
    head, sync = manifest[: manifest.index(manifest[-16:]) + 16], manifest[-16:]
    size, varint = len(block) << 1, bytearray()
    while size:
        varint.append(size & 127 | (size > 127) << 7)
        size >>= 7
    return head + b"\2" + bytes(varint) + block + sync


@pytest.mark.parametrize("end", [None, -9])
def test_a_block_of_avro_that_unpacks_to_very_much(tmp_path, end, monkeypatch):
    monkeypatch.setattr(avro_records, "MOST_BYTES", 1 << 20)
    metadata = write_iceberg(tmp_path, [rows_table(0, 9)])
    [manifest] = Path(metadata).parent.glob("*-m0.avro")
    content = manifest.read_bytes()
    assert b"deflate" in content
    packer, packed = zlib.compressobj(9, zlib.DEFLATED, -15), io.BytesIO()
    packed.write(packer.compress(bytes(1 << 21)))
    packed.write(packer.flush())
    manifest.write_bytes(with_block(content, packed.getvalue()[:end]))
    with pytest.raises(LimitExceededError, match=r"m0\.avro: its blocks hold more"):
        pf.iceberg(metadata, column="tokens")
    manifest.write_bytes(with_block(content, packed.getvalue()[:90]))
    with pytest.raises(CorruptFileError, match=r"m0\.avro: pyiceberg says: a block"):
        pf.iceberg(metadata, column="tokens")


def test_deletes_that_are_as_many_as_no_table_has(tmp_path, monkeypatch):
    metadata = write_iceberg(tmp_path, [rows_table(0, 90)])
    [data] = data_files(metadata)
    metadata = delete_from_iceberg(metadata, [(data, [3, 5, 7])], "positions")
    assert len(pf.iceberg(metadata, column="tokens")) == 87
    monkeypatch.setattr(expansion, "BATCH_BYTES", 60)  # A row at once.
    assert len(pf.iceberg(metadata, column="tokens")) == 87
    monkeypatch.setattr(expansion, "MOST_WHOLE", 20)
    with pytest.raises(LimitExceededError, match=r"pos decode to 72 bytes, and 20"):
        pf.iceberg(metadata, column="tokens")


def test_a_checkpoint_of_one_name_that_is_there_very_often(tmp_path):
    write_delta(tmp_path, [rows_table(0, 9)])
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / "_delta_log"
    [checkpoint] = log.glob("*.checkpoint.parquet")
    for commit in log.glob("*.json"):
        commit.unlink()
    assert len(added_up_to(Storage(), f"{log}", 0)) == 1
    table = pq.read_table(checkpoint)
    [row] = table.filter(compute.is_valid(table["add"])).to_pylist()
    row["add"]["path"] = "x" * (1 << 16)
    rows = pa.Table.from_pylist([row], table.schema)
    pq.write_table(pa.concat_tables([rows] * 70_000), checkpoint)
    assert checkpoint.stat().st_size < 1 << 20
    with pytest.raises(LimitExceededError, match=r"add\.path.* decode to"):
        added_up_to(Storage(), f"{log}", 0)
