"""Datasets of the hub, as their library saves and filters them."""

import pytest

import pagefeed as pf

datasets = pytest.importorskip(
    "datasets", reason="make test-trainers ARGS=transformers"
)

ROWS = [[*range(n * 50, n * 50 + n * 7 % 23)] for n in range(90)]


def test_a_real_hub_dataset(tmp_path):
    made = datasets.Dataset.from_dict({"ids": ROWS, "n": [*range(90)]})
    made.save_to_disk(str(tmp_path / "saved"), num_shards=3)
    saved = datasets.load_from_disk(str(tmp_path / "saved"))
    for given in (saved, tmp_path / "saved"):
        assert [row["ids"] for row in pf.arrow(given, column="ids")] == ROWS
    odd = pf.arrow(saved.filter(lambda row: row["n"] % 2), column="ids")
    assert [row["ids"] for row in odd] == ROWS[1::2]
