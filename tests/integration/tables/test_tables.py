"""Tables are read as their own libraries read them: never a deleted row."""

import datetime
import inspect
import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

import pagefeed as pf
from made.tables import (
    bitmap_of,
    by_deltalake,
    catalog_in,
    data_files,
    delete_from_delta,
    delete_from_iceberg,
    framed,
    name_twice,
    of_delta,
    rows_table,
    sorted_rows,
    write_delta,
    write_iceberg,
)
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import (
    ChecksumError,
    ColumnNotFoundError,
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    StateMismatchError,
    UnsupportedError,
)
from pagefeed.parquet_files import Columns
from pagefeed.reports import facts_of_inspection, facts_of_plan

PATTERNS = 40
"""Random deletes that are tried here; `PATTERNS=2000` of the environment for more."""


def of_iceberg(metadata: str) -> ParquetDataset:
    return pf.iceberg(metadata, column="tokens", metadata=["id", "lang"])


def by_pyiceberg(metadata: str) -> list[Any]:
    return sorted_rows(
        StaticTable.from_metadata(metadata).scan().to_arrow().to_pylist()
    )


def tokens_of_an_epoch(dataset: ParquetDataset) -> Counter[int]:
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(16),
        batch_size=4,
        seed=3,
        drop_last=False,
        fields=("input_ids", "attention_mask"),
    )
    found: Counter[int] = Counter()
    for batch in loader:
        found.update(batch["input_ids"][batch["attention_mask"].astype(bool)].tolist())
    return found


def some_rows(rng: random.Random, count: int) -> list[int]:
    """Rows of a file: few or most, scattered or in runs."""
    kind = rng.randrange(4)
    if kind == 0:
        return sorted(rng.sample(range(count), rng.randrange(1, 5)))
    if kind == 1:
        return sorted(rng.sample(range(count), count - rng.randrange(1, 5)))
    begin = rng.randrange(count)
    run = set(range(begin, rng.randrange(begin, count) + 1))
    if kind == 2:
        run |= set(rng.sample(range(count), rng.randrange(count)))
    return sorted(run)


@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_delta_deletion_vectors(tmp_path, kind):
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 160)])
    files = sorted(path.name for path in tmp_path.glob("*.parquet"))
    delete_from_delta(tmp_path, {files[0]: [0, 7, 8, 59], files[1]: [3]}, kind)
    found = of_delta(tmp_path)
    assert len(found) == 155
    assert sorted_rows(found) == by_deltalake(tmp_path)
    left = Counter(token for _, _, tokens in by_deltalake(tmp_path) for token in tokens)
    assert tokens_of_an_epoch(found) == left


@pytest.mark.parametrize("kind", ["positions", "vectors"])
def test_iceberg_deletes(tmp_path, kind):
    metadata = write_iceberg(tmp_path, [rows_table(0, 100), rows_table(100, 160)])
    files = data_files(metadata)
    deleted = [(files[0], [0, 7, 8, 99]), (files[1], [59])]
    metadata = delete_from_iceberg(metadata, deleted, kind)
    found = of_iceberg(metadata)
    assert len(found) == 155
    assert sorted_rows(found) == by_pyiceberg(metadata)
    left = Counter(token for _, _, tokens in by_pyiceberg(metadata) for token in tokens)
    assert tokens_of_an_epoch(found) == left


def test_random_deletes_of_both(tmp_path):
    patterns = int(os.environ.get("PATTERNS", PATTERNS))
    metadata = write_iceberg(tmp_path / "ice", [rows_table(0, 90), rows_table(90, 200)])
    files, sizes = data_files(metadata), (90, 110)
    write_delta(tmp_path / "delta", [rows_table(0, 90), rows_table(90, 200)])
    log = tmp_path / "delta" / "_delta_log"
    of_delta_files = [
        file.rsplit("/", 1)[-1] for file in of_delta(tmp_path / "delta").files
    ]
    for pattern in range(patterns):
        rng = random.Random(pattern)
        chosen = {
            n: some_rows(rng, sizes[n]) for n in rng.sample(range(2), rng.randint(1, 2))
        }
        gone = {row + 90 * number for number, rows in chosen.items() for row in rows}
        left = [row for row in range(200) if row not in gone]
        if pattern % 2:
            by_name = {of_delta_files[n]: rows for n, rows in chosen.items()}
            delete_from_delta(tmp_path / "delta", by_name, rng.choice("upi"))
            found, told = of_delta(tmp_path / "delta"), by_deltalake(tmp_path / "delta")
            max(log.glob("*.json")).unlink()
        else:
            kind = rng.choice(["positions", "vectors"])
            pairs = [(files[n], rows) for n, rows in chosen.items()]
            if kind == "positions" and rng.random() < 0.5:  # Some of them twice.
                pairs += [(path, rows[::2]) for path, rows in pairs if len(rows) > 1]
            changed = delete_from_iceberg(metadata, pairs, kind)
            found, told = of_iceberg(changed), by_pyiceberg(changed)
        if not left:
            continue
        rows = sorted_rows(found)
        assert [row[0] for row in rows] == left, pattern
        assert rows == told, pattern
        if pattern % 8 < 2:
            expected = Counter(token for row in rows for token in row[2])
            assert tokens_of_an_epoch(found) == expected, pattern


