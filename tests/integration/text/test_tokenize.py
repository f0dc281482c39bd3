"""Texts of every input become the same Parquet files of tokens."""

import gzip
import json
from collections import Counter

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather, ipc

import pagefeed as pf
from made.texts_made import make_texts, make_tokenizer
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main
from pagefeed.core.storage import Storage
from pagefeed.prepare.texts.tables import ArrowFile

TEXTS = [text or "" for text in make_texts()]
SCORES = [number * 7 % 11 for number in range(len(TEXTS))]
TABLE = pa.table({"text": TEXTS, "score": SCORES, "url": [f"u{n}" for n in SCORES]})


@pytest.fixture(scope="module")
def tok():
    return make_tokenizer()


@pytest.fixture(scope="module")
def ids(tok):
    return [tok.encode(text).tolist() for text in TEXTS]


def json_lines():
    rows = zip(TEXTS, SCORES, strict=True)
    return "".join(
        json.dumps({"text": text, "score": score, "url": f"u{score}"}) + "\n"
        for text, score in rows
    ).encode()


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


def write_saved(path):
    """A dataset as Hugging Face's `datasets` saves it, with what a map left beside."""
    state = {
        "_data_files": [{"filename": f"data-0000{n}-of-00002.arrow"} for n in (0, 1)]
    }
    (path / "state.json").write_text(json.dumps(state))
    for number, part in enumerate((TABLE[:200], TABLE[200:])):
        with ipc.new_stream(
            path / f"data-0000{number}-of-00002.arrow", TABLE.schema
        ) as out:
            out.write_table(part, max_chunksize=64)
    (path / "cache-1234.arrow").write_bytes(b"something else")


WRITERS = {
    "jsonl": lambda path: (path / "a.jsonl").write_bytes(json_lines()),
    "jsonl.gz": lambda p: (p / "a.jsonl.gz").write_bytes(gzip.compress(json_lines())),
    "jsonl.zst": lambda p: (p / "a.jsonl.zst").write_bytes(zstd(json_lines())),
    "csv": lambda path: csv.write_csv(TABLE, path / "a.csv"),
    "parquet": lambda path: pq.write_table(
        TABLE, path / "a.parquet", row_group_size=90
    ),
    "feather": lambda path: feather.write_feather(
        TABLE, path / "a.feather", chunksize=70
    ),
    "saved": write_saved,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_input_gives_the_same_tokens(kind, tmp_path, tok, ids):
    folder = tmp_path / "url=other" / "dump=2024-01"  # Files have a url of their own.
    folder.mkdir(parents=True)
    WRITERS[kind](folder)
    keep = {"score": "int64", "url": None, "dump": None}
    done = pf.tokenize(
        folder, tmp_path / "out", tokenizer=tok, keep=keep, shard_size="8KiB"
    )
    assert done.num_documents == len(TEXTS)
    assert done.num_tokens == sum(map(len, ids))
    found = pa.concat_tables([pq.read_table(file) for file in done.files])
    assert found["input_ids"].to_pylist() == ids
    names = found.column_names
    assert found[names[1]].to_pylist() == SCORES
    assert found[names[2]].to_pylist() == TABLE["url"].to_pylist()
    assert set(found["dump"].to_pylist()) == {"2024-01"}
    assert len(done.files) > 2


def test_columns_of_folders_have_the_type_of_all_values(tmp_path, tok):
    for part, number in (("x=7", 1), ("x=__HIVE_DEFAULT_PARTITION__", 2), ("x=09", 3)):
        for name in ("y=01", "y=n"):
            folder = tmp_path / "in" / part / name
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"text": ["a b"] * number}), folder / "0.parquet")
    keep = ["x", "y"]
    done = pf.tokenize(tmp_path / "in", tmp_path / "out", tokenizer=tok, keep=keep)
    found = pq.read_table(done.folder)
    assert found.schema.field("x").type == pa.int64()
    x, y = found["x"].to_pylist(), found["y"].to_pylist()
    assert Counter(x) == {7: 2, None: 4, 9: 6}
    assert sorted(y) == ["01"] * 6 + ["n"] * 6


