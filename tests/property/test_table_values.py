"""Values of every type in tables: in files, partitions, structs and defaults.

Tables of both libraries, whose column came late or is that of a partition from some
commit on, against a plain model: rows, metadata of batches, and predicates, for which
files are left out.
"""

import datetime
import json
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform

import pagefeed as pf
from made.tables import catalog_in
from pagefeed.dataset import ParquetDataset
from scaled import scaled


class Kind(NamedTuple):
    """A type, some of its values, and one of them as predicates have it."""

    type: pa.DataType
    values: list[Any]
    literal: str | None = None
    value: Any = None


ZONE = datetime.UTC
KINDS = {
    "int": Kind(pa.int32(), [-3, 0, 7], "0", 0),
    "long": Kind(pa.int64(), [-3, 2**40, 2**40 + 1], str(2**40), 2**40),
    "text": Kind(
        pa.string(), ["en/US", "a:b", "100%", "\u65e5", "it's", "a b"], "'b'", "b"
    ),
    "flag": Kind(pa.bool_(), [True, False]),
    "date": Kind(
        pa.date32(),
        [datetime.date(1969, 12, 30), datetime.date(2026, 1, 2)],
        "'2026-01-02'",
        datetime.date(2026, 1, 2),
    ),
    "time": Kind(
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1969, 1, 1, 2, 3, 4, 5, ZONE),
            datetime.datetime(2026, 1, 2, 3, 4, 5, 60, ZONE),
        ],
        "'2026-01-02T03:04:05.000060Z'",
        datetime.datetime(2026, 1, 2, 3, 4, 5, 60, ZONE),
    ),
    "decimal": Kind(
        pa.decimal128(9, 2), [Decimal("9.50"), Decimal("10.00")], "9.75", 9.75
    ),
    "real": Kind(pa.float64(), [-1.5, 9.5, 10.0], "9.5", 9.5),
    "bytes": Kind(pa.binary(), [b"a", b"\x01\xff"]),
}


class Case(NamedTuple):
    """A table: what its column holds in rows of each commit, and how it has it."""

    kind: str
    commits: list[list[Any]]
    nested: bool
    late: bool
    """Files of the first commit lack the column."""
    default: bool
    """Rows of files that lack it have its first value (Iceberg)."""
    partition: int
    """The commit from which on it is that of the partition; 9: never."""

    @property
    def column(self) -> str:
        return "v.x" if self.nested else "v"

    def rows(self) -> list[Any]:
        """The value of each row."""
        first = None
        if self.default:
            first = KINDS[self.kind].values[0]
        begin = [first if self.late else each for each in self.commits[0]]
        return begin + [each for values in self.commits[1:] for each in values]

    def tables(self) -> list[pa.Table]:
        found, first = [], 0
        for place, values in enumerate(self.commits):
            numbers = range(first, first + len(values))
            tokens = pa.array([[n] * 3 for n in numbers], pa.list_(pa.int32()))
            table = pa.table({"tokens": tokens, "n": pa.array(numbers, pa.int64())})
            column = pa.array(values, KINDS[self.kind].type)
            if self.nested:
                column = pa.StructArray.from_arrays([column], ["x"])
            if place or not self.late:
                table = table.append_column("v", column)
            found.append(table)
            first += len(values)
        return found


@st.composite
def cases(draw: st.DrawFn, *, is_iceberg: bool) -> Case:
    kind = draw(st.sampled_from([*KINDS]))
    value = st.none() | st.sampled_from(KINDS[kind].values)
    values = st.lists(value, min_size=1, max_size=3)
    commits = draw(st.lists(values, min_size=2, max_size=4))
    nested = draw(st.booleans())
    late = draw(st.booleans())
    has_default = is_iceberg and late and not nested and kind in ("int", "text")
    partition = 9
    if not nested and (is_iceberg or not late):
        choices = [0, 1, 2, 9] if is_iceberg and not late else [2, 9]
        partition = draw(st.sampled_from(choices if is_iceberg else [0, 9]))
    if kind in ("real", "decimal") and is_iceberg:
        partition = 9  # pyiceberg writes no such partitions that it can read.
    return Case(
        *(kind, commits, nested, late),
        default=has_default and draw(st.booleans()),
        partition=partition,
    )