Damage = tuple[str, str, type[Exception], str]
DAMAGE: Sequence[Damage] = [
    ("vectors", "checksum", ChecksumError, "puffin, at 4, deletes rows of .*checksum"),
    (
        "vectors",
        "cardinality",
        CorruptFileError,
        "5 rows are deleted, the vector holds 4",
    ),
    ("positions", "cardinality", CorruptFileError, "deletes 5 rows, it lists 4"),
    ("equality", "", CorruptFileError, "their values, and the table does not say of"),
]


@pytest.mark.parametrize(("kind", "damage", "error", "match"), DAMAGE)
def test_damaged_iceberg_deletes_are_refused(tmp_path, kind, damage, error, match):
    metadata = write_iceberg(tmp_path, [rows_table(0, 100)])
    [file] = data_files(metadata)
    changed = delete_from_iceberg(metadata, [(file, [1, 2, 3, 9])], kind, damage=damage)
    with pytest.raises(error, match=match):
        of_iceberg(changed)


def test_what_tables_must_not_name_is_refused(tmp_path):
    metadata = write_iceberg(tmp_path / "ice", [rows_table(0, 100)])
    [file] = data_files(metadata)
    twice = delete_from_iceberg(metadata, [(file, [1]), (file, [2])], "vectors")
    with pytest.raises(CorruptFileError, match="another deletion vector"):
        of_iceberg(twice)
    beyond = delete_from_iceberg(metadata, [(file, [1, 100])], "vectors")
    with pytest.raises(CorruptFileError, match="row 100 is deleted, and it has 100"):
        len(of_iceberg(beyond))
    write_delta(tmp_path / "delta", [rows_table(0, 100)])
    [path] = (tmp_path / "delta").glob("*.parquet")
    delete_from_delta(tmp_path / "delta", {path.name: [3]}, damage=True)
    with pytest.raises(ChecksumError, match="the stored checksum is"):
        of_delta(tmp_path / "delta")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["positions", "vectors"])
def test_tables_of_older_formats(tmp_path, version, kind):
    """Their manifests stay as they were; what deletes rows is of a later format."""
    tables = [rows_table(0, 100), rows_table(100, 160)]
    metadata = write_iceberg(tmp_path, tables, version)
    assert json.loads(Path(metadata).read_text())["format-version"] == version
    assert sorted_rows(of_iceberg(metadata)) == by_pyiceberg(metadata)
    [first, second] = data_files(metadata)
    gone = [(first, [0, 59]), (second, [*range(59)]), (f"{first}.gone", [3])]
    changed = delete_from_iceberg(metadata, gone, kind)
    found = sorted_rows(of_iceberg(changed))
    assert len(found) == 99
    assert found == by_pyiceberg(changed)


def test_files_that_are_named_twice_are_refused(tmp_path):
    metadata = write_iceberg(tmp_path / "ice", [rows_table(0, 100)])
    with pytest.raises(CorruptFileError, match=r"iceberg:\d+ names .*parquet twice"):
        of_iceberg(name_twice(metadata))
    write_delta(tmp_path / "delta", [rows_table(0, 100)])
    [path] = (tmp_path / "delta").glob("*.parquet")
    delete_from_delta(tmp_path / "delta", {path.name: [3]}, "i")
    commit = max((tmp_path / "delta" / "_delta_log").glob("*.json"))
    lines = commit.read_text().splitlines()
    commit.write_text("\n".join(line for line in lines if "remove" not in line))
    with pytest.raises(CorruptFileError, match=r"delta:1 names .*parquet twice"):
        of_delta(tmp_path / "delta")


def test_unknown_reader_features_are_refused(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100)])
    [path] = tmp_path.glob("*.parquet")
    delete_from_delta(tmp_path, {path.name: [3]}, features=["variantShredding-preview"])
    with pytest.raises(UnsupportedError, match="know variantShredding-preview, which"):
        of_delta(tmp_path)


