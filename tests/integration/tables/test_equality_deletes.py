"""Rows that an Iceberg table deletes by their values, beside a plain model."""

import json
import logging
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import pagefeed as pf
from made.iceberg_log import IcebergLog, Vector, Written, positions, with_ids
from made.tables import catalog_in
from pagefeed.errors import CorruptFileError
from scaled import scaled

ID, LANG, PART, DAY, TOKENS, INNER, OUTER, GONE = range(1, 9)
KINDS = {
    ID: pa.int64(),
    LANG: pa.string(),
    PART: pa.int32(),
    DAY: pa.date32(),
    INNER: pa.string(),
    GONE: pa.int64(),
}
VALUES: dict[int, list[Any]] = {
    ID: [1, 2, 3, 4, 2**40],
    LANG: ["en", "de", "", None],
    PART: [0, 1, None],
    DAY: [0, 19723, None],
    INNER: ["x", "y", None],
    GONE: [5, 6, None],
}
SPECS: dict[int, list[int | None]] = {0: [], 1: [PART], 2: [DAY, None]}
"""Ways to partition: by whole columns, and (None) by what is made of the id."""


def empty_table(folder: Path) -> IcebergLog:
    """A table that had a column which was dropped since."""
    inner = NestedField(INNER, "inner", StringType())
    schema = Schema(
        NestedField(ID, "id", LongType()),
        NestedField(LANG, "lang", StringType()),
        NestedField(PART, "part", IntegerType()),
        NestedField(DAY, "day", DateType()),
        NestedField(TOKENS, "tokens", ListType(99, IntegerType())),
        NestedField(OUTER, "outer", StructType(inner)),
        NestedField(GONE, "gone", LongType()),
    )
    catalog, _ = catalog_in(folder)
    table = catalog.create_table(
        "corpus.web", schema, properties={"format-version": "2"}
    )
    # pyiceberg numbers the columns of a new table anew.
    path = table.metadata_location.removeprefix("file://")
    catalog.close()
    told = table.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    now = Schema(*schema.fields[:-1], schema_id=1)
    schemas = [schema, now]
    told["schemas"] = [each.model_dump(mode="json", by_alias=True) for each in schemas]
    told |= {"current-schema-id": 1, "last-column-id": 99}
    told["partition-specs"] = [
        PartitionSpec(
            *(
                PartitionField(ID, 1000 + 9 * n + at, BucketTransform(4), f"bucket{at}")
                if source is None
                else PartitionField(source, 1000 + 9 * n + at, IdentityTransform(), "p")
                for at, source in enumerate(sources)
            ),
            spec_id=n,
        ).model_dump(mode="json", by_alias=True)
        for n, sources in SPECS.items()
    ]
    Path(path).write_text(json.dumps(told))
    return IcebergLog(path)


Place: TypeAlias = tuple[str, int]
Scope: TypeAlias = tuple[int, tuple[Any, ...]]


class Row(NamedTuple):
    """A row of the model."""

    values: dict[int, Any]
    place: Place
    sequence: int
    scope: Scope


def written(values: dict[int, list[Any]], names: dict[int, str], **about: Any) -> Any:
    """A file of columns by their ids; their names mean nothing."""
    columns: dict[tuple[str, int], Any] = {}
    for number, held in values.items():
        column = pa.array(held, KINDS.get(number, pa.list_(pa.int32())))
        if number == INNER:
            name = (names[INNER], pa.string(), {b"PARQUET:field_id": b"%d" % INNER})
            inner = pa.field(name[0], name[1], metadata=name[2])
            columns[names[OUTER], OUTER] = pa.StructArray.from_arrays(
                [column], fields=[inner]
            )
        else:
            columns[names[number], number] = column
    return Written(with_ids(columns), **about)


@st.composite
def scopes(draw: Any) -> tuple[int, tuple[Any, ...]]:
    spec = draw(st.sampled_from([*SPECS]))
    domains = [range(4) if each is None else VALUES[each] for each in SPECS[spec]]
    return spec, tuple(draw(st.sampled_from(domain)) for domain in domains)