def check(case: Case, web: ParquetDataset) -> None:
    """Compare rows, predicates, and metadata of batches with the model."""
    rows, kind = case.rows(), KINDS[case.kind]

    def value_of(row: dict[str, Any]) -> Any:
        found = row.get("v.x", row.get("v"))
        return found["x"] if isinstance(found, dict) else found

    found = sorted(web, key=lambda row: row["n"])
    assert [value_of(row) for row in found] == rows
    assert [row["tokens"] for row in found] == [[n] * 3 for n in range(len(rows))]
    column = case.column
    tests: list[tuple[str, Callable[[Any], bool]]] = [
        (f"{column} is null", lambda value: value is None),
        (f"{column} is not null", lambda value: value is not None),
    ]
    if kind.literal is not None:
        wanted: Any = kind.value
        tests += [
            (f"{column} >= {kind.literal}", lambda v: v is not None and v >= wanted),
            (f"{column} < {kind.literal}", lambda v: v is not None and v < wanted),
            (f"{column} == {kind.literal}", lambda v: v == wanted),
            (f"{column} != {kind.literal}", lambda v: v is not None and v != wanted),
        ]
    if case.kind == "flag":
        tests += [(column, lambda value: value is True)]
    for predicate, test in tests:
        chosen = sorted(row["n"] for row in web.where(predicate))
        expected = [n for n, value in enumerate(rows) if test(value)]
        assert chosen == expected, predicate
    fields: Any = ("input_ids", "metadata")
    loader = pf.Loader(
        web, sequences=pf.Windows(4), batch_size=1, fields=fields, drop_last=False
    )
    told = {
        row["n"]: value_of(row)
        for batch in loader
        for row in pa.table(batch["metadata"]).to_pylist()
    }
    assert told == dict(enumerate(rows))


@given(cases(is_iceberg=False))
@settings(max_examples=scaled(10))
def test_delta(case):
    with tempfile.TemporaryDirectory() as folder:
        for place, table in enumerate(case.tables()):
            options: Any = {"schema_mode": "merge"} if place else {}
            if case.partition == 0:
                options["partition_by"] = ["v"]
            write_deltalake(folder, table, mode="append", **options)
        metadata = ["n", case.column]
        check(
            case,
            pf.delta(folder, column="tokens", metadata=metadata, missing="null"),
        )


@given(cases(is_iceberg=True), st.booleans())
@settings(max_examples=scaled(10))
def test_iceberg(case, expires):
    with tempfile.TemporaryDirectory() as name:
        catalog, _ = catalog_in(Path(name))
        tables = case.tables()
        table = catalog.create_table("corpus.web", schema=tables[0].schema)
        for place, rows in enumerate(tables):
            if place == 1 and case.late:
                with table.update_schema() as change:
                    change.union_by_name(rows.schema)
            if place == case.partition:
                with table.update_spec() as spec:
                    spec.add_field("v", IdentityTransform(), "by_v")
            table.append(rows.cast(table.schema().as_arrow()))
        catalog.close()
        path = Path(str(table.metadata_location).removeprefix("file://"))
        told = json.loads(path.read_text())
        if case.default:
            told |= {"format-version": 3, "next-row-id": 0}
            for snapshot in told["snapshots"]:
                snapshot |= {"first-row-id": 0, "added-rows": 0}
            for schema in told["schemas"]:
                for field in schema["fields"]:
                    if field["name"] == "v":
                        field["initial-default"] = KINDS[case.kind].values[0]
        if expires:
            now = told["current-schema-id"]
            kept = [one for one in told["schemas"] if one["schema-id"] == now]
            told["schemas"] = kept
        path.write_text(json.dumps(told))
        metadata = ["n", case.column]
        check(
            case,
            pf.iceberg(path, column="tokens", metadata=metadata, missing="null"),
        )
