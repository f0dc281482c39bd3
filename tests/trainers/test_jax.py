"""JAX: rows by sharding over processes, and Grain's datasets and checkpoints."""

from typing import Any

import pytest

pytest.importorskip("jax", reason="make test-trainers ARGS=jax")

import grain
import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pagefeed as pf
from pagefeed.integrations.jax import global_batches, grain_dataset
from trainers.running import (
    EPOCH,
    LENGTH,
    all_rows,
    flat,
    make_loader,
    refuses_all,
    run_job,
)


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("jax", folder, world_size=2)


@pytest.mark.parametrize("name", ["data", "sequence"])
def test_processes_feed_their_rows(runs, name):
    assert [one[name]["ranks"] for one in runs] == [[0, 2], [1, 2]]
    assert sorted(row for one in runs for row in flat(one[name]["seen"])) == EPOCH


def test_replicas_feed_the_same_rows(runs):
    assert [one["replicas"]["ranks"] for one in runs] == [[0, 1], [0, 1]]
    for one in runs:
        assert sorted(flat(one["replicas"]["seen"])) == EPOCH


def test_wrong_ranks_and_plans_are_refused(runs):
    assert runs[0]["silent"] == runs[1]["silent"]
    assert len(set(runs[0]["silent"])) == len(EPOCH) / 2
    assert "JAX trains as data-parallel rank 1 of 2" in runs[1]["wrong rank"]
    for one in runs:
        assert "seed is 0 in process 0 and 1 in process 1" in one["wrong seed"]


@pytest.mark.parametrize("kind", ["loader", "grain"])
def test_what_was_killed_goes_on_from_its_orbax_checkpoint(folder, kind):
    """The position as JSON, or in the file of Grain's iterator of each process."""
    options = {"kind": kind, "die_at": 9}
    killed = run_job("jax", folder, world_size=2, expect=-9, train=options)
    assert all(len(one["killed"]["seen"]) == 9 for one in killed)
    before = all_rows(killed, "killed", 0, 6)
    # Grain reads the files of as many processes as wrote them.
    for world_size in (2, 1) if kind == "loader" else (2,):
        resumed = run_job("jax", folder, world_size=world_size, train={"kind": kind})
        assert all(one["resumed"]["count"] == len(EPOCH) * LENGTH for one in resumed)
        assert sorted(before + all_rows(resumed, "resumed", 0, 8)) == EPOCH


def numpy_loader(folder, *more):
    return make_loader(folder, format="numpy", fields=("input_ids", *more))


def test_an_epochs_end_resumes_with_the_next_epoch(folder, tmp_path):
    """Saved by Orbax after the last batch; and once more after the next epoch's."""
    whole = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("data",)), PartitionSpec())

    def epoch(loader):
        batches = global_batches(loader, whole)
        return [np.asarray(batch["input_ids"])[:, 0].tolist() for batch in batches]

    loader = numpy_loader(folder)
    expected = [epoch(loader) for _ in range(3)]
    assert all(sorted(flat(rows)) == EPOCH for rows in expected)
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in range(3):
            again = numpy_loader(folder)
            if step:
                restored = manager.restore(step, args=ocp.args.JsonRestore())
                again.load_state_dict(restored)
            assert epoch(again) == expected[step]
            manager.save(step + 1, args=ocp.args.JsonSave(again.state_dict()))
            manager.wait_until_finished()


def test_grain_iterates_and_restores(folder):
    dataset = grain_dataset(numpy_loader(folder))
    batches = iter(dataset.map(lambda batch: batch["input_ids"][:, 0].tolist()))
    first = [next(batches) for _ in range(5)]
    state = batches.get_state()
    rest = list(batches)
    assert sorted(flat(first + rest)) == EPOCH
    again = grain_dataset(numpy_loader(folder))
    resumed = iter(again.map(lambda batch: batch["input_ids"][:, 0].tolist()))
    resumed.set_state(state)
    assert list(resumed) == rest
    batches.set_state(state)
    assert list(batches) == rest


def test_grain_reads_a_view_in_its_own_order(folder):
    data = pf.parquet(folder / "data", column="input_ids")
    view = pf.SequenceView(data, pf.Windows(LENGTH))
    source = grain.MapDataset.source(view).shuffle(seed=1)
    options = grain.ReadOptions(num_threads=0)
    rows = [int(row["input_ids"][0]) for row in source.to_iter_dataset(options)]
    assert sorted(rows) == EPOCH != rows


def test_wrong_arguments_are_refused(folder):
    whole = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("data",)), PartitionSpec())
    loader = numpy_loader(folder)
    batches: Any = global_batches
    dataset: Any = grain_dataset
    wrong = {
        "not a pagefeed Loader": lambda: batches("tokens/", whole),
        "a jax.sharding.Sharding": lambda: batches(loader, "data"),
        "endless='yes'": lambda: batches(loader, whole, endless="yes"),
        "cu_seqlens is not [rows, length]": lambda: batches(
            numpy_loader(folder, "cu_seqlens"), whole
        ),
        "Grain was given": lambda: dataset(iter(loader)),
    }
    refuses_all(wrong)
