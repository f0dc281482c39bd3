"""Columns of tables that change between files, against a plain model of their rows."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType

import pagefeed as pf
from made.tables import catalog_in
from pagefeed.dataset import ParquetDataset
from scaled import scaled

NAMES = ["a", "b", "c", "d"]
VALUES = st.integers(-3, 3) | st.none()
CHANGE = st.one_of(
    st.tuples(st.just("append"), st.lists(VALUES, min_size=4, max_size=4)),
    st.tuples(st.just("rename"), st.permutations(NAMES)),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    st.tuples(st.just("add"), st.sampled_from(NAMES)),
    st.tuples(st.just("widen"), st.sampled_from(NAMES)),
    st.tuples(st.just("partition"), st.sampled_from(NAMES)),
)
CHANGES = st.lists(CHANGE, min_size=3, max_size=8)


class Model:
    """Rows by the ids of columns, and what columns are called now."""

    def __init__(self) -> None:
        self.rows: list[dict[int, int | None]] = []
        self.ids = {"a": 0, "b": 1}
        self.next = 2

    def append(self, values: list[int | None]) -> pa.Table:
        """Add two rows; return them as a table has them now."""
        for number in range(2):
            row = dict(zip(self.ids.values(), values[number:] * 2, strict=False))
            self.rows.append(row)
        columns = {
            name: [row[number] for row in self.rows[-2:]]
            for name, number in self.ids.items()
        }
        numbers = range(len(self.rows) - 2, len(self.rows))
        tokens = pa.array([[n] * 3 for n in numbers], pa.list_(pa.int32()))
        found = pa.table({"tokens": tokens, "number": pa.array(numbers, pa.int64())})
        for name, value in columns.items():
            found = found.append_column(name, pa.array(value, pa.int32()))
        return found

    def rename(self, order: list[str]) -> dict[str, str]:
        """Give columns the first names of an order; return the new ones by the old."""
        changed = dict(zip(self.ids, order, strict=False))
        self.ids = {changed[name]: number for name, number in self.ids.items()}
        return changed

    def drop(self, name: str) -> bool:
        """Drop a column, if it is one of several."""
        if len(self.ids) < 2 or name not in self.ids:
            return False
        del self.ids[name]
        return True

    def add(self, name: str) -> bool:
        """Add a column, if there is none of the name."""
        if name in self.ids:
            return False
        self.ids[name] = self.next
        self.next += 1
        return True

    def check(self, web: ParquetDataset) -> None:
        """Compare rows, predicates, and metadata of batches."""
        expected = [
            {
                "number": number,
                **{name: row.get(each) for name, each in self.ids.items()},
            }
            for number, row in enumerate(self.rows)
        ]
        found = sorted(web, key=lambda row: row["number"])
        assert [{n: row[n] for n in ("number", *self.ids)} for row in found] == expected
        assert [row["tokens"] for row in found] == [
            [n] * 3 for n in range(len(self.rows))
        ]
        for name in self.ids:
            tests: list[tuple[str, Callable[[Any], bool]]] = [
                (f"{name} >= 1", lambda value: value is not None and value >= 1),
                (f"{name} is null", lambda value: value is None),
                (f"{name} == -2 and number >= 1", lambda value: value == -2),
            ]
            for predicate, test in tests:
                wanted = [n for n, row in enumerate(expected) if test(row[name])]
                if "number" in predicate:
                    wanted = [number for number in wanted if number >= 1]
                chosen = sorted(row["number"] for row in web.where(predicate))
                assert chosen == wanted, predicate
        fields: Any = ("input_ids", "metadata")
        loader = pf.Loader(
            web, sequences=pf.Windows(4), batch_size=1, fields=fields, drop_last=False
        )
        told = {
            row["number"]: {name: row[name] for name in ("number", *self.ids)}
            for batch in loader
            for row in pa.table(batch["metadata"]).to_pylist()
        }
        assert told == {row["number"]: row for row in expected}


@given(CHANGES)
@settings(max_examples=scaled(8))
def test_iceberg(changes):
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), Model()
        catalog, _ = catalog_in(folder)
        first = model.append([1, 2, 3, None])
        table = catalog.create_table("corpus.web", schema=first.schema)
        table.append(first)
        for kind, value in changes:
            _evolve(table, model, kind, value)
        catalog.close()
        path = Path(str(table.metadata_location).removeprefix("file://"))
        told = json.loads(path.read_text())
        told["schemas"] = [json.loads(table.schema().model_dump_json())]
        expired = path.with_name("expired.metadata.json")
        expired.write_text(json.dumps(told))
        for metadata in (path, expired):
            columns = ["number", *model.ids]
            model.check(
                pf.iceberg(metadata, column="tokens", metadata=columns, missing="null")
            )


def _evolve(table: Any, model: Model, kind: str, value: Any) -> None:
    """Make a change of a table of Iceberg and of its model."""
    is_plain = not table.spec().fields
    match kind:
        case "append":
            table.append(model.append(value).cast(table.schema().as_arrow()))
        case "rename":
            changed = model.rename(value)
            for names in (
                {old: f"{old}_" for old in changed},
                {f"{old}_": new for old, new in changed.items()},
            ):
                with table.update_schema() as change:
                    for old, new in names.items():
                        change.rename_column(old, new)
        case "drop" if is_plain and model.drop(value):
            with table.update_schema() as change:
                change.delete_column(value)
        case "add" if model.add(value):
            with table.update_schema() as change:
                change.add_column(value, IntegerType())
        case "widen" if is_plain and value in model.ids:
            with table.update_schema() as change:
                change.update_column(value, LongType())
        case "partition" if is_plain and value in model.ids:
            with table.update_spec() as spec:
                spec.add_field(value, IdentityTransform(), f"by_{value}")


@given(CHANGES)
@settings(max_examples=scaled(8))
def test_delta(changes):
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), Model()
        options: Any = {"configuration": {"delta.columnMapping.mode": "name"}}
        if ("partition", "a") in changes:
            options["partition_by"] = ["a"]
        write_deltalake(folder, model.append([1, 2, 3, None]), **options)
        for kind, value in changes:
            match kind:
                case "append":
                    write_deltalake(folder, model.append(value), mode="append")
                case "rename":
                    _change(folder, model.rename(value))
                case "drop" if "partition_by" not in options and model.drop(value):
                    _change(folder, {}, dropped=value)
                case "add" if model.add(value):
                    _change(folder, {}, added=value, number=model.next)
        columns = ["number", *model.ids]
        model.check(pf.delta(folder, column="tokens", metadata=columns, missing="null"))


def _change(
    folder: Path,
    names: dict[str, str],
    *,
    dropped: str | None = None,
    added: str | None = None,
    number: int = 0,
) -> None:
    """Commit another schema of a table whose columns are mapped by name."""
    log = folder / "_delta_log"
    commits = sorted(log.glob("*.json"))
    lines = [
        json.loads(line)
        for each in commits
        for line in each.read_text().split("\n")
        if line
    ]
    told = [line["metaData"] for line in lines if "metaData" in line][-1]
    schema = json.loads(told["schemaString"])
    fields = [each for each in schema["fields"] if each["name"] != dropped]
    for each in fields:
        each["name"] = names.get(each["name"], each["name"])
    if added is not None:
        mapping = {"id": 100 + number, "physicalName": f"col-{added}-{number}"}
        metadata = {f"delta.columnMapping.{key}": each for key, each in mapping.items()}
        column = {"name": added, "type": "integer", "nullable": True}
        fields.append({**column, "metadata": metadata})
    told["configuration"]["delta.columnMapping.maxColumnId"] = "1000"
    parts = [names.get(each, each) for each in told["partitionColumns"]]
    changed = {
        **told,
        "schemaString": json.dumps({**schema, "fields": fields}),
        "partitionColumns": parts,
    }
    version = DeltaTable(folder).version() + 1
    (log / f"{version:020}.json").write_text(json.dumps({"metaData": changed}))
