"""Flat token files of any documents, written by hand or by pagefeed's own writer."""

import json
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pagefeed as pf
from pagefeed.prepare import TOKEN_FORMATS

Documents = Sequence[Sequence[int]]
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_megatron(prefix, documents: Documents, dtype="uint16", sequences=None):
    """Megatron's two files, byte by byte; `sequences` are the lengths inside each."""
    tokens = np.array([token for each in documents for token in each], dtype)
    tokens.tofile(f"{prefix}.bin")
    inside = sequences or [[len(document)] for document in documents]
    lengths = np.array([length for each in inside for length in each], np.int32)
    starts = (np.cumsum(lengths) - lengths) * tokens.itemsize
    borders = np.cumsum([0, *map(len, inside)])
    head = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, CODES[dtype])
    head += struct.pack("<QQ", len(lengths), len(borders))
    arrays = lengths, starts.astype(np.int64), borders.astype(np.int64)
    Path(f"{prefix}.idx").write_bytes(head + b"".join(a.tobytes() for a in arrays))
    return prefix


def write_mds(folder, documents: Documents, dtype="uint16", shards=1):
    """MDS shards of two columns, byte by byte; their samples are in no way aligned."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    listed = []
    for number, some in enumerate(np.array_split(np.arange(len(documents)), shards)):
        samples = []
        for row in some.tolist():
            array = np.array(documents[row], dtype)
            value = (
                bytes([1 << 2 | 2]) + struct.pack("<I", len(array)) + array.tobytes()
            )
            text = b"x" * (row % 5)
            samples.append(struct.pack("<II", len(text), len(value)) + text + value)
        config = b'{"some": "config"}'
        begins = (
            np.cumsum([0, *map(len, samples)]) + 4 * (len(samples) + 2) + len(config)
        )
        head = np.uint32(len(samples)).tobytes() + begins.astype(np.uint32).tobytes()
        name = f"shard.{number:05}.mds"
        data = head + config + b"".join(samples)
        (Path(folder) / name).write_bytes(data)
        listed.append(
            {
                "format": "mds",
                "version": 2,
                "samples": len(samples),
                "column_names": ["text", "tokens"],
                "column_encodings": ["str", f"ndarray:{dtype}"],
                "column_sizes": [None, None],
                "raw_data": {"basename": name, "bytes": len(data), "hashes": {}},
                "zip_data": None,
                "compression": None,
                "hashes": [],
                "size_limit": None,
            }
        )
    index = {"version": 2, "shards": listed}
    (Path(folder) / "index.json").write_text(json.dumps(index))
    return folder


def write_stream(folder, documents: Documents, dtype="uint16", shards=1):
    """Shards of a stream, with a number beside the tokens if `dtype` has one."""
    cuts = np.array_split(np.arange(len(documents)), shards)
    for number, some in enumerate(cuts):
        kind = np.dtype(dtype)
        with pf.StreamWriter(f"{folder}/{number:03}", dtype=dtype) as out:
            for row in some.tolist():
                tokens = documents[row]
                beside = {
                    name: np.array(tokens, float)
                    for name in kind.names or ()
                    if name != "token"
                }
                out.append(np.array(tokens, np.int64), **beside)
    return folder


def raw(folder, documents: Documents, dtype="uint16") -> pf.dataset.FlatDataset:
    """A raw file whose documents are known from their last token, which is 0."""
    assert all(document[-1] == 0 and 0 not in document[:-1] for document in documents)
    path = Path(folder) / "tokens.bin"
    np.array([t for each in documents for t in each], dtype).tofile(path)
    return pf.tokens(path, dtype=dtype, eos=0)


def npy(folder, documents: Documents, dtype="int32") -> pf.dataset.FlatDataset:
    """The same, as NumPy writes it."""
    path = Path(folder) / "tokens.npy"
    np.save(path, np.array([t for each in documents for t in each], dtype))
    return pf.tokens(path, eos=0)


def megatron(folder, documents: Documents, dtype="uint16") -> pf.dataset.FlatDataset:
    """A Megatron dataset of these documents."""
    return pf.megatron(
        write_megatron(Path(folder) / "corpus_text_document", documents, dtype)
    )


def mds(folder, documents: Documents, dtype="uint16") -> pf.dataset.FlatDataset:
    """MDS shards of these documents."""
    shards = min(3, len(documents))
    return pf.mds(write_mds(Path(folder) / "mds", documents, dtype, shards))


def stream(folder, documents: Documents, dtype="uint16") -> pf.dataset.FlatDataset:
    """A stream of tokens alone, in several shards."""
    shards = min(3, len(documents))
    return pf.stream(write_stream(Path(folder) / "stream", documents, dtype, shards))


def guideloom(folder, documents: Documents, dtype="uint16") -> pf.dataset.FlatDataset:
    """Shards whose records have a token and a number of its document."""
    record = np.dtype([("token", dtype), ("document", "<i4")])
    (Path(folder) / "loom").mkdir()
    cuts = np.array_split(np.arange(len(documents)), min(3, len(documents)))
    for number, some in enumerate(cuts):
        rows = [(token, row) for row in some.tolist() for token in documents[row]]
        name = Path(folder) / "loom" / f"{number:07}.in_band.bin"
        np.array(rows, record).tofile(name)
    return pf.guideloom(Path(folder) / "loom", dtype=record, document="document")


def records(folder, documents: Documents) -> pf.dataset.FlatDataset:
    """A stream with a number beside every token."""
    dtype = [("weight", "f4"), ("token", "u4")]
    return pf.stream(write_stream(Path(folder) / "records", documents, dtype))


def arrow(
    folder, documents: Documents, dtype="uint16", compression=None
) -> pf.dataset.ArrowDataset:
    """Streams of Arrow of small record batches, in several files."""
    folder = Path(folder) / f"{compression or ''}arrow"
    folder.mkdir(parents=True, exist_ok=True)
    shards = min(3, len(documents))
    for number, some in enumerate(np.array_split(np.arange(len(documents)), shards)):
        write_arrow(
            folder / f"{number}.arrow",
            {"input_ids": [[*documents[row]] for row in some.tolist()]},
            {"input_ids": pa.list_(getattr(pa, dtype)())},
            compression=compression,
        )
    return pf.arrow(folder, column="input_ids")


def write_arrow(path, columns, kinds, rows_each=37, make=None, compression=None):
    """A file of Arrow: a stream, or as another writer of pyarrow makes it."""
    arrays = {name: pa.array(rows, kinds.get(name)) for name, rows in columns.items()}
    table = pa.table(arrays)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (make or pa.ipc.new_stream)(path, table.schema, options=options) as out:
        out.write_table(table, max_chunksize=rows_each)
    return path


def own_rows(folder, documents: Documents) -> pf.dataset.RowDataset:  # noqa: ARG001
    """Rows of a list."""
    given = [{"input_ids": [*document]} for document in documents]
    return pf.rows(given, column="input_ids", name="documents")


KINDS: dict[str, Callable[[Path, Documents], Any]] = {
    "raw": raw,
    "npy": npy,
    "megatron": megatron,
    "mds": mds,
    "stream": stream,
    "guideloom": guideloom,
    "records": records,
    "arrow": arrow,
    "compressed arrow": partial(arrow, compression="zstd"),
    "own rows": own_rows,
}
"""Writers of each format, into a folder that they may share."""


def opened(name: str, paths: Any, dtype: str = "uint16", **settings: Any) -> Any:
    """Files in a format of ``convert`` as a dataset, told what they do not say."""
    told: dict[str, dict[str, Any]] = {
        "parquet": {"column": "input_ids"},
        "raw": {"dtype": dtype, "eos": 0},
        "npy": {"eos": 0},
        "guideloom": {
            "dtype": [("token", dtype), ("document", "i4")],
            "document": "document",
        },
    }
    return TOKEN_FORMATS[name].reader(paths, **told.get(name, {}) | settings)


def some_documents(num_documents=300, seed=3, longest=2000) -> list[list[int]]:
    """Documents of varied lengths, whose last token alone is 0."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.lognormal(4, 1.5, num_documents).astype(int), longest)
    return [[*rng.integers(1, 60_000, length).tolist(), 0] for length in lengths]