class Table(NamedTuple):
    """A table, all rows that were added to it, and what was deleted from it."""

    log: IcebergLog
    rows: list[Row]
    keyed: list[tuple[dict[int, Any], int, Scope]]
    listed: list[tuple[Place, int, Scope]]
    vectors: dict[str, set[int]]

    @property
    def left(self) -> set[Place]:
        return {row.place for row in self.rows if not self.deletes(row)}

    def deletes(self, row: Row) -> bool:
        """Whether it deletes a row, by the letter of the specification."""
        for values, sequence, scope in self.keyed:
            is_of = scope[0] == 0 or scope == row.scope
            is_equal = all(row.values[n] == value for n, value in values.items())
            if row.sequence < sequence and is_of and is_equal:
                return True
        if row.place[0] in self.vectors:
            return row.place[1] in self.vectors[row.place[0]]
        return any(
            place == row.place and row.sequence <= sequence and scope == row.scope
            for place, sequence, scope in self.listed
        )

    def add(self, draw: Any, sequence: int) -> Written:
        """Write a file of data, which lacks some columns, by any names."""
        spec, partition = draw(scopes())
        constants = dict(zip(SPECS[spec], partition, strict=True))
        count, held = draw(st.integers(1, 7)), draw(st.sets(st.sampled_from([*VALUES])))
        values = columns(draw, VALUES, count)
        for number in VALUES:
            if number in constants or number not in held:
                values[number] = [constants.get(number)] * count
        names = draw(st.permutations(["id", "lang", "part", "day", "in", "o", "g"]))
        called = dict(zip([*VALUES, OUTER], names, strict=True)) | {TOKENS: "tokens"}
        stored = {TOKENS: [[7]] * count} | {n: values[n] for n in sorted(held)}
        file = written(stored, called, spec=spec, partition=partition)
        file = file._replace(path=self.log.write(file, "data"))
        for at in range(count):
            one = {number: column[at] for number, column in values.items()}
            self.rows.append(Row(one, (file.path, at), sequence, (spec, partition)))
        return file

    def delete_keys(self, draw: Any, sequence: int) -> Written:
        """Write a file of deleted keys, perhaps with more columns than these."""
        some = st.sets(st.sampled_from([*VALUES]), min_size=1, max_size=3)
        keys, others = draw(some), draw(some)
        count = draw(st.integers(0, 4))
        values = columns(draw, sorted(keys | others), count)
        row = draw(st.sampled_from(self.rows))
        scope = draw(scopes() | st.just(row.scope))
        for number, column in values.items():
            column.append(row.values[number])
        count += 1
        for at in range(count):
            self.keyed.append(({n: values[n][at] for n in keys}, sequence, scope))
        called = {n: f"c{n}" for n in [*VALUES, OUTER]}
        ids = tuple(draw(st.permutations(sorted(keys))))
        return written(values, called, spec=scope[0], partition=scope[1], keys=ids)

    def delete_places(self, draw: Any, sequence: int) -> Written:
        """Write a list of deleted rows, perhaps of other partitions."""
        scope = draw(scopes() | st.sampled_from([row.scope for row in self.rows]))
        places = st.sampled_from([row.place for row in self.rows])
        some = sorted(draw(st.sets(places, min_size=1)))
        self.listed.extend((place, sequence, scope) for place in some)
        return Written(positions(some), *scope)

    def delete_by_vector(self, draw: Any) -> Vector:
        """Write the only vector of a file."""
        without = [row for row in self.rows if row.place[0] not in self.vectors]
        row = draw(st.sampled_from(without))
        path = row.place[0]
        numbers = [each.place[1] for each in self.rows if each.place[0] == path]
        self.vectors[path] = draw(st.sets(st.sampled_from(numbers)))
        return Vector(path, sorted(self.vectors[path]), *row.scope)


def columns(draw: Any, ids: Iterable[int], count: int) -> dict[int, list[Any]]:
    return {n: [draw(st.sampled_from(VALUES[n])) for _ in range(count)] for n in ids}


@st.composite
def tables(draw: Any, folder: Path, *, version: int) -> Table:
    """A table of some commits."""
    table = Table(empty_table(folder), [], [], [], {})
    table.log.version = version
    for sequence in range(1, 1 + draw(st.integers(2, 4))):
        first = sequence == 1
        data = [table.add(draw, sequence) for _ in range(draw(st.integers(first, 2)))]
        deletes = [
            table.delete_keys(draw, sequence) for _ in range(draw(st.integers(0, 2)))
        ]
        deletes += [
            table.delete_places(draw, sequence) for _ in range(draw(st.integers(0, 1)))
        ]
        may = version == 3 and any(
            row.place[0] not in table.vectors for row in table.rows
        )
        vectors = [table.delete_by_vector(draw)] if may and draw(st.booleans()) else []
        table.log.commit(data, deletes, vectors)
    return table


