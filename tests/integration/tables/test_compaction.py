"""Tables whose files were rewritten: that changes no data, and runs go on."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import pagefeed as pf
from made.growing import loader_of, rows_of_all, taken
from made.iceberg_log import IcebergLog, Written, with_ids
from made.tables import catalog_in, delete_from_delta, rows_table, write_delta
from pagefeed.errors import StateMismatchError, UnsupportedError


def delta(folder: Path, version: int | None = None, where: str = "") -> Any:
    web = pf.delta(folder, version, column="tokens", missing="null")
    return web.where(where) if where else web


def add(folder: Path, begin: int) -> None:
    write_delta(folder, [rows_table(begin, begin + 100)])


def compact(folder: Path) -> None:
    DeltaTable(folder).optimize.compact()


@pytest.mark.parametrize("where", ["", "id > 20", "id >= 120"])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_run_goes_on_over_a_compacted_table(tmp_path, where, deleted):
    """And over one that grew besides; what deletion vectors left out stays out."""
    for begin in (1, 101, 201):
        add(tmp_path, begin)
    if deleted:
        [first, *_] = [Path(path).name for path in delta(tmp_path).files]
        delete_from_delta(tmp_path, {first: [3, 40]})
    version = DeltaTable(tmp_path).version()
    expected = rows_of_all([loader_of(delta(tmp_path, None, where), batch_size=1)])
    begun = loader_of(delta(tmp_path, None, where), batch_size=1)
    taken(begun, 4)
    state = json.loads(json.dumps(begun.state_dict()))
    compact(tmp_path)
    for has_grown in (False, True):
        web = delta(tmp_path, None, where)
        now = loader_of(web, batch_size=1)
        if has_grown:
            with pytest.raises(StateMismatchError, match=f"then delta:{version}"):
                now.load_state_dict(state)
        now.load_state_dict(state, grown="next-epoch" if has_grown else None)
        copied = pickle.loads(pickle.dumps(now))
        assert rows_of_all([now]) == expected[4:]
        assert rows_of_all([copied]) == expected[4:]
        fresh = loader_of(delta(tmp_path, None, where), batch_size=1)
        fresh.set_epoch(1)
        assert rows_of_all([now]) == rows_of_all([fresh])
        add(tmp_path, 301)
        compact(tmp_path)
    with pytest.raises(StateMismatchError, match="rewritten"):
        loader_of(web, batch_size=1).load_state_dict(state, grown="now")


def test_a_mixture_goes_on_over_a_compacted_table(tmp_path):
    for begin in (1, 101):
        add(tmp_path, begin)

    def loader() -> pf.Loader:
        web = delta(tmp_path)
        return loader_of(pf.mix({"web": web}, max_steps=150), batch_size=1)

    expected, begun = rows_of_all([loader()]), loader()
    taken(begun, 4)
    state = begun.state_dict()
    add(tmp_path, 201)
    compact(tmp_path)
    now = loader()
    now.load_state_dict(state, grown="next-epoch")
    rest = rows_of_all([now])
    assert rest[:10] == expected[4:14]
    assert any(max(row) > 200 for row in rest)


def test_lost_rows_are_refused_with_the_version_of_the_state(tmp_path):
    for begin in (1, 101):
        add(tmp_path, begin)
    begun = loader_of(delta(tmp_path), batch_size=1)
    taken(begun, 4)
    state = begun.state_dict()
    compact(tmp_path)
    DeltaTable(tmp_path).delete("id = 17")
    now = loader_of(delta(tmp_path), batch_size=1)
    with pytest.raises(StateMismatchError, match=r"no ids .*row tracking.*key='id'"):
        now.load_state_dict(state, grown="next-epoch")
    with pytest.raises(UnsupportedError, match="delta:1 are not in delta:3"):
        delta(tmp_path, 1).erase(snapshot=delta(tmp_path))
    then = delta(tmp_path, 1).erase(snapshot=delta(tmp_path), key="id")
    again = loader_of(then, batch_size=1)
    again.load_state_dict(state)
    assert not {17} & {token for row in rows_of_all([again]) for token in row}
    # Files that are gone cannot be read again.
    for file in delta(tmp_path, 1).files:
        Path(file).unlink()
    compacted = pf.delta(tmp_path, 2, column="tokens")
    with pytest.raises(StateMismatchError, match="1, the snapshot of the state, w"):
        loader_of(compacted, batch_size=1).load_state_dict(state, grown="next-epoch")


ID_COLUMN = "_row-id-col-1"
ICEBERG_ROW_ID = 2147483540


class TrackedTable:
    """A Delta table with ids of rows, whose log is written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, 0
        (folder / "_delta_log").mkdir()
        tokens = {"type": "array", "elementType": "integer", "containsNull": True}
        schema = [("id", "long"), ("tokens", tokens)]
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in schema
        ]
        self.commit(
            {
                "protocol": {
                    "minReaderVersion": 1,
                    "minWriterVersion": 7,
                    "writerFeatures": ["rowTracking", "domainMetadata"],
                }
            },
            {
                "metaData": {
                    "id": "t",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": {
                        "delta.enableRowTracking": "true",
                        "delta.rowTracking.materializedRowIdColumnName": ID_COLUMN,
                    },
                    "createdTime": 1,
                }
            },
        )

    def commit(self, *actions: dict[str, Any]) -> None:
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        path.write_text("\n".join(map(json.dumps, actions)))
        self.version += 1

    def add(self, name: str, rows: pa.Table, first: int) -> dict[str, Any]:
        pq.write_table(rows, self.folder / name)
        size = os.path.getsize(self.folder / name)
        return {
            "add": {
                "path": name,
                "size": size,
                "partitionValues": {},
                "modificationTime": self.version,
                "dataChange": True,
                "baseRowId": first,
                "defaultRowCommitVersion": self.version,
            }
        }

    def clean_up(self, version: int, kind: str) -> None:
        """Put what commits up to a version say into a checkpoint, and remove them."""
        log = self.folder / "_delta_log"
        commits = [log / f"{number:020}.json" for number in range(version + 1)]
        texts = [path.read_text().split("\n") for path in commits]
        lines = [json.loads(line) for text in texts for line in text]
        DeltaTable(self.folder, version=version).create_checkpoint()
        classic = log / f"{version:020}.checkpoint.parquet"
        if kind != "classic":
            whole = pq.read_table(classic)
            is_add = pa.compute.field("add").is_valid()
            (log / "_sidecars").mkdir()
            one = log / "_sidecars" / "one.parquet"
            pq.write_table(whole.filter(is_add).select(["add"]), one)
            size = one.stat().st_size
            beside = {"path": one.name, "sizeInBytes": size, "modificationTime": 1}
            told: list[dict[str, Any]] = [
                {"sidecar": beside},
                {"checkpointMetadata": {"version": version}},
            ]
            name = f"{version:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
            if kind == "text":
                told += [line for line in lines if "add" not in line]
                (log / f"{name}.json").write_text("\n".join(map(json.dumps, told)))
            else:
                rest = whole.filter(~is_add)  # Others of a row may say more.
                for action in told:
                    [(column, value)] = action.items()
                    values = [value, *[None] * (len(rest) - 1)]
                    same = [field.type for field in rest.schema if field.name == column]
                    rest = rest.drop_columns([column] if same else [])
                    rest = rest.append_column(column, pa.array(values, *same))
                pq.write_table(rest, log / f"{name}.parquet")
            classic.unlink()
            (log / "_last_checkpoint").unlink(missing_ok=True)
        for path in commits:
            path.unlink()

    @staticmethod
    def remove(name: str) -> dict[str, Any]:
        return {"remove": {"path": name, "dataChange": True, "deletionTimestamp": 1}}


