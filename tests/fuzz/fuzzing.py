"""Cases of the fuzzer: mutated files of Parquet, of other formats, of cache folders."""

import random
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from made_files import made
from parquet_mutations import MUTATIONS
from subjects import Subject

HERE = Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
ROWS = 24
MADE = 0.2
"""Share of files that are made from nothing."""
TOKENS = ("tokens", "fixed", "number")
BROKEN = (LookupError, ValueError, TypeError, OverflowError, struct.error)
"""What taking apart a file that is broken already may raise."""


class Case(NamedTuple):
    """A mutated file, and how to read it."""

    name: str
    path: Path
    data: bytes
    job: dict[str, Any]


def subject_case(
    name: str, subject: Subject, draw: random.Random | None, folder: Path
) -> Case:
    """Damage one file of a subject; none without draws."""
    folder = folder / "files"
    shutil.rmtree(folder, ignore_errors=True)
    kind, damaged, data = "sound", *next(iter(subject.files.items()))
    if draw is not None:
        kind, damaged, data = subject.damaged(draw)
    for one, sound in subject.files.items():
        path = folder / one
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if one == damaged else sound)
    is_cut = kind.endswith("cut") and subject.has_end and data != subject.files[damaged]
    job = {"read": [subject.read], "folder": str(folder), "is_cut": is_cut}
    job |= {"is_sound": draw is None, "damage": kind}
    if draw is not None:
        job["draw"] = draw.random()
    return Case(f"{name}-{kind}", folder / damaged, data, {**job, **subject.options})


def parquet_case(here: dict[str, bytes], draw: random.Random, folder: Path) -> Case:
    """Draw a seed of Parquet and mutate it, once or twice."""
    name, column = draw.choice(sorted(here)), draw.choice(COLUMNS)
    data, kinds = here[name], []
    mutations = draw.choice([1, 1, 1, 2])
    if draw.random() < MADE:
        name, data, kinds = "nothing", made(column, draw), ["made"]
        mutations = draw.choice([0, 0, 0, 1])
    for _ in range(mutations):
        kind = draw.choice(sorted(MUTATIONS))
        try:
            data = MUTATIONS[kind](data, draw)
        except BROKEN:
            continue  # The last mutation left nothing that could be taken apart.
        kinds.append(kind)
    ways = ["windows", "packed", "documents"] if column in TOKENS else ["documents"]
    path = folder / "file.parquet"
    path.write_bytes(data)
    job = {
        "read": ["pages", "batches"],
        "path": str(path),
        "column": column,
        "sequences": draw.choice(ways),
        "options": {"page_index": draw.random() < 0.7},
    }
    return Case(f"parquet-{'-'.join(kinds) or 'bytes'}-{name}", path, data, job)


# The seeds: a file for each encoding, small enough to be looked at.

COLUMNS = ["tokens", "fixed", "text", "word", "number", "chat", "raw"]
ENCODINGS: dict[str, dict[str, str]] = {
    "plain": {},
    "delta": {
        "tokens.list.element": "DELTA_BINARY_PACKED",
        "number": "DELTA_BINARY_PACKED",
        "text": "DELTA_BYTE_ARRAY",
        "word": "DELTA_LENGTH_BYTE_ARRAY",
        "raw": "BYTE_STREAM_SPLIT",
    },
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "plain-index": {
        "use_dictionary": False,
        "write_page_index": True,
        "data_page_version": "2.0",
    },
    "delta": {"use_dictionary": False, "column_encoding": ENCODINGS["delta"]},
    "delta-v2": {
        "use_dictionary": False,
        "column_encoding": ENCODINGS["delta"],
        "data_page_version": "2.0",
        "write_page_index": True,
    },
    "dictionary": {"write_page_index": True},
    "dictionary-v2": {"data_page_version": "2.0"},
    "snappy": {"compression": "snappy"},
    "zstd-v2": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip": {"compression": "gzip", "use_dictionary": False},
    "lz4-index": {"compression": "lz4", "write_page_index": True},
}


def table() -> pa.Table:
    draw = random.Random(7)
    tokens = [
        [draw.randrange(99) for _ in range(draw.randrange(9))] for _ in range(ROWS)
    ]
    words = ["page", "row", "a longer word", "", None]
    return pa.table(
        {
            "tokens": pa.array(tokens, pa.list_(pa.int32())),
            "fixed": pa.array([[n, 7] for n in range(ROWS)], pa.list_(pa.int32(), 2)),
            "text": [f"text {n} {draw.random()}" for n in range(ROWS)],
            "word": [draw.choice(words) for _ in range(ROWS)],
            "number": pa.array(range(ROWS), pa.int64()),
            "chat": [
                [{"role": "user", "content": draw.choice(words)}] * draw.randrange(3)
                for _ in range(ROWS)
            ],
            "raw": pa.array([bytes([n] * 4) for n in range(ROWS)], pa.binary(4)),
        }
    )


def make_seeds() -> None:
    SEEDS.mkdir(exist_ok=True)
    for name, options in KINDS.items():
        pq.write_table(
            table(),
            SEEDS / f"{name}.parquet",
            **{"compression": "none", "write_statistics": False} | options,
            row_group_size=16,
            data_page_size=64,
            write_batch_size=4,
            store_schema=name in ("plain", "dictionary"),
        )


def seeds() -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in SEEDS.glob("*.parquet")}
