"""Flat files that are refused by name, and bytes of files changed."""

from pathlib import Path

import pytest

import pagefeed as pf
from pagefeed import errors


def drained(dataset: pf.dataset.FlatDataset) -> int:
    """Read all of it, as a loader does."""
    feed = pf.Loader(
        dataset,
        sequences=pf.Windows(64, "drop"),
        batch_size=2,
        seed=1,
        rank=0,
        world_size=1,
    )
    return sum(int(batch["input_ids"].sum()) for batch in feed)


def refused(kind: type[errors.PagefeedError], match: str, open_dataset, path) -> None:
    with pytest.raises(kind, match=match) as caught:
        drained(open_dataset())
    assert caught.value.file == str(path)


def truncate(path: Path, num_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:-num_bytes])


def change(path: Path, offset: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)
