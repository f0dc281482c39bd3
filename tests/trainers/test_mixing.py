"""Weights follow losses, alike on two ranks, and over death and resume."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainers.running import LENGTH, run_job

STEPS, SAVED, DEATH = 12, 8, 11
NAMES, APART = ("code", "web"), 2000


@pytest.fixture(scope="module")
def data(folder):
    """Two datasets, of which one is learned sooner."""
    rng = np.random.default_rng(4)
    for number, (name, kinds) in enumerate(zip(NAMES, (3, 1500), strict=True)):
        (folder / "mixed" / name).mkdir(parents=True)
        ids = rng.integers(0, kinds, (300, LENGTH)) + number * APART
        ids[:, 0] = np.arange(300) + number * APART  # Tells sequences apart.
        rows = pa.array(ids.tolist(), pa.list_(pa.int32()))
        path = folder / "mixed" / name / "a.parquet"
        pq.write_table(pa.table({"input_ids": rows}), path, row_group_size=50)
    return folder


@pytest.fixture(scope="module")
def whole(data, adapter):
    return run_job("mixing", data, world_size=2, adapter=adapter, run="whole")


def shares(seen):
    rows = np.array(seen)
    return (rows >= APART).mean(axis=1)


def test_weights_change_alike_on_both_ranks(whole):
    one, other = whole
    assert one["state"] == other["state"]
    assert len(one["state"]["mixture"]["stages"]) == 5
    both = [a + b for a, b in zip(one["seen"], other["seen"], strict=True)]
    # What is learned more slowly is taken more often.
    assert shares(both[:3]).mean() == 0.5
    _, _, [code, web] = one["state"]["mixture"]["stages"][-1]
    assert web / (code + web) > 0.6
    assert shares(both[-3:]).mean() > 0.5  # Of 24 rows.
    assert all(len({*rows}) == len(rows) for rows in both)


def test_logged_losses_are_exact_means_over_both_ranks(whole):
    sums = np.sum([one["exact"] for one in whole], axis=0)
    expected = sums[..., 0] / np.maximum(1, sums[..., 1])
    for one in whole:
        assert len(one["logged"]) == STEPS
        for logged, exact, counts in zip(
            one["logged"], expected, sums[..., 1], strict=True
        ):
            for value, mean, count in zip(logged, exact, counts, strict=True):
                assert (value is None) == (count == 0)
                if count:
                    assert value == pytest.approx(mean, rel=1e-5)


def test_killed_and_resumed_it_deals_the_same(whole, data, adapter):
    options = {"adapter": adapter, "run": "killed"}
    dead = run_job("mixing", data, world_size=2, expect=-9, die_at=DEATH, **options)
    again = run_job("mixing", data, world_size=2, resume=SAVED, **options)
    for one, killed, resumed in zip(whole, dead, again, strict=True):
        assert killed["killed"] == one["seen"][:DEATH]
        assert resumed["seen"] == one["seen"][SAVED:]
        assert resumed["logged"] == one["logged"][SAVED:]
        assert resumed["state"] == one["state"]


def test_it_is_repeated_on_one_rank_without_losses(whole, data, adapter):
    [alone] = run_job(
        "mixing",
        data,
        world_size=1,
        adapter=adapter,
        run="replay",
        replay=whole[0]["state"],
        steps=2 * STEPS,
    )
    rows = [row for step in alone["seen"] for row in step]
    dealt = [
        row
        for steps in zip(*(one["seen"] for one in whole), strict=True)
        for pair in zip(*steps, strict=True)
        for row in pair
    ]
    assert rows == dealt