@pytest.mark.parametrize("num_batches", [0, 1, 5])
@pytest.mark.parametrize("most", [1, 1 << 30])
def test_arrow_files_are_divided_at_their_batches(tmp_path, num_batches, most):
    """As many ranges as are wanted and there are batches for, none of them empty."""
    path = tmp_path / "a.arrow"
    with ipc.new_file(path, TABLE.schema) as out:
        for _ in range(num_batches):
            out.write_table(TABLE[:3])
    ranges = [*ArrowFile().ranges(Storage(), str(path), most)]
    ends = [(found.begin, found.end) for found in ranges]
    if num_batches and most == 1:
        assert ends == [(n, n + 1) for n in range(num_batches)]
    else:
        assert ends == [(0, num_batches)]


def write_lines(path):
    (path / "a.jsonl").write_bytes(json_lines())
    return path / "a.jsonl"


def test_files_are_the_same_however_many_threads_write(tmp_path, tok):
    source = write_lines(tmp_path)
    some = [
        pf.tokenize(
            source, tmp_path / f"{n}", tokenizer=tok, num_threads=n, shard_size="8KiB"
        )
        for n in (1, 3)
    ]
    assert contents(some[0].folder) == contents(some[1].folder)
    assert len(some[0].files) > 4


def contents(folder):
    from pathlib import Path

    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def test_everybody_reads_the_files(tmp_path, tok, ids):
    source = write_lines(tmp_path)
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, keep=["url"])
    assert pq.read_table(done.folder)["input_ids"].to_pylist() == ids
    pattern = f"{done.folder}/*.parquet"
    assert pl.read_parquet(pattern)["input_ids"].to_list() == ids
    query = f"select input_ids from '{pattern}'"
    rows = duckdb.connect().execute(query).fetchall()
    assert [row[0] for row in rows] == ids
    kind = pq.read_schema(done.files[0]).field("input_ids").type
    assert kind.value_type == pa.uint16()
    loader = pf.Loader(
        pf.parquet(done.folder, column="input_ids"),
        sequences=pf.Windows(64),
        batch_size=1,
        seed=0,
        shuffle=None,
        rank=0,
        world_size=1,
    )
    joined = np.concatenate([batch["input_ids"][0] for batch in loader])
    assert joined[: done.num_tokens].tolist() == [one for row in ids for one in row]


def test_pages_are_found_from_footers_and_have_checksums(tmp_path, tok):
    source = write_lines(tmp_path)
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok, page_size="1KiB")
    found = pf.inspect(pf.parquet(done.folder, column="input_ids"))
    assert found.storage is not None
    assert found.storage.offset_index_share == 1
    assert (
        found.pages.checksum_share == 1 if hasattr(found.pages, "checksum_share") else 1
    )
    record = json.loads(found.storage.tokenizer["pagefeed.tokenizer"])
    assert record == tok.record
    assert len(pf.PageIndex.build(done.folder, "input_ids")) > 10
    chunk = pq.read_metadata(done.files[0]).row_group(0).column(0)
    assert chunk.has_offset_index
    assert chunk.has_column_index


def test_wide_vocabularies_are_wide(tmp_path):
    wide = pf.Tokenizer(lambda text: [70000] * len(text), vocab_size=70001, name="wide")
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n')
    done = pf.tokenize(tmp_path / "a.jsonl", tmp_path / "out", tokenizer=wide)
    table = pq.read_table(done.files[0])
    assert table["input_ids"].type.value_type == pa.uint32()
    assert table["input_ids"].to_pylist() == [[70000] * 3]
    lying = pf.Tokenizer(lambda _: [7], vocab_size=7, name="lying")
    with pytest.raises(pf.errors.TokenRangeError, match="id 7"):
        pf.tokenize(tmp_path / "a.jsonl", tmp_path / "other", tokenizer=lying)


@pytest.mark.parametrize("name", ["a.txt", "a.tar", "shard.00000.mds"])
def test_archives_are_refused_by_what_to_do(name, tmp_path, tok):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(pf.errors.InvalidArgumentError, match="write their samples to"):
        pf.tokenize(tmp_path / name, tmp_path / "out", tokenizer=tok)


