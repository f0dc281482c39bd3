"""Runs over tables whose files were rewritten and removed: what was kept of them."""

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import pagefeed as pf
from made.handmade import one_column, token_list, token_page
from made.iceberg_log import IcebergLog, Written, with_ids
from made.tables import catalog_in, delete_from_delta, rows_table, write_delta
from pagefeed.core.dataset import Spans, derived_arrays
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    StateMismatchError,
)
from pagefeed.growth.rewritten import RewrittenRows, _Matches, _write_runs

CUTS = {
    "windows": pf.Windows(16, tail="drop"),
    "lines of files": pf.Windows(16, eos=1, join="file"),
    "packed": pf.Packed(16, eos=1),
    "whole": pf.Packed(16, split="never"),
    "documents": pf.Documents(max_length=8, pad="max_length"),
}


class Table:
    """A Delta table of small pages, some of them without a row's beginning."""

    def __init__(self, folder: Path, key: str | None = "id") -> None:
        self.folder, self.key, self.cache = folder / "web", key, folder / "cache"

    def rows(self, version: int | None = None, where: str = "") -> Any:
        web = pf.delta(
            *(self.folder, version),
            column="tokens",
            key=self.key,
            cache_dir=self.cache,
            metadata=["id"],
        )
        return web.where(where) if where else web

    def loader(self, where: str = "", cut: Any = None, **options: Any) -> pf.Loader:
        wanted = {"batch_size": 1, "seed": 3, "rank": 0, "world_size": 1, **options}
        cut = cut or CUTS["windows"]
        if not isinstance(cut, pf.Documents):
            wanted["fields"] = ("input_ids", "labels", "metadata")
        return pf.Loader(self.rows(where=where), sequences=cut, **wanted)

    def add(self, rows: pa.Table) -> None:
        """Files of which a page holds a few tokens: long rows go on in the next."""
        write_delta(self.folder, [rows.slice(0, 1)])
        self.rewrite([rows], versions=1)

    def rewrite(self, files: list[pa.Table], versions: int = 0) -> None:
        """Commit a rewrite of the files of the last versions, or all, into others."""
        table = DeltaTable(self.folder)
        number = table.version() + 1
        log = self.folder / "_delta_log"
        lines = [
            json.loads(line)
            for path in sorted(log.glob("*.json"))[-versions:]
            for line in path.read_text().splitlines()
        ]
        adds = {line["add"]["path"]: line["add"] for line in lines if "add" in line}
        actions: list[dict[str, Any]] = []
        for path, add in adds.items():
            remove = {"path": path, "dataChange": False, "deletionTimestamp": 1}
            if "deletionVector" in add:
                remove["deletionVector"] = add["deletionVector"]
            if (self.folder / path).exists():
                actions.append({"remove": remove})
        for place, rows in enumerate(files):
            name = f"part-{number}-{place}.parquet"
            pq.write_table(
                rows,
                self.folder / name,
                row_group_size=40,
                data_page_size=40,
                write_batch_size=4,
                use_dictionary=False,
            )
            size = (self.folder / name).stat().st_size
            add = {"path": name, "size": size, "partitionValues": {}}
            add["stats"] = json.dumps({"numRecords": len(rows)})
            add |= {"modificationTime": number, "dataChange": False}
            actions.append({"add": add})
        text = "\n".join(map(json.dumps, actions))
        (log / f"{number:020}.json").write_text(text)

    def vacuum(self) -> None:
        DeltaTable(self.folder).vacuum(
            0, dry_run=False, enforce_retention_duration=False
        )


def made(begin: int, end: int) -> pa.Table:
    """Rows of which some are empty, and some longer than a page."""
    sizes = [(0 if n % 11 == 0 else 60 if n % 23 == 0 else n % 7) for n in range(end)]
    tokens = [[n] * sizes[n] for n in range(begin, end)]
    rows = rows_table(begin, end)
    return rows.set_column(2, "tokens", pa.array(tokens, pa.list_(pa.int32())))


