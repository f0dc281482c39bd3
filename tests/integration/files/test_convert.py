"""Token files in one format become the same documents in another."""

import itertools
import json
from inspect import unwrap
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import flat_files
from made.flat_files import opened
from pagefeed import errors
from pagefeed.cli import main
from pagefeed.flat import FLAT_FORMATS, FlatName
from pagefeed.prepare import TOKEN_FORMATS
from pagefeed.prepare.parquet_sinks import Compression

ROOT = Path(__file__).resolve().parents[3]

DOCUMENTS = flat_files.some_documents(200)
TOKENS = [token for document in DOCUMENTS for token in document]


def documents_of(dataset) -> list[list[int]]:
    return [row[dataset.column] for row in dataset]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pf.dataset.ParquetDataset:
    folder = tmp_path_factory.mktemp("source")
    rows = pa.array(DOCUMENTS, pa.list_(pa.int32()))
    table = pa.table({"input_ids": rows, "part": [n % 3 for n in range(len(rows))]})
    pq.write_table(table, folder / "a.parquet", row_group_size=70)
    return pf.parquet(folder, column="input_ids")


@pytest.mark.parametrize(
    ("via", "dtype"),
    [*zip(TOKEN_FORMATS, itertools.cycle(["uint16", "int32"]), strict=False)],
)
def test_there_and_back(source, tmp_path, via, dtype):
    done = pf.convert(source, tmp_path / "out", to=via, dtype=dtype, shard_size=20_000)
    assert (done.num_documents, done.num_tokens) == (len(DOCUMENTS), len(TOKENS))
    dataset = opened(via, list(done.files), done.dtype)
    assert dataset.index.value_bytes == np.dtype(dtype).itemsize
    assert documents_of(dataset) == DOCUMENTS
    again = pf.convert(dataset, tmp_path / "back", to="parquet", column="input_ids")
    assert documents_of(pf.parquet(again.files, column="input_ids")) == DOCUMENTS
    leftover = [path for path in tmp_path.rglob(".*") if path.is_file()]
    assert leftover == []


@pytest.mark.parametrize(
    ("to", "shard_size"), [("parquet", "1KB"), ("stream", "30KB"), ("mds", "1MB")]
)
def test_shards_are_as_large_as_is_said(tmp_path, to, shard_size):
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 60_000, rng.integers(0, 100)) for _ in range(9000)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    source = pf.parquet(tmp_path / "a.parquet", column="input_ids")
    pf.convert(source, tmp_path / "out", to=to, dtype="uint16", shard_size=shard_size)
    files = [file for file in (tmp_path / "out").rglob("*") if file.stat().st_size]
    shards = [file for file in files if file.suffix in (".parquet", ".bin", ".mds")]
    total = 2 * sum(map(len, rows))
    most = {"1KB": 1000, "30KB": 30_000, "1MB": 1_000_000}[shard_size]
    assert len(shards) >= total // (2 * most), "a document more, and what it takes"
    assert max(file.stat().st_size for file in shards) < 1.2 * most + 4000


