"""Tables in a bucket, by the same ``storage_options`` as files."""

import re
from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import pagefeed as pf
from made.tables import delete_from_delta, rows_table
from pagefeed.errors import (
    AccessDeniedError,
    CorruptFileError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
)
from servers.list_server import ListServer
from servers.web_servers import running

TOKEN = re.compile("<NextContinuationToken>.*?</NextContinuationToken>")
GONE = [3, 40, 41, 59]


@pytest.fixture(scope="module")
def s3_properties(s3):
    """How pyiceberg calls the options of the server."""
    return {
        "s3.endpoint": s3.options["endpoint_url"],
        "s3.region": s3.options["region"],
        "s3.access-key-id": s3.options["access_key_id"],
        "s3.secret-access-key": s3.options["secret_access_key"],
    }


def epoch_of(dataset: Any) -> Counter[int]:
    """Tokens of an epoch."""
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(8),
        batch_size=4,
        drop_last=False,
        fields=("input_ids", "attention_mask"),
    )
    found: Counter[int] = Counter()
    for batch in loader:
        found.update(batch["input_ids"][batch["attention_mask"].astype(bool)].tolist())
    return found


def expected(gone: list[int], count: int = 100) -> Counter[int]:
    tokens = rows_table(0, count)["tokens"].to_pylist()
    return Counter(
        token for row, held in enumerate(tokens) if row not in gone for token in held
    )


@pytest.mark.parametrize("kind", ["u", "i"])
def test_a_delta_table_in_a_bucket(root, s3, kind):
    # Of a table with a space in its URL deltalake finds no vector that is a file.
    name = {"u": "delta", "i": "delta of 1"}[kind]
    folder = root / "corpus" / name
    for begin, end in ((0, 60), (60, 100)):
        rows = rows_table(begin, end, part=["a b"] * (end - begin))
        write_deltalake(folder, rows, partition_by=["part"], mode="append")
    [first] = DeltaTable(folder, version=0).get_add_actions()["path"].to_pylist()
    delete_from_delta(folder, {first: GONE}, kind)
    # Names that fsspec uses, and settings that only pagefeed knows.
    options: Any = {
        "endpoint_url": s3.options["endpoint_url"],
        "region": s3.options["region"],
        "key": s3.options["access_key_id"],
        "secret": s3.options["secret_access_key"],
        "allow_http": True,
        "timeout": 20,
        "max_in_flight": 8,
    }
    uri = f"s3://corpus/{name}"
    found = pf.delta(uri, column="tokens", storage_options=options)
    assert all(file.startswith("s3://corpus/delta") for file in found.files)
    assert epoch_of(found) == expected(GONE)
    before = pf.delta(uri, 1, column="tokens", storage_options=options)
    assert epoch_of(before) == expected([])
    with pytest.raises(MissingFileError, match="not a Delta table"):
        pf.delta("s3://corpus/tokens", column="tokens", storage_options=options)


def test_an_iceberg_table_in_a_bucket(tmp_path, s3, s3_properties):
    catalog = SqlCatalog(
        "remote",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse="s3://corpus/ice",
        **s3_properties,
    )
    catalog.create_namespace("corpus")
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    table.append(rows_table(0, 60))
    table.append(rows_table(60, 100))
    table.delete("id in (3, 40, 41, 59)")
    options = s3.options
    by_name = pf.iceberg(
        "corpus.web", catalog=catalog, column="tokens", storage_options=options
    )
    by_file = pf.iceberg(
        table.metadata_location, column="tokens", storage_options=options
    )
    catalog.close()
    for found in (by_name, by_file):
        assert epoch_of(found) == expected(GONE)
        assert all(file.startswith("s3://corpus/ice/") for file in found.files)
    with pytest.raises(MissingFileError):
        pf.iceberg(
            "s3://corpus/ice/none.metadata.json",
            column="tokens",
            storage_options=options,
        )


