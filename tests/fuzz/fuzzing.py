"""Seeds of the fuzzer, the cases drawn from them, and the processes that read them."""

import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from made_files import made
from mutate_files import MUTATIONS
from saved_files import Saved, write_damaged

HERE = Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
ROWS = 24
MADE = 0.2
"""Share of files that are made from nothing."""
SAVED = 0.1
"""Share of cases that are a damaged file of a cache folder."""
TOKENS = ("tokens", "fixed", "number")
BROKEN = (LookupError, ValueError, TypeError, OverflowError, struct.error)
"""What taking apart a file that is broken already may raise."""


class Finding(NamedTuple):
    """A file that was neither read nor refused as it should be."""

    name: str
    outcome: str
    data: bytes
    job: dict[str, Any]


@dataclass
class Case:
    """A mutated file, and how to read it."""

    name: str
    path: Path
    data: bytes
    job: dict[str, Any] = field(default_factory=dict)


def case_of(here: dict[str, bytes], draw: random.Random, folder: Path) -> Case:
    """Draw a seed and mutate it, once or twice."""
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
        "column": column,
        "sequences": draw.choice(ways),
        "options": {"page_index": draw.random() < 0.7},
    }
    return Case(f"{'-'.join(kinds) or 'bytes'}-{name}", path, data, job)


def saved_case(saved: Saved, draw: random.Random, folder: Path) -> Case:
    """Draw a file of a cache folder, and damage it."""
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    kind, path, data = write_damaged(saved, cache, draw)
    job = {"cache": str(cache), "digest": saved.digest, "damaged": str(path)}
    return Case(f"saved-{kind}", path, data, job)


class Child:
    """A process that reads files, started anew when one of them ends it."""

    def __init__(self, memory: int, timeout: float) -> None:
        self.memory, self.timeout = memory, timeout
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  kept open

    def started(self) -> "subprocess.Popen[str]":
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "child.py"), str(self.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
            )
            assert self.process.stdout is not None
            assert self.process.stdout.readline() == "\n", "it did not start"
        return self.process

    def run(self, case: Case) -> str:
        """What came of it: "" if it was read, or refused by a typed error."""
        process = self.started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"path": str(case.path)} | case.job) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.timeout)
        printed = process.stdout.readline() if ready else ""
        if printed:
            outcome: str = json.loads(printed)
            return outcome
        end = f"died ({process.wait()})" if ready else "hung"
        self.close()
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 300))
        return f"{end}: {self.errors.read()}"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


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