def scattered(rows: pa.Table, seed: int) -> list[pa.Table]:
    """The rows in other files and another order: in part runs, in part alone."""
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(rows)), 25))
    pieces = [
        rows.slice(a, b - a)
        for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    draw.shuffle(pieces)
    half = pa.concat_tables(pieces[:13])
    return [
        half.take(draw.sample(range(len(half)), len(half))),
        pa.concat_tables(pieces[13:]),
    ]


def told(batches: Any) -> list[Any]:
    """What batches hold, as plain values."""

    def plain(value: Any) -> Any:
        return (
            value.tolist() if hasattr(value, "tolist") else pa.table(value).to_pylist()
        )

    return [{k: plain(v) for k, v in batch.items()} for batch in batches]


SOME = "id > 20 and id != 77"


@pytest.mark.parametrize(
    ("cut", "where"),
    [
        ("windows", ""),
        ("lines of files", SOME),
        ("packed", "id >= 160"),
        ("packed", SOME),
        ("whole", ""),
        ("documents", SOME),
    ],
)
def test_what_remains_comes_from_files_of_now(tmp_path, cut, where):
    """On any number of ranks, with metadata; and where tokens came from is told."""
    table = Table(tmp_path)
    for begin in (1, 91, 151):
        table.add(made(begin, begin + 90 if begin < 91 else begin + 60))
    everything = made(1, 211)
    settings: dict[str, Any] = {"where": where, "cut": CUTS[cut]}
    expected = told(table.loader(**settings))
    begun = table.loader(**settings)
    steps = iter(begun)
    assert told(next(steps) for _ in range(4)) == expected[:4]
    state = json.loads(json.dumps(begun.state_dict()))
    table.rewrite(scattered(everything, 7))
    table.vacuum()
    now = table.loader(**settings)
    now.load_state_dict(state)
    assert told(now) == expected[4:]
    # Again, and with more rows.
    table.rewrite(scattered(everything, 8))
    table.add(made(300, 340))
    table.vacuum()
    now = table.loader(**settings)
    now.load_state_dict(state, grown="next-epoch")
    copied = pickle.loads(pickle.dumps(now))
    [origin, *_] = now.locate(6, 0)
    assert Path(origin.file).exists()
    assert 6 in {slot.step for slot in now.steps_of(origin.file, origin.row)}
    later = iter(now)
    rest = told(next(later) for _ in range(3))
    again = table.loader(**settings)
    again.load_state_dict(now.state_dict(), grown="next-epoch")
    assert rest + told(again) == told(copied) == expected[4:]
    ranks = [table.loader(rank=n, world_size=2, **settings) for n in range(2)]
    for loader in ranks:
        loader.load_state_dict(state, grown="next-epoch")
    both = [told(loader) for loader in ranks]
    assert [each for pair in zip(*both, strict=True) for each in pair] == expected[4:][
        : 2 * len(both[0])
    ]


def begun(table: Table, steps: int = 4, **options: Any) -> tuple[Any, list[Any]]:
    """The state after some steps, and what remains."""
    whole, loader = table.loader(**options), table.loader(**options)
    batches = iter(loader)
    for _ in range(steps):
        next(batches)
    return json.loads(json.dumps(loader.state_dict())), told(whole)[steps:]


def test_deleted_rows_stay_out_and_lost_ones_are_refused(tmp_path):
    table = Table(tmp_path)
    table.add(made(1, 91))
    [file] = [Path(path).name for path in table.rows().files]
    delete_from_delta(table.folder, {file: [3, 40]})
    state, rest = begun(table)
    left = made(1, 91).filter([n not in (3, 40) for n in range(90)])
    table.rewrite(scattered(left, 1))
    table.vacuum()
    now = table.loader()
    now.load_state_dict(state)
    assert told(now) == rest
    erased = pf.Loader(
        table.rows().erase(where="id == 7"),
        sequences=CUTS["windows"],
        batch_size=1,
        seed=3,
    )
    with pytest.raises(StateMismatchError, match="erased from those of"):
        erased.load_state_dict(state, grown="next-epoch")
    table.rewrite(scattered(left.slice(1), 2))  # It says that no row was lost.
    table.vacuum()
    with pytest.raises(StateMismatchError, match="not all of their rows are there"):
        table.loader().load_state_dict(state, grown="next-epoch")
    DeltaTable(table.folder).delete("id = 17")
    with pytest.raises(StateMismatchError, match="not prove that no row changed"):
        table.loader().load_state_dict(state, grown="next-epoch")


def test_what_is_missing_is_said(tmp_path):
    table = Table(tmp_path, key=None)
    rows = made(1, 91)
    rows = rows.append_column("day", pa.array([n // 2 for n in range(len(rows))]))
    table.add(rows)
    state, _ = begun(table)
    table.rewrite(scattered(rows, 1))
    table.vacuum()
    with pytest.raises(
        StateMismatchError, match=r"nothing that tells .* key=.*'_row_id'"
    ):
        table.loader().load_state_dict(state)
    table.cache = tmp_path / "other"
    with pytest.raises(StateMismatchError, match=r"no page index of them.*cache_dir="):
        table.loader().load_state_dict(state)
    key: Any
    for key, kind, match in (
        ("idd", ColumnNotFoundError, "did you mean 'id'"),
        ("lang", InvalidArgumentError, "rows have none"),
        ("tokens", InvalidArgumentError, "one value per row"),
        ("_row_id", InvalidArgumentError, "the table has no row ids"),
        (7, InvalidArgumentError, "must be a name"),
        ("day", InvalidArgumentError, "some share a value"),
    ):
        table.key = key
        with pytest.raises(kind, match=match):
            table.loader()


def test_rows_that_were_added_are_mixed_in_though_files_were_rewritten(tmp_path):
    """What is new is told by the key, before and after files are removed."""
    table = Table(tmp_path)
    table.add(made(1, 91))
    state, _ = begun(table, cut=CUTS["packed"], shuffle="row")
    everything = made(1, 131)
    table.rewrite(scattered(everything, 3))
    table.key = None
    now = table.loader(cut=CUTS["packed"], shuffle="row")
    with pytest.raises(StateMismatchError, match="nothing shows which rows are new"):
        now.load_state_dict(state, grown="now")
    table.key, found = "id", []
    for _ in range(2):
        now = table.loader(cut=CUTS["packed"], shuffle="row")
        now.load_state_dict(state, grown="now")
        batches = iter(now)
        head = told(next(batches) for _ in range(3))
        again = table.loader(cut=CUTS["packed"], shuffle="row")
        again.load_state_dict(json.loads(json.dumps(now.state_dict())))
        found.append(head + told(again))
        table.vacuum()
    assert found[0] == found[1]
    seen = [token for batch in found[0] for token in batch["input_ids"][0]]
    counts = [seen.count(n) for n in range(91, 131)]
    assert counts == [len(row) for row in everything["tokens"].to_pylist()[90:]]


def test_a_mixture_goes_on_over_files_of_now(tmp_path):
    table = Table(tmp_path)
    table.add(made(1, 91))

    def loader() -> pf.Loader:
        mixture = pf.mix({"web": table.rows()}, max_steps=60)
        settings: dict[str, Any] = {
            "sequences": CUTS["packed"],
            "seed": 3,
            "rank": 0,
            "world_size": 1,
        }
        return pf.Loader(mixture, batch_size=1, **settings)

    expected, first = told(loader()), loader()
    batches = iter(first)
    for _ in range(4):
        next(batches)
    state = first.state_dict()
    size = sum(map(len, made(1, 91)["tokens"].to_pylist())) // 16
    table.rewrite(scattered(made(1, 91), 5))
    table.vacuum()
    now = loader()
    now.load_state_dict(state)
    assert told(now)[: size - 12] == expected[4 : size - 8]


@pytest.mark.parametrize("key", ["_row_id", "name"])
def test_iceberg_rows_go_on_after_their_snapshot_expired(tmp_path, key):
    """By ids that the table gives, or by texts."""
    schema = pa.schema({"name": pa.string(), "tokens": pa.list_(pa.int64())})
    catalog, _ = catalog_in(tmp_path)
    table = catalog.create_table("corpus.web", schema=schema)
    catalog.close()
    log = IcebergLog(table.metadata_location.removeprefix("file://"), version=3)

    def rows(ids: list[int], *, are_held: bool = False) -> pa.Table:
        columns = {
            ("name", 1): pa.array([f"row {n}" for n in ids]),
            ("tokens", 2): pa.array([[n] * (n % 5) for n in ids], pa.list_(pa.int64())),
        }
        held = {("_row_id", 2147483540): pa.array([499 + n for n in ids])}
        return with_ids({**columns, **(held if are_held else {})})

    def loader() -> pf.Loader:
        web = pf.iceberg(
            *(log.metadata,), column="tokens", key=key, cache_dir=tmp_path / "cache"
        )
        settings: dict[str, Any] = {
            "sequences": CUTS["packed"],
            "seed": 3,
            "rank": 0,
            "world_size": 1,
        }
        return pf.Loader(web, batch_size=1, **settings)

    files = [[*range(n, n + 60)] for n in (1, 61)]
    log.commit([Written(rows(ids)) for ids in files], first_row_id=500)
    expected, first = told(loader()), loader()
    old = [Path(path) for path in pf.iceberg(log.metadata, column="tokens").files]
    batches = iter(first)
    for _ in range(4):
        next(batches)
    state = first.state_dict()
    draw = random.Random(1)
    moved = draw.sample(range(1, 121), 120)
    log.commit([Written(rows(moved, are_held=True))], operation="replace")
    about = json.loads(Path(log.metadata).read_text())
    about["snapshots"] = about["snapshots"][1:]
    Path(log.metadata).write_text(json.dumps(about))
    for path in old:
        path.unlink()
    now = loader()
    now.load_state_dict(state)
    assert told(now) == expected[4:]


def test_rows_that_go_on_in_the_next_page_keep_their_blocks(tmp_path):
    """So blocks, and with them the order, stay those of the files that are gone."""
    rows = [[1], [2] * 9, [3], [], [4] * 3]
    pages = [
        token_page([[1], [2] * 2]),
        token_page([[2] * 5], mid=True),
        token_page([[2] * 2, [3]], mid=True),
        token_page([[], [4] * 3]),
    ]
    file = one_column(token_list("tokens"), pages, num_rows=5)
    (tmp_path / "old.parquet").write_bytes(file.encode())
    moved = [3, 0, 4, 1, 2]
    pq.write_table(
        pa.table({"tokens": pa.array([rows[n] for n in moved], pa.list_(pa.int32()))}),
        tmp_path / "new.parquet",
        row_group_size=2,
    )
    old, new = (
        pf.parquet(tmp_path / f"{name}.parquet", column="tokens").index
        for name in ("old", "new")
    )
    assert old.page_rows.tolist() == [2, 1, 2]
    found = _Matches(old, np.arange(5), np.argsort(moved))
    stored = derived_arrays(
        new, "test", "key", lambda writer: _write_runs(writer, new, found)
    )
    spans = RewrittenRows(new, old, "", stored)
    for cut in (pf.Windows(2), pf.Windows(3, eos=9), pf.Documents()):
        blocks = [cut.index(each).blocks("page") for each in (Spans(old), spans)]
        numbers = np.arange(4)
        first = [each.first_sequence(numbers).tolist() for each in blocks]
        assert first[0] == first[1]


def test_keys_of_a_column_are_not_those_of_another(tmp_path):
    rows = rows_table(0, 60, other=pa.array(range(60, 0, -1), pa.int64()))
    write_delta(tmp_path / "web", [rows])
    for key in ("id", "other"):
        web: Any = pf.delta(
            tmp_path / "web", column="tokens", key=key, cache_dir=tmp_path / "cache"
        )
        pf.Loader(web, sequences=CUTS["windows"], batch_size=1)  # It keeps them.
        found = web.table.past.keys_of(web.index)
        assert found.tolist() == rows[key].to_pylist()