def test_a_folder_of_another_job_is_refused(tmp_path, tok):
    source = write_lines(tmp_path)
    done = pf.tokenize(source, tmp_path / "out", tokenizer=tok)
    before = contents(done.folder)
    assert pf.tokenize(source, tmp_path / "out", tokenizer=tok) == done
    assert contents(done.folder) == before
    with pytest.raises(pf.errors.InvalidArgumentError, match="page_bytes: 65536 there"):
        pf.tokenize(source, tmp_path / "out", tokenizer=tok, page_size="1KiB")
    with pytest.raises(pf.errors.InvalidArgumentError, match="holds other files"):
        pf.tokenize(source, tmp_path, tokenizer=tok)


def test_the_verb_says_what_it_wrote(tmp_path, capsys):
    source = write_lines(tmp_path)
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("llama3"))
    words = ["tokenize", str(source), "--tokenizer", str(tmp_path / "tokenizer.json")]
    words += ["--output", str(tmp_path / "out"), "--keep", "url", "score=float64"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_documents"] == len(TEXTS)
    schema = pq.read_schema(told["files"][0])
    assert schema.field("score").type == pa.float64()
    assert main(words) == 0
    assert f"{len(TEXTS):,} documents" in capsys.readouterr().out


def test_columns_that_are_not_there_are_named(tmp_path, tok):
    source = write_lines(tmp_path)
    for wrong in ({"column": "txt"}, {"keep": ["nothing"]}):
        with pytest.raises(pf.errors.ColumnNotFoundError, match="'text'"):
            pf.tokenize(source, tmp_path / "out", tokenizer=tok, **wrong)
    with pytest.raises(pf.errors.UnsupportedError, match="no texts"):
        pf.tokenize(source, tmp_path / "out", tokenizer=tok, column="score")
    with pytest.raises(
        pf.errors.InvalidArgumentError, match="is the name of the tokens"
    ):
        pf.tokenize(
            source, tmp_path / "o", tokenizer=tok, keep=["url"], column_name="url"
        )


def test_parts_of_one_dataset_are_not_mixed(tmp_path, tok):
    for name in ("train", "test"):
        (tmp_path / "saved" / name).mkdir(parents=True)
        write_saved(tmp_path / "saved" / name)
    (tmp_path / "saved" / "dataset_dict.json").write_text("{}")
    with pytest.raises(pf.errors.InvalidArgumentError, match="several splits"):
        pf.tokenize(tmp_path / "saved", tmp_path / "out", tokenizer=tok)


def test_progress_counts_bytes_of_the_inputs_from_the_start(tmp_path, tok):
    files = [tmp_path / f"{number}.jsonl" for number in range(4)]
    for file in files:
        file.write_bytes(json_lines())
    told: list[pf.Progress] = []
    with pf.show_progress(told.append):
        pf.tokenize(files, tmp_path / "out", tokenizer=tok, shard_size=1000)
    told = [one for one in told if one.what == "tokenizing"]
    size = sum(file.stat().st_size for file in files)
    assert {(one.total, one.unit) for one in told} == {(size, "bytes")}
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert (told[0].done, told[-1].done, told[-1].finished) == (0, size, True)


@pytest.mark.parametrize("compress", [zstd, gzip.compress])
def test_progress_never_exceeds_its_total(tmp_path, tok, compress):
    name = {zstd: "a.jsonl.zst", gzip.compress: "a.jsonl.gz"}[compress]
    # Texts that compress a hundredfold: their size is not known in advance.
    (tmp_path / name).write_bytes(compress(json_lines() * 40))
    told: list[pf.Progress] = []
    with pf.show_progress(told.append):
        pf.tokenize(tmp_path / name, tmp_path / "out", tokenizer=tok)
    told = [one for one in told if one.what == "tokenizing"]
    assert all(0 <= one.done <= one.total for one in told)
    assert told[-1].done == told[-1].total == told[0].total
