"""What batches of flat files cost in calls of the system, counted by the system."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagefeed as pf

LENGTH = 2048
WINDOWS = 320
COUNTS = Path("/proc/self/io")


def write(folder: Path, dtype: Any) -> pf.dataset.StreamDataset:
    """Two shards of documents of many lengths, whole windows together."""
    rng = np.random.default_rng(1)
    tokens = np.arange(WINDOWS * LENGTH) % 60_000
    parts = np.split(tokens, np.sort(rng.integers(0, len(tokens), 400)))
    for shard in range(2):
        with pf.StreamWriter(folder / str(shard), dtype=dtype) as out:
            for part in parts[shard::2]:
                beside = {"weight": part / 2} if np.dtype(dtype).names else {}
                out.append(part, **beside)
    return pf.stream(folder, aligned=["weight"] if np.dtype(dtype).names else [])


def read_calls() -> int:
    """Calls of the system by which this process read so far."""
    lines = COUNTS.read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


@pytest.mark.skipif(not COUNTS.exists(), reason="the system counts no calls")
@pytest.mark.parametrize("dtype", ["u2", [("weight", "f4"), ("token", "u4")]])
@pytest.mark.parametrize("shuffle", [None, "row", "page"])
def test_a_window_is_one_read_and_neighbours_are_one(tmp_path, dtype, shuffle):
    dataset = write(tmp_path, dtype)
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(LENGTH),
        batch_size=32,
        shuffle=shuffle,
        seed=1,
        rank=0,
        world_size=1,
    )
    batches = iter(loader)
    before = read_calls()
    first = next(batches)
    num_batches = 1 + sum(1 for _ in batches)
    calls = read_calls() - before
    assert num_batches * 32 == WINDOWS
    assert ("weight" in first) == (dtype != "u2")
    stats = loader.stats()
    size = np.dtype(dtype).itemsize
    # At most one for each window, and one where it goes on in the next shard.
    most = WINDOWS + 1 if shuffle else num_batches + 1
    assert stats["slices_read"] <= most
    assert stats["pages_loaded"] == 0
    gaps = 4096 * stats["slices_read"]
    assert WINDOWS * LENGTH * size <= stats["bytes_read"]
    assert stats["bytes_read"] <= WINDOWS * LENGTH * size + gaps
    # What else the process reads meanwhile is little.
    assert calls <= most + 50


@pytest.mark.skipif(not COUNTS.exists(), reason="the system counts no calls")
@pytest.mark.parametrize("shuffle", [None, "row"])
def test_spans_of_a_window_are_two_reads_more(tmp_path, shuffle):
    tokens = np.arange(WINDOWS * LENGTH) % 60_000
    for shard in range(2):
        path = tmp_path / str(shard)
        with pf.StreamWriter(path, dtype="u2", serialize="bytes") as out:
            for part in np.split(tokens, 64)[shard::2]:
                places = range(0, len(part) - 9, 10)
                # More of them than what lies between neighbours is read with them.
                out.append(part, spans=[(at, at + 9, bytes(60)) for at in places])
    loader = pf.Loader(
        pf.stream(tmp_path),
        sequences=pf.Windows(LENGTH),
        batch_size=32,
        shuffle=shuffle,
        seed=1,
        rank=0,
        world_size=1,
        fields=("input_ids", "metadata"),
    )
    batches = iter(loader)
    before = read_calls()
    found = sum(len(span) for batch in batches for span in batch["metadata"]["spans"])
    calls = read_calls() - before
    stats = loader.stats()
    # A span over the end of a window is in both.
    num_spans = 64 * len(range(0, WINDOWS * LENGTH // 64 - 9, 10))
    assert num_spans <= found <= num_spans + WINDOWS
    most = WINDOWS + 1 if shuffle else WINDOWS // 32 + 1
    for name in ("slices_read", "index_reads", "payload_reads"):
        assert 0 < stats[name] <= most
    assert stats["pages_loaded"] == 0
    assert calls <= 3 * most + 50