@pytest.mark.parametrize(
    ("dtype", "compression"),
    [
        *zip(
            ["uint8", "int16", "uint16", "uint32"],
            itertools.cycle(get_args(Compression)),
            strict=False,
        )
    ],
)
def test_parquet_is_written_as_is_said(tmp_path, dtype, compression):
    # Enough tokens for a dictionary. The last token of uint32 is beyond it.
    rng = np.random.default_rng(0)
    most = min(np.iinfo(dtype).max, 1 << 17)
    tokens = rng.integers(0, most, 5_000_000).astype(dtype)
    tokens[-1] = min(np.iinfo(dtype).max, 1 << 31)
    offsets = np.arange(0, len(tokens) + 1, 1000)
    lists = pa.LargeListArray.from_arrays(offsets, tokens)
    pq.write_table(pa.table({"input_ids": lists}), tmp_path / "a.parquet")
    source = pf.parquet(tmp_path / "a.parquet", column="input_ids")
    done = pf.convert(
        source,
        tmp_path / "out",
        to="parquet",
        dtype=dtype,
        compression=compression,
        page_size="40kB",
    )
    [file] = done.files
    table = pq.read_table(file)
    assert table.schema.field("input_ids").type.value_type == pa.from_numpy_dtype(dtype)
    found = table.column("input_ids").combine_chunks()
    assert np.array_equal(found.values.to_numpy(), tokens)
    assert np.array_equal(found.offsets.to_numpy(), offsets)
    chunk = pq.read_metadata(file).row_group(0).column(0)
    codec = {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert chunk.compression == codec
    width = {"uint32": 3}.get(dtype, 2)
    held = width * len(tokens) + (1 << 20) * (width == 3) + (1 << 18) * (width == 2)
    assert chunk.total_uncompressed_size < 1.02 * held
    read = pf.parquet(done.files, column="input_ids")
    assert len(read.index) == pytest.approx(len(tokens) * 4 / 40_000, rel=0.25)
    loader = pf.Loader(
        read, sequences=pf.Windows(1000), batch_size=100, epochs=1, rank=0, world_size=1
    )
    batches = np.concatenate([batch["input_ids"] for batch in loader])
    order = np.lexsort(batches.T[:8])
    rows = tokens.astype(np.int64).reshape(-1, 1000)
    assert np.array_equal(batches[order], rows[np.lexsort(rows.T[:8])])


def test_tokens_of_64_bits_become_32_in_parquet(tmp_path):
    for name, last in (("a", 3), ("b", 1 << 32)):
        rows = pa.array([[1, 2], [last]], pa.list_(pa.int64()))
        pq.write_table(pa.table({"input_ids": rows}), tmp_path / f"{name}.parquet")
    source = pf.parquet(tmp_path / "a.parquet", column="input_ids")
    done = pf.convert(source, tmp_path / "out", to="parquet")
    assert done.dtype == "uint32"
    assert documents_of(pf.parquet(done.files, column="input_ids")) == [[1, 2], [3]]
    with pytest.raises(errors.InvalidArgumentError, match="give dtype='uint32'"):
        pf.convert(source, tmp_path / "wide", to="parquet", dtype="int64")
    source = pf.parquet(tmp_path / "b.parquet", column="input_ids")
    with pytest.raises(errors.TokenRangeError, match="4294967296"):
        pf.convert(source, tmp_path / "beyond", to="parquet")


def test_settings_of_parquet_alone(source, tmp_path, capsys):
    for given in ({"compression": "none"}, {"page_size": "1MiB"}):
        with pytest.raises(errors.InvalidArgumentError, match="has no pages"):
            pf.convert(source, tmp_path / "a", to="stream", **given)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="snappy"):
        pf.convert(source, tmp_path / "a", to="parquet", compression="snapy")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="page_size"):
        pf.convert(source, tmp_path / "a", to="parquet", page_size="much")
    assert not list(tmp_path.iterdir())
    command = ["convert", *source.files, "--to", "parquet", "--output"]
    command += [str(tmp_path / "a"), "--compression", "none", "--page-size", "8KiB"]
    assert main(command) == 0
    capsys.readouterr()
    settings = json.loads((tmp_path / "a" / "_manifest.json").read_text())["settings"]
    assert (settings["compression"], settings["page_bytes"]) == ("none", 8192)


def test_parts_and_separators(source, tmp_path):
    part = source.where("part == 1")
    done = pf.convert(part, tmp_path / "a.bin", to="raw", dtype="uint32", eos=70_000)
    expected = [[*each, 70_000] for each in DOCUMENTS[1::3]]
    found = pf.tokens(tmp_path / "a.bin", dtype="uint32", eos=70_000)
    assert documents_of(found) == expected
    assert done.num_tokens == sum(map(len, expected))


def test_empty_and_null_documents(tmp_path):
    rows = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    source = pf.parquet(tmp_path / "a.parquet", column="input_ids")
    for to in ("stream", "megatron", "parquet"):
        done = pf.convert(source, tmp_path / to, to=to)
        assert documents_of(opened(to, list(done.files))) == [[1, 2], [], [], [3]]
        assert (done.num_documents, done.num_left_out) == (4, 0)


def test_documents_that_mds_cannot_hold_are_counted(tmp_path, capsys):
    rows = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    source = pf.parquet(tmp_path / "a.parquet", column="input_ids")
    done = pf.convert(source, tmp_path / "mds", to="mds")
    assert (done.num_documents, done.num_left_out) == (2, 2)
    assert documents_of(pf.mds(tmp_path / "mds")) == [[1, 2], [3]]
    ended = pf.convert(source, tmp_path / "ended", to="mds", eos=9)
    assert (ended.num_documents, ended.num_left_out) == (4, 0)
    assert documents_of(pf.mds(tmp_path / "ended")) == [[1, 2, 9], [9], [9], [3, 9]]
    command = ["convert", str(tmp_path / "a.parquet"), "--to", "mds"]
    assert main([*command, "--output", str(tmp_path / "again")]) == 0
    said = capsys.readouterr().out
    assert "2 documents of 3 tokens" in said
    assert "2 documents without tokens left out" in said


@pytest.mark.parametrize("name", ["input_ids", "tokens"])
def test_shards_of_either_name_open(name, source, tmp_path):
    pf.convert(source, tmp_path / "mds", to="mds", column=name)
    found = pf.mds(tmp_path / "mds")
    assert found.column == name
    assert documents_of(found) == DOCUMENTS