def test_versions_snapshots_tags_and_times(tmp_path):
    write_delta(tmp_path / "delta", [rows_table(0, 10), rows_table(10, 30)])
    assert [len(of_delta(tmp_path / "delta", version)) for version in (0, 1, None)] == [
        *(10, 30, 30)
    ]
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert len(pf.delta(tmp_path / "delta", later, column="tokens")) == 30
    with pytest.raises(InvalidArgumentError, match="versions 0 to 1"):
        of_delta(tmp_path / "delta", 2)
    with pytest.raises(MissingFileError, match="not a Delta table"):
        of_delta(tmp_path)
    catalog, properties = catalog_in(tmp_path / "ice")
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    with pytest.raises(MissingFileError, match="web holds no Parquet files"):
        pf.iceberg("corpus.web", catalog=catalog, column="tokens")
    table.append(rows_table(0, 10))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").commit()
    table.append(rows_table(10, 30))
    wanted: list[Any] = [
        first.snapshot_id,
        "v1",
        "main",
        later,
        later.isoformat(),
        None,
    ]
    found = [
        len(pf.iceberg("corpus.web", one, catalog=properties, column="tokens"))
        for one in wanted
    ]
    assert found == [10, 10, 30, 30, 30, 30]
    with table.update_schema() as update:
        update.rename_column("tokens", "ids")
    # A branch has the table's columns of today, a tag those it was made with.
    assert len(pf.iceberg("corpus.web", "main", catalog=properties, column="ids")) == 30
    with pytest.raises(ColumnNotFoundError, match="tokens"):
        pf.iceberg("corpus.web", "main", catalog=properties, column="tokens")
    assert (
        len(pf.iceberg("corpus.web", "v1", catalog=properties, column="tokens")) == 10
    )
    with pytest.raises(InvalidArgumentError, match="tags and branches: main, v1"):
        pf.iceberg("corpus.web", "v2", catalog=properties, column="tokens")
    with pytest.raises(MissingFileError, match=r"corpus\.code"):
        pf.iceberg("corpus.code", catalog=properties, column="tokens")
    with pytest.raises(MissingFileError, match="name of the catalog"):
        pf.iceberg("corpus.web", column="tokens")
    catalog.close()


def test_the_snapshot_is_in_the_state(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 200)])

    def loader(version: int | None) -> pf.Loader:
        sequences = pf.Windows(16, tail="drop")
        return pf.Loader(
            of_delta(tmp_path, version), sequences=sequences, batch_size=2, seed=1
        )

    begun = loader(0)
    next(iter(begun))
    state = begun.state_dict()
    assert state["dataset"].endswith(" delta:0")
    assert "table='delta:0'" in repr(begun.dataset)
    with pytest.raises(StateMismatchError, match="snapshot then delta:0, now delta:1"):
        loader(None).load_state_dict(state)
    again = loader(0)
    again.load_state_dict(state)
    assert again.state_dict() == state
    # A commit that changes no row is no other dataset.
    DeltaTable(tmp_path).alter.set_table_properties({"delta.appendOnly": "false"})
    then = loader(1)
    next(iter(then))
    now = loader(2)
    now.load_state_dict(then.state_dict())


def test_files_that_a_compaction_removed_are_refused(tmp_path):
    write_delta(tmp_path, [rows_table(0, 100), rows_table(100, 200)])
    DeltaTable(tmp_path).optimize.compact()
    assert len(of_delta(tmp_path, 1)) == 200
    DeltaTable(tmp_path).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False
    )
    with pytest.raises(MissingFileError) as caught:
        len(of_delta(tmp_path, 1))
    assert any(
        "keep the files of a snapshot" in note for note in caught.value.__notes__
    )
    assert len(of_delta(tmp_path)) == 200


@pytest.mark.parametrize("kind", ["positions", "vectors"])
def test_a_plan_tells_what_a_table_costs(tmp_path, kind):
    metadata = write_iceberg(tmp_path, [rows_table(0, 100), rows_table(100, 160)])
    files = data_files(metadata)
    deleted = [(files[0], [0, 7]), (files[1], [59])]
    metadata = delete_from_iceberg(metadata, deleted, kind)
    sequences = pf.Windows(16)
    loader = pf.Loader(of_iceberg(metadata), sequences=sequences, batch_size=2)
    plan = pf.forecast(loader)
    table = StaticTable.from_metadata(metadata)
    manifests = table.inspect.manifests()["length"].to_pylist()
    told = plan.tables["manifests"]
    assert (told.reads, told.bytes) == (3, sum(manifests))
    assert plan.tables["deletes"].reads == 2
    if kind == "positions":
        sizes = [path.stat().st_size for path in tmp_path.rglob("*-deletes.parquet")]
    else:  # The vectors alone are read, not the footer of their file.
        sizes = [len(framed(bitmap_of(rows))) for _, rows in deleted]
    assert plan.tables["deletes"].bytes == sum(sizes)
    assert dict(facts_of_plan(plan))["reads of manifests"].startswith("3, ")
    assert asdict(plan)["tables"]["deletes"] == {"reads": 2, "bytes": sum(sizes)}