def plain(begin: int, end: int) -> pa.Table:
    return rows_table(begin, end).select(["id", "tokens"])


def with_row_ids(rows: pa.Table, ids: list[int | None], field_id: int = 0) -> pa.Table:
    meta = {b"PARQUET:field_id": str(field_id).encode()} if field_id else None
    name = "_row_id" if field_id else ID_COLUMN
    return rows.append_column(
        pa.field(name, pa.int64(), metadata=meta), pa.array(ids, pa.int64())
    )


@pytest.mark.parametrize("checkpoint", ["", "classic", "beside", "text"])
def test_row_tracking_tells_rows_that_an_update_rewrote(tmp_path, checkpoint):
    """Also where a cleanup left them to a checkpoint, of any kind."""
    table = TrackedTable(tmp_path)
    table.commit(table.add("a", plain(1, 51), 0), table.add("b", plain(51, 101), 50))
    version = table.version - 1
    then = delta(tmp_path, version)
    expected, begun = rows_of_all([loader_of(then, batch_size=1)]), loader_of(then)
    taken(begun, 4)
    state = begun.state_dict()
    # Both are rewritten into one, some rows have new ids by their place.
    both = pa.concat_tables([plain(51, 101), plain(1, 51)])
    ids = [*range(50, 100), *range(50)]
    table.commit(
        table.add("c", with_row_ids(both, [*ids]), 100),
        *map(table.remove, ["a", "b"]),
        table.add("d", plain(101, 111), 200),
    )
    if checkpoint:
        table.clean_up(version, checkpoint)
    now = loader_of(delta(tmp_path))
    now.load_state_dict(state, grown="next-epoch")
    assert rows_of_all([now]) == expected[8:]
    # Rows 7 and 60 are deleted.
    left = [n for n in ids if n not in (7, 60)]
    kept = pa.table({"id": [n + 1 for n in left], "tokens": [[n + 1] for n in left]})
    kept = kept.cast(both.schema)
    table.commit(table.add("e", with_row_ids(kept, [*left]), 300), table.remove("c"))
    with pytest.raises(StateMismatchError, match=rf"delta:{version}, .* 2 in all"):
        loader_of(delta(tmp_path)).load_state_dict(state, grown="next-epoch")
    erased = then.erase(snapshot=delta(tmp_path))
    assert [n for n in range(100) if erased[n]["tokens"] is None] == [7, 60]


