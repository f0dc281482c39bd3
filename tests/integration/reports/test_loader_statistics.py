"""Orders of loaders, of whatever kind, keep what is promised; file order does not."""

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from order_statistics import of_loaders, order_statistics
from pagefeed.errors import InvalidArgumentError

DOCUMENTS = pf.Documents([], max_length=64)
SETTINGS: dict[str, Any] = {"rank": 0, "world_size": 1}


def write(folder, count, seed=0):
    """Files of documents of unlike lengths, some to a page."""
    folder.mkdir()
    lengths = np.random.default_rng(seed).lognormal(3, 0.8, count).astype(int) + 1
    for number, part in enumerate(np.array_split(lengths.clip(1, 64), 6)):
        rows = [[7] * length for length in part.tolist()]
        pq.write_table(
            pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))}),
            folder / f"{number}.parquet",
            use_dictionary=False,
            data_page_size=400,
            write_batch_size=16,
        )
    return pf.parquet(folder, column="input_ids")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "documents", 800)


def failed(loader, **options):
    return {
        each.test
        for each in order_statistics(loader, **options).findings
        if not each.ok
    }


@pytest.mark.parametrize("shuffle", [None, pf.Shuffle(block="buffer", window=200)])
def test_orders_that_promise_nothing_fail(data, shuffle):
    loader = pf.Loader(
        data, sequences=DOCUMENTS, batch_size=4, shuffle=shuffle, **SETTINGS
    )
    wanted = {"first step", "last step", "parts", "epochs", "seeds", "mates", "sources"}
    assert wanted <= failed(loader, seeds=24)


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("shuffle", ["page", "row"])
def test_orders_of_documents_pass(data, shuffle, ranks):
    settings = SETTINGS | {"world_size": ranks}
    loader = pf.Loader(
        data, sequences=DOCUMENTS, batch_size=4, shuffle=shuffle, **settings
    )
    found = order_statistics(loader, seeds=48)
    assert found.problems == []
    assert (found.num_units, found.num_seeds) == (800, 48)


@pytest.mark.parametrize("ranks", [5, 32, 64])
def test_ranks_that_cannot_divide_the_lanes_keep_the_shares(data, tmp_path, ranks):
    parts = {"a": (data, 0.5), "b": (write(tmp_path / "other", 800, seed=1), 0.5)}

    def loader(world_size, shuffle="page"):
        mixed = pf.mix(parts, unit="sequences", max_steps=40)
        settings = {"rank": 0, "world_size": world_size, "shuffle": shuffle}
        return pf.Loader(mixed, sequences=DOCUMENTS, batch_size=2, **settings)

    in_order, resumed = loader(ranks, None), loader(ranks)
    resumed.load_state_dict(loader(8).state_dict())
    assert resumed.state_dict()["num_lanes"] % ranks
    assert in_order.state_dict()["num_lanes"] % ranks
    for each in (in_order, resumed):
        assert "datasets by rank" not in failed(each, seeds=12)


def test_costs_of_sequences_are_made_once_for_all_seeds(data, caplog):
    loader = pf.Loader(data, sequences=DOCUMENTS, batch_size=4, **SETTINGS)
    with caplog.at_level(logging.INFO, "pagefeed"):
        pf.reports.step_costs(loader)
    made = [each for each in caplog.records if "costs of sequences" in each.message]
    assert len(made) == 1


def test_too_many_sequences_are_refused_by_name(data, monkeypatch):
    monkeypatch.setattr(of_loaders, "MOST_UNITS", 799)
    loader = pf.Loader(data, sequences=DOCUMENTS, batch_size=4, **SETTINGS)
    with pytest.raises(InvalidArgumentError, match="800 sequences are too many"):
        order_statistics(loader)
