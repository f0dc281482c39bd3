"""What a manifest says of a folder is compared with the folder when it is opened."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.texts_made import make_tokenizer
from pagefeed.cli import main
from pagefeed.errors import CorruptFileError, StaleFileError

ROWS = [[n, n + 1, n + 2] for n in range(300)]


def converted(folder: Path, rows: list[list[int]] = ROWS) -> Path:
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "in.parquet")
    data = pf.parquet(folder / "in.parquet", column="input_ids")
    out = folder / f"converted-{rows[0][0]}"
    pf.convert(data, out, to="parquet", shard_size="500B", compression="none")
    return out


def tokenized(folder: Path) -> Path:
    lines = [json.dumps({"text": f"some words {n}"}) for n in range(300)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    out = folder / "tokenized"
    pf.tokenize(folder / "a.jsonl", out, tokenizer=make_tokenizer(), shard_size="2KiB")
    return out


def exported(folder: Path) -> Path:
    data = pf.parquet(converted(folder), column="input_ids")
    loader = pf.Loader(
        data, sequences=pf.Windows(8), batch_size=4, rank=0, world_size=1
    )
    pf.export(loader, folder / "exported", shard_size="1KiB")
    return folder / "exported"


def fewer_rows(path: Path, _: Path) -> None:
    """A file of the same size, as far as the manifest knows, with a row less."""
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    manifest = path.parent / "_manifest.json"
    content = json.loads(manifest.read_text())
    [entry] = [each for each in content["shards"] if each["file"] == path.name]
    entry["bytes"] = path.stat().st_size
    manifest.write_text(json.dumps(content))


def cut(path: Path, _: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


CHANGES: dict[str, Callable[[Path, Path], Any]] = {
    "missing": lambda path, _: path.unlink(),
    "added": lambda path, other: shutil.copy(other, path.with_name("part-9.parquet")),
    "bytes, and": cut,
    "rows, and": fewer_rows,
}


@pytest.mark.parametrize("make", [converted, tokenized, exported])
def test_a_folder_of_other_files_than_were_written_is_refused(tmp_path, make):
    whole = make(tmp_path)
    files = sorted(whole.glob("*.parquet"))
    assert len(files) > 1
    for said, change in CHANGES.items():
        folder = tmp_path / "changed"
        shutil.copytree(whole, folder)
        change(folder / files[1].name, files[0])
        name = "part-9.parquet" if said == "added" else files[1].name
        with pytest.raises(StaleFileError, match=said) as told:
            _ = pf.parquet(folder, column="input_ids").index
        assert told.value.file == str(folder / name)
        parent = tmp_path / "parent"
        parent.mkdir()
        folder = folder.rename(parent / "inner")
        with pytest.raises(StaleFileError, match=said):
            _ = pf.parquet(parent, column="input_ids").index
        if said in ("missing", "added"):  # A pattern means what it matches.
            assert len(pf.parquet(f"{folder}/*.parquet", column="input_ids")) > 0
        else:
            with pytest.raises(StaleFileError, match=said):
                _ = pf.parquet(f"{folder}/*.parquet", column="input_ids").index
        shutil.rmtree(parent)
    assert len(pf.parquet(whole, column="input_ids")) > 0
    assert len(pf.parquet(files[1], column="input_ids")) > 0


def test_a_manifest_that_is_damaged_or_of_others_is_told_apart(tmp_path):
    whole = converted(tmp_path)
    manifest = whole / "_manifest.json"
    for text in ('{"format": "pagefeed tokens"}', '{"shards"', "[]"):
        manifest.write_text(text)
        with pytest.raises(CorruptFileError, match=r"_manifest\.json"):
            pf.parquet(whole, column="input_ids")
    manifest.write_text('{"entries": []}')
    assert len(pf.parquet(whole, column="input_ids")) == 300


def test_bytes_are_compared_by_inspect_whole(tmp_path, capsys):
    whole, like = converted(tmp_path), converted(tmp_path, [r[::-1] for r in ROWS])
    name = sorted(path.name for path in whole.glob("*.parquet"))[1]
    assert (like / name).stat().st_size == (whole / name).stat().st_size
    words = ["inspect", str(whole), "--column", "input_ids"]
    assert main([*words, "--whole"]) == 0
    shutil.copy(like / name, whole / name)
    assert main(words) == 0
    assert main([*words, "--whole"]) == 1
    assert name in capsys.readouterr().err