def iceberg_rows(ids: list[int], row_ids: list[int] | None = None) -> pa.Table:
    rows = with_ids(
        {
            ("id", 1): pa.array(ids, pa.int64()),
            ("tokens", 2): pa.array([[n] * 3 for n in ids]),
        }
    )
    return rows if row_ids is None else with_row_ids(rows, [*row_ids], ICEBERG_ROW_ID)


def iceberg_log(folder: Path, version: int) -> IcebergLog:
    schema = pa.schema({"id": pa.int64(), "tokens": pa.list_(pa.int64())})
    catalog, _ = catalog_in(folder)
    table = catalog.create_table("corpus.web", schema=schema)
    catalog.close()
    return IcebergLog(table.metadata_location.removeprefix("file://"), version=version)


@pytest.mark.parametrize("where", ["", "id > 20"])
def test_a_run_goes_on_where_iceberg_replaced_files(tmp_path, where):
    log = iceberg_log(tmp_path, 2)
    log.commit([Written(iceberg_rows([*range(n, n + 60)])) for n in (1, 61)])

    def loader() -> pf.Loader:
        web = pf.iceberg(log.metadata, column="tokens")
        return loader_of(web.where(where) if where else web, batch_size=1)

    expected, begun = rows_of_all([loader()]), loader()
    taken(begun, 4)
    state = begun.state_dict()
    ids = [*range(61, 121), *range(1, 61)]
    log.commit([Written(iceberg_rows(ids))], operation="replace")
    log.commit([Written(iceberg_rows([*range(200, 220)]))], operation="append")
    now = loader()
    with pytest.raises(StateMismatchError, match="snapshot then iceberg:"):
        now.load_state_dict(state)
    now.load_state_dict(state, grown="next-epoch")
    copied = pickle.loads(pickle.dumps(now))
    assert rows_of_all([now]) == rows_of_all([copied]) == expected[4:]
    # Deleted rows of what was rewritten are told by nothing.
    log.commit([Written(iceberg_rows(ids[1:]))], operation="replace")
    log.commit(operation="delete")
    with pytest.raises(StateMismatchError, match="row ids of Iceberg 3"):
        loader().load_state_dict(state, grown="next-epoch")


@pytest.mark.parametrize("lost", [[], [7, 90]])
@pytest.mark.parametrize("are_held", [True, False])
def test_row_ids_of_iceberg_tell_rows_that_were_rewritten(tmp_path, lost, are_held):
    """Ids of manifests, or those that files hold."""
    log, first = iceberg_log(tmp_path, 3), None if are_held else 500
    files = [[*range(n, n + 60)] for n in (1, 61)]
    of_files = [[499 + n for n in ids] if are_held else None for ids in files]
    written = map(iceberg_rows, files, of_files)
    log.commit([*map(Written, written)], first_row_id=first)
    then = pf.iceberg(log.metadata, column="tokens")
    expected, begun = rows_of_all([loader_of(then)]), loader_of(then)
    taken(begun, 4)
    state = begun.state_dict()
    left = [n for n in range(120, 0, -1) if n not in lost]
    log.manifests = []
    log.commit([Written(iceberg_rows(left, [499 + n for n in left]))])
    log.commit([Written(iceberg_rows([*range(200, 220)], [*range(900, 920)]))])
    web = pf.iceberg(log.metadata, column="tokens")
    now = loader_of(web)
    if lost:
        with pytest.raises(StateMismatchError, match=r"rows of iceberg:.* 2 in all"):
            now.load_state_dict(state, grown="next-epoch")
        erased = then.erase(snapshot=web)
        rows = zip(then, erased, strict=True)
        gone = [old["tokens"][0] for old, row in rows if row["tokens"] is None]
        assert sorted(gone) == lost
    else:
        now.load_state_dict(state, grown="next-epoch")
        assert rows_of_all([now]) == expected[8:]
