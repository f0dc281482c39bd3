"""Metadata of tables with bits flipped, or cut off: typed errors, and no row less."""

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import pagefeed as pf
from made.tables import (
    data_files,
    delete_from_delta,
    delete_from_iceberg,
    rows_table,
    write_delta,
    write_iceberg,
)
from pagefeed.errors import PagefeedError

GONE = [1, 4]


def delta(folder: Path) -> tuple[Any, dict[str, list[Path]]]:
    """A table of a checkpoint and a vector, and its files by what they are."""
    write_delta(folder, [rows_table(0, 10), rows_table(10, 20)])
    DeltaTable(folder).create_checkpoint()
    [first, _] = DeltaTable(folder).get_add_actions()["path"].to_pylist()
    delete_from_delta(folder, {first: GONE}, "u")
    log = folder / "_delta_log"
    return lambda: pf.delta(folder, column="tokens", metadata=["id"]), {
        "checkpoint": [*log.glob("*.checkpoint.parquet")],
        "commit": [log / f"{2:020}.json"],
        "vectors": [*folder.glob("deletion_vector_*.bin")],
    }


def iceberg(folder: Path) -> tuple[Any, dict[str, list[Path]]]:
    """A table with a Puffin file, and its files by what they are."""
    made = write_iceberg(folder, [rows_table(0, 10), rows_table(10, 20)])
    metadata = delete_from_iceberg(made, [(data_files(made)[0], GONE)], "vectors")
    inside = Path(metadata).parent
    lists = {*inside.glob("snap-*.avro"), *inside.glob("*-list.avro")}
    return lambda: pf.iceberg(metadata, column="tokens", metadata=["id"]), {
        "metadata": [Path(metadata)],
        "list": [*inside.glob("*-list.avro")],
        "manifest": sorted({*inside.glob("*.avro")} - lists),
        "vectors": [*inside.glob("*.puffin")],
    }


def read(opened: Any) -> list[Any] | None:
    """Rows of a table; None if it is refused by a typed error."""
    try:
        return sorted((row["id"], *row["tokens"]) for row in opened())
    except PagefeedError:
        return None


@pytest.mark.parametrize(
    ("make", "kind", "is_summed"),
    [
        (delta, "checkpoint", False),
        (delta, "commit", False),
        (delta, "vectors", True),
        (iceberg, "metadata", False),
        (iceberg, "list", False),
        (iceberg, "manifest", False),
        (iceberg, "vectors", True),
    ],
)
def test_damaged_metadata(tmp_path, make, kind, is_summed):
    """What is cut off is refused; what has a checksum is refused or harmless."""
    chance = random.Random(7)
    opened, files = make(tmp_path)
    good = read(opened)
    assert good is not None
    assert len(good) == 18
    assert files[kind]
    for path in files[kind][:2]:
        stored = path.read_bytes()
        cuts = {0, 1, 4, *(chance.randrange(len(stored) // 2) for _ in range(3))}
        for cut in cuts:
            path.write_bytes(stored[:cut])
            assert read(opened) in (None, good), cut
        for _ in range(8):
            flipped = bytearray(stored)
            flipped[chance.randrange(len(stored))] ^= 1 << chance.randrange(8)
            path.write_bytes(flipped)
            rows = read(opened)
            assert not is_summed or rows in (None, good)
        path.write_bytes(stored)
    assert read(opened) == good