def test_a_catalog_gives_the_credentials(tmp_path, s3_properties, monkeypatch):
    """Nothing else tells them, and the environment has none."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    catalog = SqlCatalog(
        "team",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse="s3://corpus/team",
        **s3_properties,
    )
    catalog.create_namespace("corpus")
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    table.append(rows_table(0, 60))
    table.delete("id in (3, 40, 41, 59)")
    opened = catalog.load_table("corpus.web")
    first = pf.iceberg(opened, column="tokens")
    assert epoch_of(first) == expected(GONE, 60)
    table.append(rows_table(60, 100))
    # A Table is a snapshot until it is refreshed, a name is the newest one.
    assert epoch_of(pf.iceberg(opened, column="tokens")) == expected(GONE, 60)
    named = pf.iceberg("corpus.web", catalog=catalog, column="tokens")
    assert epoch_of(named) == expected(GONE)
    now = pf.iceberg(opened.refresh(), column="tokens", metadata=["id"])
    assert epoch_of(now) == expected(GONE)
    chosen = now.where("lang == 'en' and id < 30")
    wanted = [n for n in range(0, 30, 3) if n not in GONE]
    assert [row["id"] for row in chosen] == wanted
    wrong: Any = {"key": "somebody", "secret": "else"}
    with pytest.raises(AccessDeniedError):
        epoch_of(pf.iceberg(opened, column="tokens", storage_options=wrong))
    with pytest.raises(InvalidArgumentError, match=r"DataScan.*where\("):
        pf.iceberg(opened.scan(row_filter="id < 30"), column="tokens")
    catalog.close()


def test_a_delta_table_brings_its_credentials(root, s3):
    folder = root / "corpus" / "own"
    for begin, end in ((0, 60), (60, 100)):
        write_deltalake(folder, rows_table(begin, end), mode="append")
    [first] = DeltaTable(folder, version=0).get_add_actions()["path"].to_pylist()
    delete_from_delta(folder, {first: GONE}, "u")
    options = {f"AWS_{name.upper()}": str(value) for name, value in s3.options.items()}
    # Settings of writing mean nothing here.
    options |= {"AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    table = DeltaTable("s3://corpus/own", storage_options=options)
    assert epoch_of(pf.delta(table, column="tokens")) == expected(GONE)
    table.load_as_version(1)
    assert epoch_of(pf.delta(table, column="tokens")) == expected([])
    table.update_incremental()
    now = pf.delta(table, column="tokens", metadata=["id"])
    assert epoch_of(now) == expected(GONE)
    assert [row["id"] for row in now.where("id > 95")] == [96, 97, 98, 99]
    wrong: Any = {"key": "somebody", "secret": "else"}
    with pytest.raises(AccessDeniedError):
        epoch_of(pf.delta(table, column="tokens", storage_options=wrong))


def test_pruned_files_cost_no_request(root, s3):
    """Footers are fetched of the files that are left, and of one for its columns."""
    for begin in range(0, 80, 10):
        write_deltalake(
            root / "corpus/many", rows_table(begin, begin + 10), mode="append"
        )
    found = {}
    for predicate in ("id >= 0", "id >= 70"):
        web = pf.delta("s3://corpus/many", column="tokens", storage_options=s3.options)
        part = web.where(predicate)
        assert len(part) == (80 if predicate == "id >= 0" else 10)
        found[predicate] = part.storage.counts()["requests"]
    # Of 8 files 7 are left out, and one of them is asked for the types of columns.
    assert found["id >= 70"] < found["id >= 0"] / 3, found


def test_field_ids_cost_no_request(tmp_path, s3, s3_properties):
    """They are in the footers, which are read for the index anyway."""
    catalog = SqlCatalog(
        "remote",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse="s3://corpus/ids",
        **s3_properties,
    )
    catalog.create_namespace("corpus")
    table = catalog.create_table("corpus.web", schema=rows_table(0, 1).schema)
    for begin in range(0, 80, 10):
        table.append(rows_table(begin, begin + 10))
    with table.update_schema() as change:
        change.rename_column("tokens", "ids")
    catalog.close()
    options: Any = {"storage_options": s3.options}
    web = pf.iceberg(table.metadata_location, column="ids", **options)
    plain = pf.parquet(web.files, column="tokens", **options)
    counted = []
    for dataset in (web, plain):
        assert epoch_of(dataset) == expected([], 80)
        counted.append(dataset.storage.counts()["requests"])
    assert counted[0] == counted[1], counted


@pytest.fixture(scope="module")
def log_server(tmp_path_factory):
    """A Delta table of five commits, listed three at a time."""
    folder = tmp_path_factory.mktemp("log") / "delta"
    for at in range(5):
        write_deltalake(folder, rows_table(10 * at, 10 * at + 10), mode="append")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    keys = [str(path.relative_to(folder.parent)) for path in files]
    server = ListServer(keys)
    server.objects = {key: folder.parent.joinpath(key).read_bytes() for key in keys}
    server.page_size = 3
    with running(server):
        yield server


def test_a_delta_log_is_read_by_pages(log_server):
    log_server.asked.clear()
    found = pf.delta("s3://corpus/delta", column="tokens", **options_of(log_server))
    assert len(found.files) == 5


def test_a_delta_log_that_is_listed_in_part_is_refused(log_server, monkeypatch):
    monkeypatch.setattr(log_server, "spoils", lambda page: TOKEN.sub("", page))
    with pytest.raises(FileAccessError, match="without a NextContinuationToken"):
        pf.delta("s3://corpus/delta", column="tokens", **options_of(log_server))


def test_a_delta_log_of_which_deltalake_sees_a_part_is_refused(log_server, monkeypatch):
    log_server.asked.clear()

    def end_early(page: str) -> str:
        is_ours = len(log_server.asked) <= 2
        return page if is_ours else TOKEN.sub("", page).replace(">true<", ">false<")

    monkeypatch.setattr(log_server, "spoils", end_early)
    with pytest.raises(CorruptFileError, match=r"finds version 2, .* has commit 4"):
        pf.delta("s3://corpus/delta", column="tokens", **options_of(log_server))


def options_of(server: ListServer) -> dict[str, Any]:
    return {"storage_options": server.options}
