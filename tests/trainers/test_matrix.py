"""Every adapter begins and goes on as a plain loop does, on every rank."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainers.running import EPOCH, flat, make_loader, run_job

STEPS, LEFT = 14, 8
COUNTING = ("lightning", "megatron", "olmo", "torchtitan", "transformers")
"""Trainers that count steps; in others their user's loop counts epochs."""
LOOPS = ("accelerate", "deepspeed", "jax")
EVALUATING = ("accelerate", "lightning", "transformers")
KILLED = ("deepspeed", "megatron", "olmo", "torchtitan")
"""Those whose death is tried here, not in a test of their own."""
ENDLESS = ("megatron", "torchtitan")
NAMES = {
    "transformers": "the Trainer",
    "deepspeed": "DeepSpeed",
    "jax": "JAX",
    "olmo": "OLMo-core",
    "torchtitan": "torchtitan",
}
DEATH, ROWS = 22, 56


@pytest.fixture(scope="module")
def adapter():
    """The one whose environment this is."""
    name = Path(sys.prefix).name
    if name not in COUNTING + LOOPS:
        pytest.skip(f"make test-trainers ARGS={COUNTING[0]}")
    return name


@pytest.fixture(scope="module")
def killed(folder, adapter):
    if adapter not in KILLED:
        pytest.skip("it dies in a test of its own")
    options = {"expect": -9, "die_at": DEATH}
    return run_job("matrix", folder, world_size=2, adapter=adapter, **options)


@pytest.fixture(scope="module")
def seen(folder, adapter, request):
    if adapter in KILLED:
        request.getfixturevalue("killed")
    ids = range(ROWS)
    rows = {"id": ids, "prompt": [f"prompt {number}" for number in ids]}
    (folder / "rows").mkdir()
    pq.write_table(pa.table(rows), folder / "rows" / "rows.parquet", row_group_size=20)
    return run_job("matrix", folder, world_size=2, adapter=adapter)


@pytest.fixture(scope="module")
def sizes(seen, folder, adapter):
    """From a checkpoint of two ranks on one, with as large and smaller batches."""
    assert seen
    options = {"adapter": adapter, "max_steps": 6 + 32}
    [found] = run_job("matrix", folder, world_size=1, **options)
    return found


@pytest.fixture(scope="module")
def epochs(folder):
    """First tokens of each rank's steps, by epochs of a plain loop."""
    found = []
    for rank in range(2):
        loader = make_loader(folder, format="numpy", rank=rank, world_size=2)
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
def test_a_run_sees_what_a_plain_loop_does(
    seen, epochs, adapter, case, first, behind, steps
):
    if adapter == "megatron":
        first = 0  # Its count of samples is the position, and begins at none.
    for one, plain in zip(seen, epochs, strict=True):
        expected = list(itertools.chain(*plain[first:]))[behind:][:steps]
        assert one[case]["seen"] == expected


def test_what_was_killed_goes_on_from_its_last_checkpoint(seen, killed, epochs):
    for one, dead, plain in zip(seen, killed, epochs, strict=True):
        expected = list(itertools.chain(*plain))[:28]
        assert dead["killed"] == expected[:DEATH]
        assert one["after death"]["seen"] == expected[20:]


def test_a_state_or_here_place_a_run(seen, epochs, adapter):
    # A trainer that counts runs all its steps, a loop the epochs.
    steps = 28 if adapter in COUNTING else 22
    for one, plain in zip(seen, epochs, strict=True):
        rows = list(itertools.chain(*plain))
        assert one["loaded"]["seen"] == rows[6:][:steps]
        if adapter != "megatron":
            # Three steps of a plain loop lie before it, which begins its epoch again.
            begin = 3 if adapter in ENDLESS else 2 * STEPS + 3
            assert one["here"]["seen"][:LEFT] == rows[begin:][:LEFT]


def test_epochs_that_begin_in_the_middle_of_one_are_refused(seen, adapter):
    if adapter not in ("lightning", "transformers"):
        pytest.skip("its epochs end where the loader's do, or its user's loop counts")
    for one in seen:
        told = one["loaded for epochs"]["seen"]
        assert "at step 6 of the 14" in told
        assert f"max_steps={LEFT + STEPS}" in told
        assert "at step 3 of the 14" in one["here for epochs"]["seen"]


