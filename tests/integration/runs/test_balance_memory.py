"""What balances ranks takes a part of the memory that a loader was given."""

import tracemalloc

import numpy as np
import pytest

import pagefeed as pf
from made.equal_blocks import equal_blocks
from made.numbered import numbered_loader, write_numbered
from pagefeed.balance import BalancedOrder
from pagefeed.core._base import finished
from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.errors import InvalidArgumentError

EXACT = pf.Balance(attention=1, exact=True)


@pytest.mark.parametrize(
    ("ranks", "size", "balance"),
    [
        (1024, 700_000, EXACT),
        (1024, 500_000, EXACT),
        (1024, 90_000, EXACT),
        (2, 400_000, pf.Balance(attention=1, stretch=1 << 16)),
    ],
)
def test_dealing_takes_the_bytes_that_are_counted(ranks, size, balance):
    costs = np.random.default_rng(1).lognormal(6, 0.8, size).astype(np.float32)
    order = EpochOrder(
        equal_blocks(size, 50),
        seed=1,
        epoch=0,
        name="",
        shuffle=Shuffle(),
        num_lanes=48,
        window=1000,
    )
    finished(order.reading(np.arange(1)))
    balanced = BalancedOrder(
        order,
        balance=balance,
        key=b"a key",
        costs=lambda sequences: costs[sequences].astype(np.float64),
        ranks=ranks,
        divisions=size,
    )
    own, delivered = np.arange(3 % ranks, size, ranks), 0
    tracemalloc.start()
    for some in np.array_split(own, 20):
        delivered += len(finished(balanced.reading(some)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    counted = balance.dealing_bytes(ranks, size)
    # What the order under it reads is counted for itself.
    assert counted / 3 < peak < counted + (4 << 20)
    assert delivered == len(own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("numbered")
    write_numbered(made)
    return made


def test_the_engine_has_the_rest_of_the_memory(folder):
    def loader(**options):
        return numbered_loader(folder, sequences=pf.Packed(64), **options)

    plain = loader()
    needed = EXACT.dealing_bytes(1, plain.num_sequences)
    assert needed == 80 * plain.num_sequences
    balanced = loader(balance=EXACT)
    left = [each.view()._feed._settings.engine_bytes for each in (plain, balanced)]
    assert left[0] - left[1] == needed
    with pytest.raises(InvalidArgumentError, match=f"give memory={2 * needed} or more"):
        loader(balance=EXACT, memory=needed)


def test_a_mixture_has_no_epoch_that_bounds_a_stretch():
    assert EXACT.dealing_bytes(1024, None) == 80 * 2 * (1 << 18)
    assert EXACT.dealing_bytes(8, None) == 80 * 2 * 8 * 1024
    assert pf.Balance(attention=1).dealing_bytes(1024, None) == 80 * 2 * 1024
