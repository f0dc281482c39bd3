"""Pairs of a batch that share a page, or a file: as counted one by one in its rows."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.reports import forecast

DOCUMENTS = pf.Documents([], max_length=32)
CUTS = {
    "packed": pf.Packed(32),
    "packed short": pf.Packed(16),  # Several blocks a file.
    "packed long": pf.Packed(128),
    "packed by file": pf.Packed(32, join="file"),
    "windows": pf.Windows(16),
    "windows over pages": pf.Windows(150),
    "documents": DOCUMENTS,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pages of 3 to 20 documents; small files, so that a block may span several."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(2)
    for number, count in enumerate([900, 250, 60, 400, 90]):
        rows = [[7] * n for n in rng.integers(1, 25, count).tolist()]
        pq.write_table(
            pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))}),
            folder / f"{number}.parquet",
            use_dictionary=False,
            data_page_size=400,
            write_batch_size=16,
        )
    return folder


def counted(loader: pf.Loader) -> dict[str, float]:
    """Mean pairs of the batches of an epoch, and of all its sequences."""
    held: dict[str, list[list[set]]] = {"page": [], "file": []}
    for step in range(len(loader)):
        rows = [loader.locate(step, row) for row in range(loader.batch_size)]
        held["page"] += [[{(o.file, o.row_group, o.page) for o in r} for r in rows]]
        held["file"] += [[{o.file for o in row} for row in rows]]
    found = {}
    for name, batches in held.items():
        pairs = [bool(a & b) for batch in batches for a, b in combinations(batch, 2)]
        found[name] = sum(pairs) / len(batches)
        of_page = Counter(each for batch in batches for row in batch for each in row)
        assert max(of_page.values()) > 1
        every = [row for batch in batches for row in batch]
        alike = np.mean([bool(a & b) for a, b in combinations(every, 2)])
        found[f"{name} random"] = float(alike) * len(pairs) / len(batches)
    return found


def assert_counted(loader: pf.Loader):
    plan, wanted = forecast(loader), counted(loader)
    # What two blocks of one file have in common at their border is not looked at.
    for found, of in [
        (plan.same_page_pairs_random, "page random"),
        (plan.same_file_pairs_random, "file random"),
    ]:
        assert found == pytest.approx(wanted[of], rel=0.12, abs=0.12)
    by_chance = 4 * np.sqrt(wanted["page random"] / len(loader))
    assert abs(plan.same_page_pairs - wanted["page"]) < max(0.1, by_chance)
    assert plan.same_file_pairs == pytest.approx(wanted["file"], rel=0.15)


SETTINGS: dict[str, Any] = {"shuffle": "row", "seed": 1, "rank": 0, "world_size": 1}


@pytest.mark.parametrize("name", CUTS)
def test_shared_pairs_are_those_counted_by_hand(folder, name):
    data = pf.parquet(folder, column="input_ids")
    assert_counted(pf.Loader(data, sequences=CUTS[name], batch_size=8, **SETTINGS))


def test_sequences_of_two_datasets_share_nothing(folder):
    parts = {
        str(number): pf.parquet(folder / f"{number}.parquet", column="input_ids")
        for number in (0, 1, 3)
    }
    mixed = pf.mix(parts, max_epochs=dict.fromkeys(parts, 1))
    assert_counted(pf.Loader(mixed, sequences=pf.Packed(32), batch_size=8, **SETTINGS))


def test_pairs_of_budgets_are_of_whole_batches(folder):
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids"),
        sequences=DOCUMENTS,
        batch_tokens=256,
        rank=0,
        world_size=1,
    )
    assert forecast(loader).same_page_pairs == 0
