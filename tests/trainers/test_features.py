"""Every adapter passes on what a loader does, whichever features that has."""

import shutil
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainers.running import ADAPTERS, run_job

FEATURES = (
    *("balance", "budget", "infilling", "teacher", "table", "erasure", "growth"),
    "policy",
)
OTHER_BUDGET = ("budget", "other size")
CASES = ("fresh", "peeked", "second", "interrupted", "resumed", "other size")
MORE = {
    "accelerate": [("policy", "fresh"), ("policy", "resumed")],
    "deepspeed": [("policy", "peeked")],
    "lightning": [("policy", "second"), ("policy", "interrupted")],
    "megatron": [("budget", "fresh"), ("infilling", "other size")],
    "transformers": [
        *(("policy", "second"), ("policy", "other size"), ("growth", "resumed")),
    ],
}
"""Others end the steps of a policy in loops of their own: test_mixing.py."""
OF_ONE_LENGTH = ("olmo", "torchtitan", "jax")
"""Those that take no steps of a budget."""


def cells_of(adapter):
    """Features and cases: over all adapters every pair of the three occurs."""
    first = ADAPTERS.index(adapter)
    cells = [
        (feature, CASES[(first + number) % len(CASES)])
        for number, feature in enumerate(FEATURES[:-1])
    ]
    if adapter == "megatron":  # It counts samples, of the same data.
        cells.remove(("growth", "resumed"))
    # A run keeps its budget.
    return [cell for cell in cells if cell != OTHER_BUDGET] + MORE.get(adapter, [])


@pytest.fixture(scope="module")
def seen(folder, adapter):
    (folder / "teacher").mkdir()
    for path in (folder / "data").glob("*.parquet"):
        table = pq.read_table(path)
        rows = table["input_ids"].to_pylist()
        ids = [[[token, -token] for token in row] for row in rows]
        column = pa.array(ids, pa.list_(pa.list_(pa.int32(), 2)))
        taught = table.append_column("teacher_ids", column)
        pq.write_table(taught, folder / "teacher" / path.name, row_group_size=20)
    shutil.copytree(folder / "data", folder / "grown")
    rows = pa.array([[3600 + row] * 20 for row in range(40)], pa.list_(pa.int32()))
    more = pa.table({"input_ids": rows})
    pq.write_table(more, folder / "grown" / "part-2.parquet", row_group_size=20)
    cells = cells_of(adapter)
    return run_job("features", folder, world_size=2, adapter=adapter, cells=cells)


@pytest.mark.parametrize(("feature", "case"), [*product(FEATURES, CASES)])
def test_a_run_sees_what_a_plain_loop_does(seen, adapter, feature, case):
    if (feature, case) not in cells_of(adapter):
        pytest.skip("another adapter's")
    for one in seen:
        found = one[f"{feature}, {case}"]
        if feature == "budget" and adapter in OF_ONE_LENGTH:
            assert "InvalidArgumentError" in found["seen"]
            assert "sequences of one length" in found["seen"]
            continue
        assert found["seen"] == found["plain"]
        assert len(found["plain"]) == 20


def test_every_pair_occurs():
    cells = {(name, *cell) for name in ADAPTERS for cell in cells_of(name)}
    assert {cell[1:] for cell in cells} == {*product(FEATURES, CASES)} - {OTHER_BUDGET}
    assert {(name, case) for name, _, case in cells} == {*product(ADAPTERS, CASES)}
