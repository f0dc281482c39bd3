"""Ranks that are balanced by the tokens that have a label."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.reports import step_costs

RANKS = 4
LENGTH = 128
CUTS = [
    pf.Packed(LENGTH),
    pf.Packed(LENGTH, eos=0, split="never", method="greedy"),
    pf.Windows(LENGTH),
    pf.Documents(columns=["id"], max_length=LENGTH),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tokens with labels of a share of each row: from none to all."""
    place = tmp_path_factory.mktemp("labels")
    rng = np.random.default_rng(1)
    for number in range(2):
        lengths = rng.integers(1, 2 * LENGTH, 900)
        tokens = [rng.integers(1, 99, length, dtype=np.int32) for length in lengths]
        shares = rng.beta(0.3, 0.3, 900)
        labels = [
            np.where(rng.random(len(row)) < share, row, -100)
            for row, share in zip(tokens, shares, strict=True)
        ]
        ids = np.arange(900)
        table = pa.table({"input_ids": tokens, "labels": labels, "id": ids})
        pq.write_table(table, place / f"{number}.parquet", row_group_size=100)
    return place


@pytest.fixture(scope="module")
def data(folder):
    return pf.parquet(folder, column="input_ids", aligned=["labels"])


def loader(data: Any, rank: int = 0, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH),
        "batch_size": 2,
        "seed": 3,
        "rank": rank,
        "world_size": RANKS,
        "num_threads": 1,
        "epochs": 1,
    }
    return pf.Loader(data, **(settings | options))


def learned(data: Any, **options: Any) -> np.ndarray:
    """Tokens with a label in each step of each rank: int64 [steps, ranks]."""
    of_ranks = [
        [
            int((batch["labels"] != -100).sum())
            for batch in loader(data, rank, **options)
        ]
        for rank in range(RANKS)
    ]
    return np.array(of_ranks).T


def slowest(counts: np.ndarray) -> float:
    return float(counts.max(axis=1).sum() / counts.mean(axis=1).sum())


@pytest.mark.parametrize("cut", CUTS, ids=repr)
def test_costs_are_the_labels_that_batches_have(data, cut):
    plain = loader(data, sequences=cut, batch_size=1, shuffle=None, world_size=1)
    delivered = [int((batch["labels"] != -100).sum()) for batch in plain]
    run = loader(data, sequences=cut, balance=pf.Balance(labels=1)).view().run
    assert run.costs(np.arange(len(delivered))).tolist() == delivered


@pytest.mark.parametrize("cut", CUTS[:2], ids=repr)
def test_ranks_learn_about_the_same_number_of_tokens(data, cut):
    by_labels = pf.Balance(labels=1, stretch=256)
    even = learned(data, sequences=cut, balance=by_labels)
    uneven = learned(data, sequences=cut)
    assert abs(even.sum() - uneven.sum()) <= uneven.sum() // 50  # The rest of a step.
    assert slowest(even) < 1 + 0.35 * (slowest(uneven) - 1)
    said = step_costs(loader(data, sequences=cut, balance=by_labels))
    assert said.slowest == pytest.approx(slowest(even), abs=0.02)
    assert said.slowest_unbalanced == pytest.approx(slowest(uneven), abs=0.05)


def test_counts_are_kept_with_the_index(folder, tmp_path):
    data = pf.parquet(
        folder, column="input_ids", aligned=["labels"], cache_dir=tmp_path
    )
    counts = []
    for _ in range(2):
        # Of a length that no other test counts: a process keeps counts once.
        loader(data, sequences=pf.Packed(96), balance=pf.Balance(labels=1))
        kept = {
            file: file.stat().st_mtime_ns for file in tmp_path.rglob("costs-*/numbers")
        }
        counts.append(kept)
    assert counts[0] == counts[1] != {}


def test_a_mixture_counts_the_labels_of_each_dataset(data):
    by_labels = pf.Balance(labels=1, stretch=64)
    mixture = pf.mix({"all": (data, 0.5), "some": (data.where("id < 300"), 0.5)})
    run = loader(mixture, balance=by_labels, epochs=None).view().run
    own = loader(data, balance=by_labels).view().run
    every = np.arange(own.num_sequences)
    assert run.costs(every).tolist() == own.costs(every).tolist()
    assert run.costs(own.num_sequences + np.arange(99)).max() > 0


def test_made_labels_are_all_tokens_but_padding_and_first_ones(folder):
    made = pf.parquet(folder, column="input_ids")
    run = loader(made, balance=pf.Balance(labels=1)).view().run
    plain = loader(made, batch_size=1, shuffle=None, world_size=1)
    delivered = [int((batch["labels"] != -100).sum()) for batch in plain]
    assert run.costs(np.arange(len(delivered))).tolist() == delivered


def test_the_state_of_other_labels_is_refused(data):
    before = loader(data, balance=pf.Balance(labels=1, tokens=1)).state_dict()
    with pytest.raises(pf.errors.StateMismatchError, match="balance"):
        loader(data, balance=pf.Balance(labels=2, tokens=1)).load_state_dict(before)