def test_a_run_says_where_it_begins(seen, adapter):
    who = NAMES.get(adapter, adapter.title())
    steps = "no end, all" if adapter in ENDLESS else "14, {}"
    begins = {
        "fresh": (0, 112, "none"),
        "second": (0, 112, "none"),
        "peeked": (0, 112, "none"),
        "loaded": (6, 64, "a state that was loaded"),
        "middle": (6, 64, f"{who}'s"),
    }
    if adapter == "megatron":
        begins["middle"] = (6, 64, "consumed_samples=48")
    if adapter == "jax":
        begins["middle"] = begins["loaded"]
    for case, (step, left, checkpoint) in begins.items():
        if adapter == "accelerate" and case == "second":
            continue  # A loop of one's own is one run.
        epoch = 2 if case == "second" and adapter != "megatron" else 0
        [line] = seen[0][case]["told"]
        assert line.startswith(
            f"{who} begins at epoch {epoch}, step {step} of {steps.format(left)} "
            f"sequences left, on 2 rank(s), checkpoint: {checkpoint}"
        )
    assert not seen[1]["fresh"]["told"]


def test_rows_of_columns_are_left_alone(seen, adapter):
    if adapter not in ("accelerate", "lightning"):
        pytest.skip("rows go to TRL's trainers, in a test of their own")
    whole = [one["rows"]["seen"] for one in seen]
    steps = ROWS // 8
    for epoch in range(2):
        rows = [flat(steps_of[epoch * steps :][:steps]) for steps_of in whole]
        assert sorted(flat(rows)) == list(range(ROWS))
    for one, steps_of in zip(seen, whole, strict=True):
        assert one["rows resumed"]["seen"] == steps_of[4:]


def test_epochs_that_are_counted_twice_are_refused(seen):
    assert all("the Loader has epochs=2" in one["two epochs"]["seen"] for one in seen)


@pytest.mark.parametrize("size", [4, 2])
def test_other_sizes_see_what_is_left(seen, sizes, size):
    before = [row for one in seen for row in flat(one["fresh"]["seen"][:6])]
    rest = flat(sizes[f"batches of {size}"]["seen"])[: len(EPOCH) - len(before)]
    assert sorted(before + rest) == EPOCH


def test_epochs_that_are_counted_in_steps_of_two_sizes_are_refused(sizes, adapter):
    if adapter not in ("lightning", "transformers"):
        assert "refused" not in sizes
        pytest.skip("steps do not end its run, or are counted anew")
    # What is left of an epoch, and another: 22 steps of two ranks are 44 of one.
    assert "world_size=2, this run has" in sizes["refused"]["seen"]
    assert "max_steps=50" in sizes["refused"]["seen"]


@pytest.fixture(scope="module")
def evaluated(folder, adapter):
    """Losses of documents that have few labels, or none, and of others."""
    if adapter not in EVALUATING:
        pytest.skip("evaluations are its user's")
    rng = np.random.default_rng(1)
    (folder / "held-out").mkdir()
    for number, (name, share) in enumerate((("many", 0.9), ("few", 0.1))):
        lengths = rng.integers(3, 60, 31 + number)
        ids = [rng.integers(1, 4000, length) for length in lengths]
        labels = [np.where(rng.random(len(row)) < share, row, -100) for row in ids]
        labels[0][:] = -100
        if sum((row[1:] != -100).sum() for row in labels) % 2 == 0:
            most = max(labels, key=lambda row: (row != -100).sum())
            most[np.flatnonzero(most != -100)[-1]] = -100  # No rank has half of them.
        table = {"input_ids": ids, "labels": labels}
        columns = {key: [row.tolist() for row in table[key]] for key in table}
        pq.write_table(pa.table(columns), folder / "held-out" / f"{name}.parquet")
    return run_job("evaluation", folder, world_size=2, adapter=adapter)


def test_rows_of_a_budget_are_gathered_once_each(evaluated, adapter):
    if adapter == "lightning":
        pytest.skip("it gathers no rows")
    for one in evaluated:
        found = one["found"]
        assert len(found["budget rows"]) == 32
        assert sorted(found["budget rows"]) == sorted(found["rows of budget"])
        assert found["budget again"] == found["budget rows"]


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
