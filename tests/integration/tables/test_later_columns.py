"""Runs over a snapshot that goes back to before a column: a compaction came between."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

import pagefeed as pf
from made.growing import loader_of, rows_of_all, taken
from made.iceberg_log import IcebergLog, Written, with_ids
from made.tables import catalog_in, rows_table
from pagefeed.errors import ColumnNotFoundError

FIELDS: Any = ("input_ids", "metadata")


def goes_on(now: Any, state: Any, expected: list[list[int]], tags: set[Any]) -> None:
    """What remains comes as it would have, with what rows had of the later columns."""
    resumed = loader_of(now, batch_size=1, fields=FIELDS)
    resumed.load_state_dict(state, grown="next-epoch")
    copied = pickle.loads(pickle.dumps(resumed))
    for loader in (resumed, copied):
        batches = [*loader]
        rows = [row for batch in batches for row in batch["input_ids"].tolist()]
        assert rows == expected[4:]
        told = [row for b in batches for row in pa.table(b["metadata"]).to_pylist()]
        assert {row["tag"] for row in told} == tags


def test_delta(tmp_path):
    def web(missing: Any = "null") -> Any:
        return pf.delta(tmp_path, column="tokens", metadata=["tag"], missing=missing)

    for begin in (1, 101):
        write_deltalake(tmp_path, rows_table(begin, begin + 100), mode="append")
    plain = pf.delta(tmp_path, column="tokens")
    expected, begun = rows_of_all([loader_of(plain, batch_size=1)]), loader_of(plain)
    begun = loader_of(plain, batch_size=1)
    taken(begun, 4)
    state = json.loads(json.dumps(begun.state_dict()))
    DeltaTable(tmp_path).alter.add_columns([DeltaField("tag", PrimitiveType("string"))])
    write_deltalake(tmp_path, rows_table(201, 301, tag=["new"] * 100), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    goes_on(web(), state, expected, {None})
    refused = loader_of(web("error"), batch_size=1, fields=FIELDS)
    with pytest.raises(ColumnNotFoundError, match='no column "tag"'):
        refused.load_state_dict(state, grown="next-epoch")


@pytest.mark.parametrize("missing", ["null", "error"])
@pytest.mark.parametrize("default", [None, "old"])
def test_iceberg(tmp_path, missing, default):
    """A column is its id: also the tokens, which got another name since."""

    def written(ids: list[int], **tags: Any) -> Written:
        columns = {
            ("id", 1): pa.array(ids, pa.int64()),
            ("tokens", 2): pa.array([[n] * 3 for n in ids]),
        }
        return Written(with_ids({**columns, **{(n, 9): v for n, v in tags.items()}}))

    schema = pa.schema({"id": pa.int64(), "tokens": pa.list_(pa.int64())})
    catalog, _ = catalog_in(tmp_path)
    table = catalog.create_table("corpus.web", schema=schema)
    catalog.close()
    log = IcebergLog(table.metadata_location.removeprefix("file://"), version=3)
    log.commit([written([*range(n, n + 60)]) for n in (1, 61)])
    plain = pf.iceberg(log.metadata, column="tokens")
    expected = rows_of_all([loader_of(plain, batch_size=1)])
    begun = loader_of(plain, batch_size=1)
    taken(begun, 4)
    state = begun.state_dict()
    told = json.loads(Path(log.metadata).read_text())
    new = json.loads(json.dumps(told["schemas"][-1]))
    new["schema-id"] = told["current-schema-id"] = 1 + new["schema-id"]
    new["fields"][1]["name"] = "ids"
    tag = {"id": 9, "name": "tag", "type": "string", "required": False}
    new["fields"].append(
        tag if default is None else {**tag, "initial-default": default}
    )
    told["schemas"].append(new)
    Path(log.metadata).write_text(json.dumps(told))
    ids = [*range(61, 121), *range(1, 61)]
    tags = pa.array([default] * 120, pa.string())
    log.commit([written(ids, tag=tags)], operation="replace")
    added = pa.array(["new"] * 20)
    log.commit([written([*range(200, 220)], tag=added)], operation="append")
    now = pf.iceberg(log.metadata, column="ids", metadata=["tag"], missing=missing)
    if missing == "error" and default is None:
        refused = loader_of(now, batch_size=1, fields=FIELDS)
        with pytest.raises(ColumnNotFoundError, match="tag"):
            refused.load_state_dict(state, grown="next-epoch")
        return
    goes_on(now, state, expected, {default})