def test_what_is_refused(source, tmp_path):
    with pytest.raises(errors.TokenRangeError, match="wider dtype"):
        pf.convert(source, tmp_path / "a", to="stream", dtype="uint8")
    with pytest.raises(errors.InvalidArgumentError, match="written by Megatron"):
        pf.convert(source, tmp_path / "a", to="megatron", dtype="uint32")
    with pytest.raises(errors.InvalidArgumentError, match="not a type of tokens"):
        pf.convert(source, tmp_path / "a", to="raw", dtype="float32")
    with pytest.raises(errors.InvalidArgumentError, match="to="):
        pf.convert(source, tmp_path / "a", to="csv")  # type: ignore[arg-type]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("to", TOKEN_FORMATS)
def test_the_verb(source, tmp_path, capsys, to):
    sign = TOKEN_FORMATS[to].writer.signs[0]
    output = str(tmp_path / "out") + sign * sign.startswith(".")
    command = ["convert", *source.files, "--to", to, "--output", output, "--json"]
    assert main([*command, "--dtype", "uint16"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["num_documents"] == len(DOCUMENTS)
    back = ["convert", *done["files"], "--to", "parquet", "--output", f"{output}-back"]
    extra = {
        "raw": ["--from", "raw", "--in-dtype", "uint16", "--in-eos", "0"],
        "npy": ["--in-eos", "0"],
        "guideloom": ["--in-dtype", "token:uint16,document:int32"],
    }
    extra["guideloom"] += ["--in-document", "document"]
    assert main([*back, *extra.get(to, [])]) == 0
    assert f"{len(DOCUMENTS)} documents" in capsys.readouterr().out
    again = pf.parquet(f"{output}-back", column="input_ids")
    assert documents_of(again) == DOCUMENTS


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("to", TOKEN_FORMATS)
def test_an_output_that_is_there_is_refused_before_anything_is_opened(
    source, tmp_path, to
):
    done = pf.convert(source, tmp_path / "a", to=to, dtype="uint16")
    before = contents(tmp_path)
    assert before
    dataset = opened(to, list(done.files))
    with pytest.raises(errors.InvalidArgumentError, match="is there already"):
        pf.convert(dataset, tmp_path / "a", to=to)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("to", ["raw", "npy"])
def test_a_folder_is_no_file(source, tmp_path, to):
    (tmp_path / "a").mkdir()
    with pytest.raises(errors.FileAccessError, match="is a folder"):
        pf.convert(source, tmp_path / "a", to=to)
    assert contents(tmp_path) == {}


def test_texts_are_refused_before_anything_is_opened(tmp_path):
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    texts = pf.parquet(tmp_path / "a.parquet", column="text")
    with pytest.raises(errors.UnsupportedError, match="tokenize it first"):
        pf.convert(texts, tmp_path / "out", to="mds", dtype="uint16")
    assert not (tmp_path / "out").exists()


def test_formats_are_named_in_one_place():
    assert get_args(FlatName) == tuple(FLAT_FORMATS)
    assert ("parquet", *get_args(FlatName)) == tuple(TOKEN_FORMATS)
    assert set(FLAT_FORMATS) <= set(flat_files.KINDS)
    [to] = [get_type_hints(pf.convert)["to"]]
    assert {name for part in get_args(to) for name in get_args(part) or (part,)} == set(
        TOKEN_FORMATS
    )
    guide = (ROOT / "docs/reference/formats.md").read_text()
    for name, (reader, writer) in TOKEN_FORMATS.items():
        assert unwrap(getattr(pf, reader.__name__)) is unwrap(reader)
        assert f"`{name}`" in guide
        assert name == "parquet" or f"| `pf.{reader.__name__}(" in guide
        assert writer.signs


def test_arguments_that_a_format_does_not_take(source, tmp_path, capsys):
    pf.convert(source, tmp_path / "s", to="stream")
    command = ["convert", f"{tmp_path}/s", "--to", "raw", "--output", f"{tmp_path}/a"]
    assert main([*command, "--in-eos", "0"]) == 2
    told = capsys.readouterr().err
    assert "--in-eos is for npy, raw" in told
    assert "is stream" in told
    assert main([*command, "--where", "part == 2"]) == 2
    assert "only Parquet has them" in capsys.readouterr().err


def test_the_format_that_is_said_counts(tmp_path, capsys):
    np.arange(99, dtype="<u4").tofile(tmp_path / "tokens")
    paths = [f"{tmp_path}/tokens", "--from", "raw", "--in-dtype", "uint32"]
    output = ["--column", "ids", "--to", "parquet", "--output", f"{tmp_path}/out"]
    assert main(["convert", *paths, *output, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    back = pf.parquet(tmp_path / "out", column="ids")
    assert back.index.num_values == 99
