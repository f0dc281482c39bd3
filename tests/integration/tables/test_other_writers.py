"""Tables as Spark and other engines write them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

import pagefeed as pf
from made.iceberg_log import IcebergLog, Written, positions, with_ids
from made.tables import data_files, delete_from_iceberg, rows_table, write_iceberg
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError


def test_files_without_row_groups(tmp_path):
    """Spark writes one for a task that got no row."""
    folder = tmp_path / "web"
    folder.mkdir()
    schema = pa.schema([("id", pa.int32())])
    for number in (0, 2):
        pq.ParquetWriter(folder / f"{number}.parquet", schema).close()
    pq.write_table(pa.table({"id": range(5)}, schema=schema), folder / "1.parquet")
    convert_to_deltalake(folder)
    assert len(DeltaTable(folder).file_uris()) == 3
    web = pf.delta(folder, column="id")
    assert [row["id"] for row in web] == [0, 1, 2, 3, 4]
    assert [row["id"] for row in web.where("id >= 3")] == [3, 4]


def test_a_manifest_that_is_cut_off_is_refused(tmp_path):
    """pyiceberg takes the end of what is left for the end of the file."""
    metadata = write_iceberg(tmp_path, [rows_table(0, 5), rows_table(5, 9)])
    folder = Path(metadata).parent
    assert len(pf.iceberg(metadata, column="tokens")) == 9
    current = StaticTable.from_metadata(metadata).current_snapshot()
    assert current is not None
    named = [current.manifest_list]
    named += [each.manifest_path for each in current.manifests(PyArrowFileIO())]
    for path in (folder / Path(name).name for name in named):
        whole = path.read_bytes()
        for size in (len(whole) - 1, len(whole) - 20, len(whole) - 120):
            path.write_bytes(whole[:size])
            with pytest.raises(CorruptFileError, match=path.name):
                len(pf.iceberg(metadata, column="tokens"))
        path.write_bytes(whole)


def test_vectors_of_a_file_cost_one_read(tmp_path, monkeypatch):
    metadata = write_iceberg(tmp_path, [rows_table(n, n + 5) for n in range(0, 50, 5)])
    deleted = [(path, [n % 5]) for n, path in enumerate(data_files(metadata))]
    changed = delete_from_iceberg(metadata, deleted, "vectors")
    asked = []
    read = Storage.read

    def counted(storage: Storage, file: str, begin: int, end: int) -> bytes:
        asked.append(file)
        return read(storage, file, begin, end)

    monkeypatch.setattr(Storage, "read", counted)
    assert len(pf.iceberg(changed, column="tokens")) == 40
    assert len([file for file in asked if file.endswith(".puffin")]) == 1


def test_position_deletes_that_name_no_file_delete_nothing(tmp_path):
    log = IcebergLog(write_iceberg(tmp_path, [rows_table(0, 1)]))
    rows = with_ids(
        {
            ("id", 1): pa.array(range(5), pa.int64()),
            ("tokens", 3): pa.array([[n] for n in range(5)], pa.list_(pa.int32())),
        }
    )
    path = log.write(Written(rows), "data")
    nowhere: list[tuple[str | None, int]] = [(None, 0), (None, 3)]
    log.commit(
        [Written(rows, path=path)],
        [
            Written(positions([(None, 1), (path, 2), *nowhere])),
            Written(positions(nowhere)),
        ],
    )
    web = pf.iceberg(log.metadata, column="tokens")
    assert sorted(row["tokens"] for row in web) == [[0], [1], [3], [4]]
