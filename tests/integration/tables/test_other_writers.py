"""Tables as Spark and other engines write them."""

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, convert_to_deltalake

import pagefeed as pf


def test_files_without_row_groups(tmp_path):
    """Spark writes one for a task that got no row."""
    folder = tmp_path / "web"
    folder.mkdir()
    schema = pa.schema([("id", pa.int32())])
    for number in (0, 2):
        pq.ParquetWriter(folder / f"{number}.parquet", schema, store_schema=False).close()
    pq.write_table(pa.table({"id": range(5)}, schema=schema), folder / "1.parquet")
    convert_to_deltalake(folder)
    assert len(DeltaTable(folder).file_uris()) == 3
    web = pf.delta(folder, column="id")
    assert [row["id"] for row in web] == [0, 1, 2, 3, 4]
    assert [row["id"] for row in web.where("id >= 3")] == [3, 4]
