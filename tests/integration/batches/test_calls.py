"""A batch costs the consumer's thread few calls of Python, planning included."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf

FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens")
STEPS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls")
    chance = np.random.default_rng(1)
    for number in range(4):
        ends = np.cumsum(chance.integers(1, 600, 1500))
        tokens = chance.integers(0, 30_000, ends[-1]).astype(np.uint16)
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
        table = pa.table({"input_ids": rows})
        pq.write_table(table, path / f"{number}.parquet", row_group_size=100)
    return path


def calls_of_batches(folder: Path, **settings: Any) -> tuple[float, Counter[str]]:
    data = pf.parquet(folder, column="input_ids")
    loader = pf.Loader(data, batch_size=64, epochs=None, num_threads=1, **settings)
    batches = iter(loader)
    for _ in range(50):
        next(batches)
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        for _ in range(STEPS):
            next(batches)
    finally:
        sys.setprofile(None)
    return sum(calls.values()) / STEPS, calls


@pytest.mark.parametrize(
    ("most", "settings"),
    [
        (12, {"sequences": pf.Windows(32)}),
        (12, {"sequences": pf.Windows(32), "shuffle": "row"}),
        (16, {"sequences": pf.Packed(512, eos=1), "fields": FIELDS}),
    ],
    ids=["page", "row", "fields"],
)
def test_a_batch_takes_few_calls(folder, most, settings):
    each, calls = calls_of_batches(folder, **settings)
    assert each <= most, calls.most_common(20)


def test_a_batch_between_plans_takes_seven_calls_and_one_of_the_engine(folder):
    """Waits are noted and watched meanwhile."""
    data = pf.parquet(folder, column="input_ids")
    loader = pf.Loader(data, sequences=pf.Windows(32), batch_size=64, epochs=None)
    batches, each = iter(loader), list[tuple[int, int]]()
    for _ in range(50):
        next(batches)
    calls: Counter[str] = Counter()

    def count(_: Any, event: str, called: Any) -> None:
        is_native = event == "c_call" and type(called.__self__).__name__ == "Engine"
        calls["native" if is_native else event] += 1

    for _ in range(STEPS):
        calls.clear()
        sys.setprofile(count)
        next(batches)
        sys.setprofile(None)
        each.append((calls["call"], calls["native"]))
    assert Counter(each).most_common(1)[0][0] == (7, 1)