def left_in(dataset: Any) -> set[tuple[str, int]]:
    """Rows that are left, by file and number."""
    index = dataset.index
    runs = dataset.spans.row_runs.tolist()
    rows = np.array([row for run in runs for row in range(*run)], dtype=np.int64)
    files = np.searchsorted(index.file_first_row, rows, side="right") - 1
    first = index.file_first_row[files]
    pairs = zip(
        files.tolist(), (np.array(rows, dtype=int) - first).tolist(), strict=True
    )
    return {(index.files[file], row) for file, row in pairs}


@pytest.mark.parametrize("version", [2, 3])
@settings(
    max_examples=scaled(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_deletes_are_those_of_the_specification(tmp_path_factory, version, data):
    table = data.draw(tables(tmp_path_factory.mktemp("t"), version=version))
    assert left_in(pf.iceberg(table.log.metadata, column="tokens")) == table.left


def web(folder: Path, ids: range, name: str = "id") -> tuple[IcebergLog, Written]:
    """A table of one file, whose tokens are the ids."""
    log = empty_table(folder)
    values = {ID: [*ids], TOKENS: [[n] for n in ids]}
    file = written(values, {ID: name, TOKENS: "tokens"})
    file = file._replace(path=log.write(file, "data"))
    log.commit([file])
    return log, file


def delete_ids(log: IcebergLog, ids: Iterable[int], **about: Any) -> None:
    log.commit(deletes=[written({ID: [*ids]}, {ID: "id"}, keys=(ID,), **about)])


def test_many_keys_are_read_once(tmp_path, caplog):
    """What is left is kept in the cache folder, and travels without the keys."""
    count, gone = 1 << 12, range(0, 200_000, 2)
    log, file = web(tmp_path, range(count))
    delete_ids(log, gone)
    cache = tmp_path / "cache"

    def opened(**more: Any) -> Any:
        return pf.iceberg(log.metadata, column="tokens", cache_dir=cache, **more)

    expected = {(file.path, n) for n in range(1, count, 2)}
    with caplog.at_level(logging.INFO, "pagefeed"):
        first = opened()
        assert "keys of" not in caplog.text
        assert left_in(first) == expected
        assert "100000 keys of 1 files of deletes are read" in caplog.text
        caplog.clear()
        assert left_in(opened()) == expected
        sent = pickle.dumps(first)
        assert left_in(pickle.loads(sent)) == expected
        assert "keys of" not in caplog.text
    assert len(sent) < 100_000
    # The predicate on top, and another snapshot, have other rows.
    assert left_in(opened().where("id < 10")) == {
        (file.path, n) for n in (1, 3, 5, 7, 9)
    }
    delete_ids(log, [1, 3])
    assert left_in(opened()) == expected - {(file.path, 1), (file.path, 3)}


def test_a_deleted_key_is_in_no_batch_and_is_erased_from_a_run(tmp_path):
    log, _ = web(tmp_path, range(1, 301))
    told = json.loads(Path(log.metadata).read_text())
    snapshot = told["current-snapshot-id"]
    delete_ids(log, range(1, 301, 3))
    now = pf.iceberg(log.metadata, column="tokens")
    assert tokens_of(now) == {n for n in range(1, 301) if n % 3 != 1}
    then = pf.iceberg(log.metadata, snapshot, column="tokens")
    assert tokens_of(then) == {*range(1, 301)}


def test_a_commit_deletes_its_own_rows_by_position_alone(tmp_path):
    """It replaces a row that is deleted by its key, and whatever comes after it."""
    log, before = web(tmp_path, range(3))
    values: dict[int, list[Any]] = {ID: [1, 9], TOKENS: [[1], [9]]}
    file = written(values, {ID: "id", TOKENS: "tokens"})
    file = file._replace(path=log.write(file, "data"))
    by_key = written({ID: [1]}, {ID: "id"}, keys=(ID,))
    by_position = Written(positions([(file.path, 1)]))
    log.commit([file], deletes=[by_key, by_position])
    delete_ids(log, [7])
    left = left_in(pf.iceberg(log.metadata, column="tokens"))
    assert left == {(before.path, 0), (before.path, 2), (file.path, 0)}


@pytest.mark.parametrize("kind", ["list", "vector"])
def test_positions_delete_in_older_files_of_their_own_partition(tmp_path, kind):
    log = empty_table(tmp_path)
    values: dict[int, list[Any]] = {ID: [1, 2], PART: [0, 0], TOKENS: [[1], [2]]}
    names = {ID: "id", PART: "part", TOKENS: "tokens"}
    older = written(values, names)._replace(spec=1, partition=(0,))
    older = older._replace(path=log.write(older, "older"))
    newer = older._replace(path=log.write(older, "newer"))
    log.commit([older])

    def delete(path: str | None, row: int, partition: int) -> None:
        rows = [(path, row)]
        if kind == "vector":
            log.version = 3
            vectors = [Vector(str(path), [row], 1, (partition,))]
            log.commit(vectors=vectors)
        else:
            written = Written(positions(rows), spec=1, partition=(partition,))
            log.commit(deletes=[written])

    delete(older.path, 0, 0)
    delete(newer.path, 0, 0)  # Which is not there yet.
    delete(older.path, 1, 1)
    log.commit([newer])
    left = left_in(pf.iceberg(log.metadata, column="tokens"))
    assert left == {(older.path, 1), (newer.path, 0), (newer.path, 1)}


def tokens_of(dataset: Any) -> set[int]:
    loader = pf.Loader(dataset, sequences=pf.Windows(4, tail="drop"), batch_size=1)
    return {
        token for batch in loader for token in batch["input_ids"].reshape(-1).tolist()
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([{"field-id": ID, "names": ["number", "nr"]}], {2, 3}),
        ([{"field-id": LANG, "names": ["id"]}], {1, 2, 3}),
    ],
)
def test_files_without_ids(tmp_path, names, expected):
    """Imported files have columns by the table's mapping of names."""
    log = empty_table(tmp_path)
    called = "nr" if "nr" in names[0]["names"] else "id"
    rows = pa.table({called: [1, 2, 3], "tokens": [[1], [2], [3]]})
    file = Written(rows)
    file = file._replace(path=log.write(file, "imported"))
    log.commit([file])
    delete_ids(log, [1])
    path = Path(log.metadata)
    told = json.loads(path.read_text())
    names = [*names, {"field-id": TOKENS, "names": ["tokens"]}]
    told["properties"]["schema.name-mapping.default"] = json.dumps(names)
    path.write_text(json.dumps(told))
    found = left_in(pf.iceberg(log.metadata, column="tokens"))
    assert {row + 1 for _, row in found} == expected


def test_an_initial_default_counts_for_older_files(tmp_path):
    log, _ = web(tmp_path, range(3))
    delete = written({LANG: ["en"]}, {LANG: "lang"}, keys=(LANG,))
    log.commit(deletes=[delete])
    assert len(left_in(pf.iceberg(log.metadata, column="tokens"))) == 3
    told = json.loads(Path(log.metadata).read_text()) | {"format-version": 3}
    told["next-row-id"] = 0
    for schema in told["schemas"]:
        schema["fields"][1]["initial-default"] = "en"
    for snapshot in told["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    Path(log.metadata).write_text(json.dumps(told))
    assert not left_in(pf.iceberg(log.metadata, column="tokens"))


def test_damaged_deletes_are_refused(tmp_path):
    log, _ = web(tmp_path, range(3))
    before = log.metadata, log.manifests
    log.commit(deletes=[written({LANG: ["en"]}, {LANG: "lang"}, keys=(ID,))])
    with pytest.raises(CorruptFileError, match="has no column of field id 1, by which"):
        left_in(pf.iceberg(log.metadata, column="tokens"))
    log.metadata, log.manifests = before
    deletes = written({ID: [1]}, {ID: "id"}, keys=(ID,))
    path = log.write(deletes, "deletes")
    twice = pa.concat_tables([deletes.rows, deletes.rows])
    for rows in (deletes.rows.slice(1), twice):
        log.metadata, log.manifests = before
        log.commit(deletes=[deletes._replace(rows=rows, path=path)])
        if rows is not twice:  # With more keys than the table says, all are used.
            assert len(left_in(pf.iceberg(log.metadata, column="tokens"))) == 2
    with pytest.raises(CorruptFileError, match="says that it has 2, it has 1"):
        left_in(pf.iceberg(log.metadata, column="tokens"))
    Path(path).write_bytes(b"PAR1PAR1")
    with pytest.raises(CorruptFileError, match="pyarrow cannot read it"):
        left_in(pf.iceberg(log.metadata, column="tokens"))
