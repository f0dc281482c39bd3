"""What is staged is every file of a run, whole, and read as before."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.cli import main
from pagefeed.errors import (
    ChecksumError,
    ColumnNotFoundError,
    FileAccessError,
    InvalidArgumentError,
    PagefeedError,
)
from pagefeed.prepare import stage
from pagefeed.remote import FileWriter

ONE: Any = {"rank": 0, "world_size": 1}


@pytest.fixture
def far(tmp_path: Path) -> Path:
    folder = tmp_path / "far"
    for number, place in enumerate(("web/lang=en", "web/lang=de", "code", "code")):
        rows = [[*range(n, n + 9)] for n in range(number * 5000, number * 5000 + 200)]
        tokens = pa.array(rows, pa.list_(pa.int32()))
        table = pa.table({"input_ids": tokens, "labels": tokens})
        (folder / place).mkdir(parents=True, exist_ok=True)
        path = folder / place / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=50, write_page_checksum=True)
    return folder


def loader(web: Path | str, code: Path | str) -> pf.Loader:
    columns: Any = {"column": "input_ids", "aligned": ["labels"]}
    parts = {
        "web": (pf.parquet(web, **columns).where("lang != 'fr'"), 0.5),
        "code": (pf.parquet(code, **columns), 0.5),
    }
    return pf.Loader(
        pf.mix(parts, max_steps=40),
        sequences=pf.Packed(32),
        batch_size=2,
        seed=4,
        **ONE,
    )


def contents(folder: Path) -> dict[str, bytes]:
    names = folder.rglob("*.parquet")
    return {str(p.relative_to(folder)): p.read_bytes() for p in names}


def test_a_run_of_several_folders_goes_on_with_the_new_ones(far, tmp_path):
    old, near = loader(far / "web", far / "code"), tmp_path / "near"
    done = stage(old, near)
    assert contents(near) == contents(far)
    assert done.folders == {f"{far}/{n}": f"{near}/{n}" for n in ("web", "code")}
    assert done.num_brought == done.num_bytes == sum(map(len, contents(far).values()))
    batches = iter(old)
    for _ in range(11):
        next(batches)
    state = old.state_dict()
    new = loader(*done.folders.values())
    new.load_state_dict(state)
    want = [batch["input_ids"].tolist() for batch in batches]
    assert [batch["input_ids"].tolist() for batch in new] == want
    assert stage(old, near).num_brought == 0


def test_stopped_anywhere_it_goes_on_and_no_file_is_half_there(
    far, tmp_path, monkeypatch
):
    write, left, near = FileWriter.write, [0], tmp_path / "near"
    data = pf.parquet(far / "code", column="input_ids")

    def stopped(file: FileWriter, data: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise InterruptedError
        write(file, data)

    monkeypatch.setattr(FileWriter, "write", stopped)
    monkeypatch.setattr("pagefeed.prepare.staging._PART_BYTES", 1000)
    want, ended = contents(far / "code"), 0
    for number in range(80):
        left[0] = number % 29
        try:
            stage(data, near, num_threads=1)
        except InterruptedError:
            there = contents(near)
            assert {n: b for n, b in there.items() if n in want and b != want[n]} == {}
            if not (near / "_staged.json").exists():
                with pytest.raises(PagefeedError):
                    _ = pf.parquet(near, column="input_ids").index
        else:
            ended += 1
    assert ended > 0
    assert contents(near) == want


def test_what_cannot_be_staged_is_refused_before_it_begins(far, tmp_path, monkeypatch):
    data = pf.parquet(far / "code", column="input_ids")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.parquet").write_bytes(b"")
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (data, taken, {}, r"mine\.parquet is there already"),
        ([1], tmp_path / "near", {}, "found list"),
        (data, tmp_path / "near", {"rate": "fast"}, "rate"),
        (data, tmp_path / "near", {"num_threads": 0}, "num_threads"),
        (data, "s3://bucket/near", {}, "output"),
    ]
    for run, output, more, said in cases:
        with pytest.raises(InvalidArgumentError, match=said):
            stage(run, output, **more)
    for columns in ({"column": "input_id"}, {"column": "labels", "aligned": ["ids"]}):
        with pytest.raises(ColumnNotFoundError, match="input_ids"):
            stage(pf.parquet(far / "code", **columns), tmp_path / "near")
    assert not (tmp_path / "near").exists()
    free = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: free)
    with pytest.raises(FileAccessError, match="storage_cache"):
        stage(data, tmp_path / "near")
    assert not list((tmp_path / "near").iterdir())


def test_a_source_that_changed_is_another_job(far, tmp_path):
    stage(pf.parquet(far / "code", column="input_ids"), tmp_path / "near")
    path = far / "code" / "2.parquet"
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidArgumentError, match="another job"):
        stage(pf.parquet(far / "code", column="input_ids"), tmp_path / "near")


def test_a_damaged_page_is_named_and_its_file_not_there(far, tmp_path):
    path = far / "code" / "3.parquet"
    page = pf.PageIndex.build(path, column="labels").locate(2)
    data = bytearray(path.read_bytes())
    data[page.offset + page.compressed_size - 3] ^= 1
    path.write_bytes(data)
    run = pf.parquet(far / "code", column="input_ids", aligned=["labels"])
    with pytest.raises(ChecksumError, match=r"3\.parquet") as told:
        stage(run, tmp_path / "near")
    assert told.value.file == str(path)
    assert "_unfinished" not in str(told.value)
    assert not (tmp_path / "near" / "3.parquet").exists()


def test_a_manifest_comes_with_all_of_its_files_alone(far, tmp_path):
    out = tmp_path / "tokens"
    data = pf.parquet(far / "code", column="input_ids")
    pf.convert(data, out, to="parquet", shard_size="2KB")
    files = sorted(out.glob("*.parquet"))
    stage(pf.parquet(out, column="input_ids"), tmp_path / "all")
    stage(pf.parquet(files[:2], column="input_ids"), tmp_path / "some")
    for name, count in (("all", len(files)), ("some", 2)):
        assert (tmp_path / name / "_manifest.json").exists() == (name == "all")
        staged = pf.parquet(tmp_path / name, column="input_ids")
        assert len(staged.index.files) == count


def test_the_verb_says_what_to_read(far, tmp_path, capsys):
    words = ["stage", str(far / "code"), "--column", "input_ids", "--rate", "1GB"]
    assert main([*words, "--output", str(tmp_path / "near")]) == 0
    assert f"in place of {far}/code read {tmp_path}/near" in capsys.readouterr().out