def test_inspect_tells_the_snapshot(tmp_path):
    write_delta(tmp_path, [rows_table(0, 20), rows_table(20, 40)])
    found = pf.inspect(pf.delta(tmp_path, 0, column="tokens"))
    assert found.snapshot == "delta:0"
    assert ("table", "delta:0") in [*facts_of_inspection(found)]


def test_wrong_arguments_are_named(tmp_path):
    write_delta(tmp_path / "delta", [rows_table(0, 10)])
    metadata = write_iceberg(tmp_path / "ice", [rows_table(0, 10)])
    catalog, _ = catalog_in(tmp_path / "ice")
    delta, iceberg, gone = (
        str(tmp_path / "delta"),
        metadata,
        {"uri": "sqlite:////none/c"},
    )

    def refused(
        error: type[Exception], match: str, call: Any, *given, **wanted
    ) -> None:
        with pytest.raises(error, match=match):
            call(*given, **{"column": "tokens", **wanted})

    wrong: Any = InvalidArgumentError
    for call, table in ((pf.delta, delta), (pf.iceberg, iceberg)):
        refused(wrong, "table=None must be", call, None)
        refused(
            wrong,
            r"'metadatas' \(did you mean 'metadata'\?\)",
            call,
            table,
            metadatas=[],
        )
        refused(
            wrong,
            "storage_options must be a dict.*found str",
            call,
            table,
            storage_options="x",
        )
        refused(wrong, "missing=None", call, table, missing=None)
        with pytest.raises(wrong, match="name the token column"):
            call(table)  # type: ignore[call-arg]
    refused(wrong, "version='v1' is not a time", pf.delta, delta, "v1")
    refused(wrong, "before the first one", pf.delta, delta, "2020-01-01")
    assert len(pf.delta(delta, "2999-01-01", column="tokens")) == 10
    refused(MissingFileError, "not a Delta table", pf.delta, str(tmp_path / "none"))
    refused(MissingFileError, "metadata.json", pf.delta, iceberg)
    refused(wrong, "'mian' is neither", pf.iceberg, iceberg, "mian")
    refused(wrong, r"'corpus\.web'", pf.iceberg, "web", catalog=catalog)
    refused(wrong, "found int", pf.iceberg, "corpus.web", catalog=3)
    refused(wrong, "sqll", pf.iceberg, "corpus.web", catalog={"type": "sqll"})
    refused(
        FileAccessError,
        "cannot be reached",
        pf.iceberg,
        "corpus.web",
        catalog={"type": "sql", **gone},
    )
    refused(
        FileAccessError,
        "cannot be reached",
        pf.iceberg,
        "corpus.web",
        catalog={"type": "rest", "uri": "http://127.0.0.1:9"},
    )
    catalog.close()
    with pytest.raises(ColumnNotFoundError, match="mean 'tokens'") as caught:
        len(pf.delta(delta, column="token"))
    assert not getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("opened", [pf.delta, pf.iceberg])
def test_every_argument_that_is_misspelt_is_named(tmp_path, opened):
    known = [*inspect.signature(opened).parameters, *Columns.__annotations__]
    for name in known:
        if name not in ("table", "wanted"):
            wrong = f"{name}s" if name != "spans" else "span"
            with pytest.raises(InvalidArgumentError, match=f"did you mean '{name}'"):
                opened(tmp_path, **{"column": "tokens", wrong: None})


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"storage_options": {"regio": "x"}}, "remote storage, but all paths"),
        (
            {"storage_options": {"regio": "x"}, "storage_cache": "200GB"},
            "options regio are for remote storage, but all paths",
        ),
        # Files of mounted folders are kept too.
        ({"storage_cache": "lots"}, "storage_cache='lots' is not a size"),
    ],
)
def test_settings_of_storage_are_refused_where_all_is_local(
    tmp_path, kind, options, said
):
    rows = [rows_table(1, 9)]
    if kind == "delta":
        path = write_delta(tmp_path, rows)
    else:
        path = write_iceberg(tmp_path, rows)
    with pytest.raises(InvalidArgumentError, match=said):
        getattr(pf, kind)(path, column="tokens", **options)
