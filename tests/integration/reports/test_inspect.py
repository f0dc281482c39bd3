"""What `inspect` and `head` say of files is what the files hold."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from made.numbered import write_numbered
from pagefeed.cli import main


@pytest.fixture
def folder(tmp_path):
    write_numbered(tmp_path, write_page_checksum=True, write_page_index=True)
    return tmp_path


def damage_a_page(path, *, column="input_ids", page=20):
    """Turn bits of the last byte of a page."""
    where = pf.PageIndex.build(path, column).locate(page)
    data = bytearray(path.read_bytes())
    data[where.offset + where.compressed_size - 1] ^= 255
    path.write_bytes(data)


def test_counts_are_those_of_the_files(folder):
    found: Any = pf.inspect(pf.parquet(folder, column="input_ids"), whole=True)
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    lengths = np.concatenate(
        [np.diff(t["input_ids"].combine_chunks().offsets) for t in tables]
    )
    assert (found.files, found.rows, found.tokens) == (2, 600, lengths.sum())
    assert found.row_groups == 6
    assert found.lengths.rows_read == 600
    assert not found.lengths.is_sample
    assert found.lengths.quantiles["1.0"] == lengths.max()
    assert sum(rows for _, _, rows, _ in found.lengths.histogram) == 600
    assert sum(tokens for *_, tokens in found.lengths.histogram) == found.tokens
    for least, most, rows, tokens in found.lengths.histogram:
        inside = lengths[(lengths >= least) & (lengths <= most)]
        assert (rows, tokens) == (len(inside), inside.sum())
    assert found.storage.offset_index_share == 1
    assert found.checksum_share == 1
    assert found.damage == []


def test_what_files_lack_is_told(tmp_path):
    write_numbered(tmp_path)
    found: Any = pf.inspect(pf.parquet(tmp_path, column="input_ids"))
    assert (found.storage.offset_index_share, found.checksum_share) == (0, 0)
    assert any("write_page_index" in line for line in found.advice)
    assert any("write_page_checksum" in line for line in found.advice)


def test_texts_are_measured_in_bytes(tmp_path):
    texts = ["", "a", "zwölf", "x" * 1000]
    pq.write_table(pa.table({"text": texts}), tmp_path / "text.parquet")
    found: Any = pf.inspect(pf.parquet(tmp_path, column="text"))
    assert found.lengths.unit == "bytes"
    assert found.lengths.quantiles["1.0"] == 1000


def test_a_damaged_file_and_a_damaged_page_are_told(folder, capsys):
    pq.write_table(pq.read_table(folder / "part-0.parquet"), folder / "sound.parquet")
    damage_a_page(folder / "part-0.parquet")
    broken = folder / "part-1.parquet"
    broken.write_bytes(broken.read_bytes()[:5000])
    run = [str(folder), "--column", "input_ids", "--json"]
    assert main(["inspect", *run, "--whole"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert {one["file"].rpartition("/")[2] for one in found["damage"]} == {
        "part-0.parquet",
        "part-1.parquet",
    }
    assert found["files"] == 2
    assert found["lengths"]["rows_read"] > 500
    assert err.count("DAMAGED") == len(found["damage"]) == 2
    kinds = [one["kind"] for one in found["damage"]]
    assert sorted(kinds) == ["ChecksumError", "CorruptFileError"]
    assert main(["head", *run, "--rows", "300"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert 200 < len(shown["rows"]) < 300
    assert len(shown["damage"]) == 2


@pytest.mark.parametrize("text", [False, True])
def test_the_same_damage_has_the_same_name_in_a_loader_and_a_look(tmp_path, text):
    lengths = np.random.default_rng(1).integers(1, 30, 2000).tolist()
    rows = ["word " * n for n in lengths] if text else [[*range(n)] for n in lengths]
    path = tmp_path / "a.parquet"
    table = pa.table({"input_ids": rows})
    pq.write_table(
        table,
        path,
        data_page_size=8000,
        write_batch_size=50,
        use_dictionary=not text,
        write_page_checksum=True,
        write_page_index=True,
    )
    damage_a_page(path, page=2)
    dataset = pf.parquet(path, column="input_ids")
    cut: Any = pf.Documents(columns=["input_ids"]) if text else pf.Windows(32)
    loader = pf.Loader(dataset, sequences=cut, batch_size=4, rank=0, world_size=1)
    with pytest.raises(pf.errors.ChecksumError) as raised:
        list(loader)
    look: Any = pf.inspect(dataset)
    [damage] = look.damage
    assert damage.kind == "ChecksumError"
    assert damage.message == str(raised.value)
    assert damage.page == raised.value.page == 2
    assert look.lengths.rows_read < 2000


def test_texts_are_measured_though_the_first_page_is_damaged(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["word " * n for n in range(200)]})
    options = {"use_dictionary": False, "data_page_size": 4000, "write_batch_size": 20}
    pq.write_table(table, path, write_page_checksum=True, **options)
    damage_a_page(path, column="text", page=0)
    found: Any = pf.inspect(pf.parquet(path, column="text"))
    assert found.lengths.unit == "bytes"
    assert [one.page for one in found.damage] == [0]


def test_rows_are_shown(folder, capsys):
    run = [str(folder), "--column", "input_ids", "--start", "598"]
    assert main(["head", *run, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["rows"]
    dataset = pf.parquet(folder, column="input_ids")
    assert [row["input_ids"] for row in shown] == [
        dataset[598]["input_ids"],
        dataset[599]["input_ids"],
    ]
    assert main(["head", *run]) == 0
    assert "row 598" in capsys.readouterr().out


def test_inspect_reports_for_people(folder, capsys):
    run = [str(folder), "--column", "input_ids", "--length", "32"]
    assert main(["inspect", *run]) == 0
    out = capsys.readouterr().out
    for word in ("row groups", "SNAPPY", "####"):
        assert word in out
    paths = {"a": folder, "b": folder / "part-0.parquet"}
    parts = {n: pf.parquet(path, column="input_ids") for n, path in paths.items()}
    assert main(["inspect", name_run(pf.mix(parts)), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"a", "b", "damage"}


def test_small_files_are_told_with_the_verb_that_joins_them(tmp_path, capsys):
    rows = pa.array([[n] * 40 for n in range(30)], pa.list_(pa.int32()))
    for number in range(20):
        pq.write_table(pa.table({"input_ids": rows}), tmp_path / f"{number}.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    told = [each for each in pf.inspect(data).advice if "20 files of" in each]
    assert len(told) == 1
    assert "30 rows a page" in told[0]
    assert "--shard-size 512MiB` makes 1 of them" in told[0]
    run = [str(tmp_path), "--column", "input_ids", "--length", "64"]
    main(["plan", *run])
    assert "files: 20 files of" in capsys.readouterr().out
    loader = pf.Loader(data, sequences=pf.Windows(64), batch_size=2)
    [check] = [c for c in pf.smoke(loader, steps=2).checks if c.name == "files"]
    assert (check.ok, check.result) == (None, told[0])
    # Few files are no burden, whatever their sizes.
    few = pf.parquet(tmp_path / "1*.parquet", column="input_ids")
    assert not [each for each in pf.inspect(few).advice if "files of" in each]
    # What it says works, and keeps the tokens.
    output = tmp_path / "joined"
    verb = ["convert", str(tmp_path), "--column", "input_ids", "--to", "parquet"]
    assert main([*verb, "--output", str(output), "--shard-size", "512MiB"]) == 0
    joined = pf.parquet(output, column="input_ids")
    assert len(joined.files) == 1
    assert joined.index.num_values == data.index.num_values
