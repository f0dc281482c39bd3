"""Tars of WebDataset and folders of images become rows of Parquet."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import CorruptFileError, InvalidArgumentError
from pagefeed.remote import FileWriter


def write_tar(path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def members(first: int, count: int = 20) -> dict[str, bytes]:
    found = {}
    for n in range(first, first + count):
        found[f"train/{n:05}.jpg"] = b"\xff\xd8" + bytes(n)
        found[f"train/{n:05}.txt"] = f"caption {n} é".encode()
        if n % 2:
            found[f"train/{n:05}.meta.json"] = json.dumps({"n": n}).encode()
    return found


def test_a_sample_is_a_row_and_an_extension_a_column(tmp_path):
    tars = [
        write_tar(tmp_path / "a.tar", members(0)),
        write_tar(tmp_path / "b.tar.gz", members(20)),
    ]
    done = pf.convert(tars, tmp_path / "out", to="parquet", shard_size=300)
    assert done.num_documents == 40
    assert len(done.files) > 2
    rows = [row for file in done.files for row in pq.read_table(file).to_pylist()]
    for n, row in enumerate(rows):
        assert row["__key__"] == f"train/{n:05}"
        assert row["jpg"] == b"\xff\xd8" + bytes(n)
        assert row["txt"] == f"caption {n} é"
        meta = json.dumps({"n": n}).encode() if n % 2 else None
        assert row["meta.json"] == meta
    assert len(pf.parquet(tmp_path / "out", column="jpg")) == 40


def test_a_folder_of_images_has_labels_and_paths(tmp_path):
    for name in ("cat/1.png", "cat/far/2.JPG", "dog/3.webp"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (tmp_path / "images" / "notes.txt").write_text("")
    pf.convert(tmp_path / "images", tmp_path / "out", to="parquet")
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [(row["label"], row["path"]) for row in rows] == [
        ("cat", "cat/1.png"),
        ("cat", "cat/far/2.JPG"),
        ("dog", "dog/3.webp"),
    ]
    assert all(row["image"] == row["path"].encode() for row in rows)


def test_stopped_anywhere_it_goes_on(tmp_path, monkeypatch):
    tar = write_tar(tmp_path / "a.tar", members(0))
    pf.convert([tar], tmp_path / "whole", to="parquet", shard_size=300)
    commit, left = FileWriter.commit, [0]

    def stopped(file: FileWriter) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise InterruptedError
        commit(file)

    monkeypatch.setattr(FileWriter, "commit", stopped)
    for number in range(30):
        left[0] = 1 + number % 4
        try:
            pf.convert([tar], tmp_path / "out", to="parquet", shard_size=300)
        except InterruptedError:
            continue
        break
    assert number > 1
    both = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("whole", "out")
    ]
    assert both[0] == both[1]


def test_what_is_no_sample_is_refused(tmp_path):
    good = write_tar(tmp_path / "a.tar", members(0, 2))
    (tmp_path / "cut.tar").write_bytes(Path(good).read_bytes()[:700])
    twice = write_tar(tmp_path / "2.tar", {"a.txt": b"1", "a.TXT": b"2"})
    binary = write_tar(tmp_path / "b.tar", {"a.txt": b"\xff\xfe\x00"})
    for path, said in (
        (tmp_path / "cut.tar", "cut"),
        (twice, "two"),
        (binary, "UTF-8"),
    ):
        with pytest.raises(CorruptFileError, match=said):
            pf.convert(str(path), tmp_path / "out" / said, to="parquet")
    (tmp_path / "a.txt").write_text("")
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (str(tmp_path / "a.txt"), {}),
        (good, {"to": "npy"}),
        (good, {"eos": 1}),
        (good, {"dtype": "uint16"}),
    ]
    for paths, more in wrong:
        with pytest.raises(InvalidArgumentError):
            pf.convert(paths, tmp_path / "out", **{"to": "parquet"} | more)
