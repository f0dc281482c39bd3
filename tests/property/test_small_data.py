"""Small data is shuffled in full, and few blocks do not keep their places."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.core.order import EpochOrder, Shuffle, choose_num_lanes
from pagefeed.core.run import dataset_order
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.mixture import mixture_run

SIGMAS = 5
LENGTH = 64
DOCUMENTS: dict[str, Any] = {"columns": [], "max_length": LENGTH}
CUTS: dict[str, dict[str, Any]] = {
    "windows": {"sequences": pf.Windows(LENGTH)},
    "packed": {"sequences": pf.Packed(LENGTH)},
    "packed, never split": {"sequences": pf.Packed(LENGTH, split="never")},
    "documents": {"sequences": pf.Documents(**DOCUMENTS)},
    "padded batches": {"sequences": pf.Documents(**DOCUMENTS), "batch_tokens": 128},
    "joined batches": {
        "sequences": pf.Documents(**DOCUMENTS, pad=None),
        "batch_tokens": 128,
    },
    "balanced": {"sequences": pf.Packed(LENGTH), "balance": "attention"},
}
SHUFFLES: dict[str, Any] = {
    "page": "page",
    "row_group": "row_group",
    "row": "row",
    "no window": pf.Shuffle(window=0),
    "a short window": pf.Shuffle(window=40),
    "some bytes": pf.Shuffle(window="16KiB"),
    "row groups, some bytes": pf.Shuffle(block="row_group", window="16KiB"),
    "passes": pf.Shuffle(window=40, passes=3),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Some 40,000 tokens in two files of a row group each."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("small")
    lengths = rng.lognormal(3.5, 0.8, 1100).astype(int).clip(1, 300)
    for number, part in enumerate(np.split(lengths, [650])):
        tokens = pa.array([[7] * length for length in part.tolist()])
        pq.write_table(
            pa.table({"input_ids": tokens}),
            folder / f"{number}.parquet",
            data_page_size=4096,
            use_dictionary=False,
        )
    return pf.parquet(folder, column="input_ids")


def make_loader(data, options, **more):
    sizes = {"batch_size": None if "batch_tokens" in options else 4}
    fixed = {"rank": 0, "world_size": 1, "drop_last": False}
    return pf.Loader(data, **fixed | sizes | options | more)


def sequences_of(loader, epoch, count=None):
    run = loader.view().run
    cursor = run.at(run.beginning(epoch))
    return cursor.sequences(0, count or cursor.route.num_steps or 0)


def places_of(order):
    placed = order[order >= 0]
    places = np.empty(len(placed))
    places[placed] = np.arange(len(placed))
    return places


def mean_correlation(orders):
    """Of the places of units in neighbouring orders; and what a random one strays."""
    places = [places_of(order) for order in orders]
    pairs = list(itertools.pairwise(places))
    found = [np.corrcoef(*pair)[0, 1] for pair in pairs]
    return np.mean(found), 1 / np.sqrt(len(pairs) * len(places[0]))


def off_uniform(counts):
    """By how many deviations counts of equal expectation are apart."""
    chi = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    freedom = len(counts) - 1
    return (chi - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("cut", CUTS)
def test_no_unit_keeps_its_place(small, cut, shuffle):
    loader = make_loader(small, CUTS[cut], shuffle=SHUFFLES[shuffle], seed=4)
    orders = [sequences_of(loader, epoch) for epoch in range(30)]
    assert len(orders[0]) >= 300
    mean, deviation = mean_correlation(orders)
    # A few blocks stray farther than single units do, in a pair of epochs.
    assert abs(mean) < min(2 * SIGMAS * deviation, 0.1)


@pytest.mark.parametrize("shuffle", ["page", "no window", "some bytes"])
@pytest.mark.parametrize("cut", ["windows", "packed", "padded batches"])
def test_every_unit_is_in_the_first_steps_as_often(small, cut, shuffle):
    loader = make_loader(small, CUTS[cut], shuffle=SHUFFLES[shuffle])
    counts = np.zeros(loader.view().run.num_sequences)
    for epoch in range(300):
        counts[sequences_of(loader, epoch, 8)] += 1
    assert abs(off_uniform(counts)) < SIGMAS


@pytest.mark.parametrize("window", [1, 20])
@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7, 40])
def test_blocks_of_unlike_size_begin_an_epoch_as_often(num_blocks, window):
    rng = np.random.default_rng(num_blocks)
    cuts = np.sort(rng.choice(np.arange(1, 320), num_blocks - 1, replace=False))
    blocks = ExplicitBlocks([0, *cuts, 320])
    num_lanes = choose_num_lanes(num_blocks=num_blocks, block_bytes=1.0, world_size=1)
    counts, orders = np.zeros(320), []
    for epoch in range(400):
        order = EpochOrder(
            blocks,
            seed=1,
            epoch=epoch,
            name="",
            shuffle=Shuffle(),
            num_lanes=num_lanes,
            window=window,
        )
        orders.append(order.at(range(320)))
        counts[orders[-1][:16]] += 1
    assert abs(off_uniform(counts)) < SIGMAS
    mean, deviation = mean_correlation(orders)
    assert abs(mean) < 2 * SIGMAS * deviation


@pytest.mark.parametrize("num_ranks", [3, 7, 8])
@pytest.mark.parametrize("cut", [name for name in CUTS if name != "balanced"])
def test_any_number_of_ranks_shares_one_order(small, cut, num_ranks):
    order = sequences_of(make_loader(small, CUTS[cut]), 2)
    order = order[order >= 0]
    for rank in range(num_ranks):
        loader = make_loader(small, CUTS[cut], rank=rank, world_size=num_ranks)
        found = sequences_of(loader, 2)
        assert found[found >= 0].tolist() == order[rank::num_ranks].tolist()


def pages_loaded(loader):
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats["pages_reloaded"] == 0
    return stats["pages_loaded"]


@pytest.mark.parametrize("num_ranks", [1, 4])
@pytest.mark.parametrize("cut", CUTS)
def test_a_rank_decodes_a_page_once_where_memory_holds_them(small, cut, num_ranks):
    in_order = make_loader(small, CUTS[cut] | {"balance": None}, shuffle=None)
    most = pages_loaded(in_order)
    for rank in range(num_ranks):
        loader = make_loader(small, CUTS[cut], rank=rank, world_size=num_ranks)
        assert pages_loaded(loader) <= most


def test_the_window_says_what_is_small():
    units = {"num_units": 1 << 16}
    for shuffle in (Shuffle(), Shuffle(block="row_group", passes=3)):
        assert shuffle.of_epoch(**units, unit_bytes=4096).block == "row"
        assert shuffle.of_epoch(**units, unit_bytes=4097) == shuffle
    shuffle = Shuffle(window=1 << 16)
    assert shuffle.of_epoch(**units, unit_bytes=1e9).block == "row"
    assert shuffle.of_epoch(num_units=(1 << 16) + 1, unit_bytes=1) == shuffle
    for never in (Shuffle(block=None), Shuffle(block="row")):
        assert never.of_epoch(**units, unit_bytes=1) is never


def test_row_groups_beyond_the_window_are_permuted_page_by_page(small, monkeypatch):
    window = {"batch_size": 4, "sequences": pf.Windows(LENGTH)}
    pages, groups = (
        lambda block=block: sequences_of(
            make_loader(small, window, shuffle=pf.Shuffle(block=block, window=40)), 0
        ).tolist()
        for block in ("page", "row_group")
    )
    assert groups() != pages()
    monkeypatch.setattr(dataset_order, "NODE_BYTES", 1 << 14)
    assert groups() == pages()


@pytest.mark.parametrize(("parts", "block"), [(7, "page"), (8, "row")])
def test_a_dataset_of_a_mixture_has_an_eighth_of_it(small, monkeypatch, parts, block):
    size = small.spans.page_values * small.spans.index.value_bytes
    monkeypatch.setattr(mixture_run, "NODE_BYTES", parts * size)
    mixture = pf.mix({"a": small}, max_steps=9)
    loader = pf.Loader(mixture, sequences=pf.Windows(LENGTH), batch_size=4)
    run: Any = loader.view().run
    assert [orders.shuffle.block for orders in run.orders(0)] == [block]
