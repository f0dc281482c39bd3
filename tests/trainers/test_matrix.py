"""Every adapter begins and goes on as a plain loop does, on every rank."""

import importlib
import itertools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainers.running import EPOCH, flat, make_loader, run_job

STEPS, LEFT = 14, 8
ADAPTERS = ("accelerate", "lightning", "transformers")
NAMES = {"transformers": "the Trainer"}


@pytest.fixture(scope="module")
def adapter():
    """The one whose environment this is."""
    name = Path(sys.prefix).name
    if name not in ADAPTERS:
        pytest.skip(f"make test-trainers ARGS={ADAPTERS[0]}")
    importlib.import_module(name)
    return name


@pytest.fixture(scope="module")
def seen(folder, adapter):
    return run_job("matrix", folder, world_size=2, adapter=adapter)


@pytest.fixture(scope="module")
def epochs(folder):
    """First tokens of each rank's steps, by epochs of a plain loop."""
    found = []
    for rank in range(2):
        loader = make_loader(folder, rank=rank, world_size=2)
        found.append(
            [[batch["input_ids"][:, 0].tolist() for batch in loader] for _ in range(7)]
        )
    return found


@pytest.mark.parametrize(
    ("case", "first", "behind", "steps"),
    [
        ("fresh", 0, 0, 28),
        ("second", 2, 0, 28),
        ("another", 4, 0, 28),
        ("peeked", 0, 0, 28),
        ("interrupted", 0, 0, 4),
        ("after it", 0, 0, 28),
        ("middle", 0, 6, 22),
        ("end", 0, 14, 14),
    ],
)
def test_a_run_sees_what_a_plain_loop_does(seen, epochs, case, first, behind, steps):
    for one, plain in zip(seen, epochs, strict=True):
        expected = list(itertools.chain(*plain[first:]))[behind:][:steps]
        found = one[case]["seen"][:steps] if steps == 4 else one[case]["seen"]
        assert found == expected


def test_a_state_or_here_place_a_run(seen, epochs, adapter):
    # A trainer that counts runs all its steps, a loop the epochs.
    steps = 22 if adapter == "accelerate" else 28
    for one, plain in zip(seen, epochs, strict=True):
        rows = list(itertools.chain(*plain))
        assert one["loaded"]["seen"] == rows[6:][:steps]
        assert one["here"]["seen"][:LEFT] == rows[2 * STEPS + 3 :][:LEFT]


def test_a_run_says_where_it_begins(seen, adapter):
    who = NAMES.get(adapter, adapter.title())
    begins = {
        "fresh": "epoch 0, step 0 of 14, 112 sequences left, on 2 rank(s), checkpoint: "
        "none",
        "second": "epoch 2, step 0 of 14, 112 sequences left, on 2 rank(s)",
        "peeked": "epoch 0, step 0 of 14, 112 sequences left, on 2 rank(s)",
        "loaded": "epoch 0, step 6 of 14, 64 sequences left, on 2 rank(s), "
        "checkpoint: a state that was loaded",
        "middle": "epoch 0, step 6 of 14, 64 sequences left, on 2 rank(s), checkpoint: "
        f"{who}'s",
    }
    for case, text in begins.items():
        if adapter == "accelerate" and case == "second":
            continue  # A loop of one's own is one run.
        [line] = seen[0][case]["told"]
        assert line.startswith(f"{who} begins at {text}")
    assert not seen[1]["fresh"]["told"]


def test_another_world_size_sees_what_is_left(seen, folder, adapter):
    [alone] = run_job(
        "matrix",
        folder,
        world_size=1,
        adapter=adapter,
        resume="6",
        max_steps=6 + 16,
    )
    before = [row for one in seen for row in flat(one["fresh"]["seen"][:6])]
    rest = flat(alone["alone"])[: len(EPOCH) - len(before)]
    assert sorted(before + rest) == EPOCH


@pytest.fixture(scope="module")
def evaluated(folder, adapter):
    """Losses of documents that have few labels, or none, and of others."""
    rng = np.random.default_rng(1)
    (folder / "held-out").mkdir()
    for number, (name, share) in enumerate((("many", 0.9), ("few", 0.1))):
        lengths = rng.integers(3, 60, 31 + number)
        ids = [rng.integers(1, 4000, length) for length in lengths]
        labels = [np.where(rng.random(len(row)) < share, row, -100) for row in ids]
        labels[0][:] = -100
        table = {"input_ids": ids, "labels": labels}
        columns = {key: [row.tolist() for row in table[key]] for key in table}
        pq.write_table(pa.table(columns), folder / "held-out" / f"{name}.parquet")
    return run_job("evaluation", folder, world_size=2, adapter=adapter)


def test_losses_are_exact_means_over_tokens(evaluated):
    for one in evaluated:
        exact, found = one["exact"], one["found"]
        for name in ("many", "few"):
            assert found[name] == pytest.approx(exact[name], rel=1e-6)
            assert found[f"mixed {name}"] == pytest.approx(exact[name], rel=1e-6)
        assert found["mixed"] == pytest.approx(exact["both"], rel=1e-6)
        assert found["again"] == found["few"]
        assert found.get("as dataset", found["few"]) == pytest.approx(exact["few"])


def test_every_row_is_gathered_once(evaluated, adapter):
    if adapter == "lightning":
        pytest.skip("Lightning gathers no rows")
    for one in evaluated:
        assert one["exact"]["rows"] % 6, "without padding there is nothing to drop"
        assert one["found"]["rows"] == one["exact"]["rows"]
