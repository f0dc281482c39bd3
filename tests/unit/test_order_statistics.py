"""The battery passes random orders, and each of its tests fails for a wrong one.

No order here is made by pagefeed: they are wrong, or right, as they are written.
"""

from collections.abc import Callable

import numpy as np
import pytest

from order_statistics import Taken, Units, order_statistics
from order_statistics.findings import exceeds
from pagefeed.errors import InvalidArgumentError

SIZE, RANKS, ROWS = 960, 4, 4
STEP = RANKS * ROWS
STEPS = SIZE // STEP
COSTS = np.random.default_rng(3).lognormal(0, 0.8, SIZE)
SOURCES = np.arange(SIZE) // 120
UNITS = Units(
    num_units=SIZE,
    page=np.arange(SIZE) // 6,
    source=SOURCES,
    costs={"cost": COSTS},
)


def batches(order: np.ndarray) -> np.ndarray:
    return order.reshape(STEPS, RANKS, ROWS)


def random(*key: int) -> np.random.Generator:
    return np.random.default_rng(key)


def right(seed: int, epoch: int) -> np.ndarray:
    return batches(random(seed, epoch).permutation(SIZE))


def one_comes_twice(seed: int, epoch: int) -> np.ndarray:
    units = right(seed, epoch)
    units[-1, 0, 0] = units[0, 0, 0]
    return units


def one_never_comes(seed: int, epoch: int) -> np.ndarray:
    units = right(seed, epoch)
    return units[units < SIZE - STEP].reshape(-1, RANKS, ROWS)


def same_first_step(seed: int, epoch: int) -> np.ndarray:
    """Most of the first step is drawn from a tenth of the units."""
    order = random(seed, epoch).permutation(SIZE)
    chosen = np.flatnonzero(order % 10 == 0)[: STEP - 2]
    return batches(np.append(order[chosen], np.delete(order, chosen)))


def same_last_step(seed: int, epoch: int) -> np.ndarray:
    return same_first_step(seed, epoch)[::-1]


def fixed_half(seed: int, epoch: int) -> np.ndarray:
    """Even units come before odd ones, under every other permutation of both."""
    order = random(seed, epoch).permutation(SIZE)
    return batches(order[np.argsort(order % 2, kind="stable")])


def fixed_rank(seed: int, epoch: int) -> np.ndarray:
    order = random(seed, epoch).permutation(SIZE)
    order = order[np.argsort(order % RANKS, kind="stable")]
    return order.reshape(RANKS, STEPS, ROWS).transpose(1, 0, 2)


def turned_round(seed: int, epoch: int) -> np.ndarray:
    """The next epoch is this one from its end on."""
    return right(seed, 0)[:: 1 - 2 * epoch]


def nearly_the_same(seed: int, epoch: int) -> np.ndarray:
    """A window of two epochs' length that is the whole shuffle."""
    places = np.arange(SIZE) + random(seed, epoch).uniform(0, SIZE, SIZE) * 2
    return batches(np.argsort(places))


def seed_of_no_use(_: int, epoch: int) -> np.ndarray:
    return right(0, epoch)


def frozen_batches(seed: int, epoch: int) -> np.ndarray:
    """What shares a step, or a rank's batch, stays together: a cut before the order."""
    return right(0, 0)[random(seed, epoch).permutation(STEPS)]


def fixed_partner(seed: int, epoch: int) -> np.ndarray:
    pairs = random(seed, epoch).permutation(SIZE // 2)
    return batches((pairs[:, None] + [0, SIZE // 2]).ravel())


def frozen_of_ranks(seed: int, epoch: int) -> np.ndarray:
    """Batches of ranks stay together; which are of one step is drawn anew."""
    order = right(seed, 0).reshape(-1, ROWS)
    return batches(order[random(seed, epoch, 1).permutation(len(order))])


def file_by_file(seed: int, epoch: int) -> np.ndarray:
    files = random(seed, epoch).permutation(8)
    order = random(seed, epoch, 1).permutation(SIZE)
    return batches(order[np.argsort(files[SOURCES[order]], kind="stable")])


def source_of_a_rank(seed: int, epoch: int) -> np.ndarray:
    """Rank 0 gets a fifth more of the first file."""
    return tied(seed, epoch, SOURCES == 0)


def cheap_rank(seed: int, epoch: int) -> np.ndarray:
    return tied(seed, epoch, np.asarray(np.quantile(COSTS, 0.2) > COSTS))


def tied(seed: int, epoch: int, wanted: np.ndarray) -> np.ndarray:
    units, some = right(seed, epoch), random(seed, epoch, 1).random(STEPS) < 0.5
    for step in np.flatnonzero(some):
        row = units[step].ravel()
        units[step] = row[np.argsort(~wanted[row], kind="stable")].reshape(RANKS, ROWS)
    return units


def cheap_units_first(seed: int, epoch: int) -> np.ndarray:
    order = random(seed, epoch).permutation(SIZE)
    late = np.argsort(COSTS[order] * 0.15 + random(seed, epoch, 1).random(SIZE) * 3)
    return batches(order[late])


def files_in_turn(seed: int, epoch: int) -> np.ndarray:
    """The first file comes early more often."""
    order = random(seed, epoch).permutation(SIZE)
    early = random(seed, epoch, 1).random(SIZE) - 0.2 * (SOURCES[order] == 0)
    return batches(order[np.argsort(early)])


def always_cheapest(seed: int, epoch: int) -> np.ndarray:
    """Ranks cost nearly alike, in a fixed order: exact balance as it was once."""
    units = right(seed, epoch)
    sums = COSTS[units].sum(axis=2)
    return np.take_along_axis(units, np.argsort(sums, axis=1)[:, :, None], axis=1)


WRONG: dict[str, list[Callable[[int, int], np.ndarray]]] = {
    "once": [one_comes_twice, one_never_comes],
    "first step": [same_first_step],
    "last step": [same_last_step],
    "parts": [fixed_half],
    "ranks": [fixed_rank],
    "epochs": [turned_round, nearly_the_same],
    "seeds": [seed_of_no_use, nearly_the_same],
    "mates": [turned_round, frozen_batches, fixed_partner, frozen_of_ranks],
    "mates of a rank": [frozen_batches, fixed_partner, frozen_of_ranks],
    "mates under two seeds": [frozen_batches, fixed_partner, seed_of_no_use],
    "pages": [file_by_file],
    "sources": [file_by_file],
    "source by rank": [source_of_a_rank],
    "source by part": [files_in_turn],
    "cost by rank": [cheap_rank],
    "cost by part": [cheap_units_first],
    "cheapest rank by cost": [cheap_rank, always_cheapest],
}


def mixed(excess: float) -> Callable[[int, int], Taken]:
    """A mixture of 0.3 and 0.7, of which the first half has more of one dataset."""

    def draw(seed: int, epoch: int) -> Taken:
        shares = np.where(np.arange(SIZE) < SIZE / 2, 0.3 + excess, 0.3)
        counts = np.floor(np.cumsum(shares)).astype(int)
        is_first = np.diff(counts, prepend=0) > 0
        unit = np.empty(SIZE, dtype=np.int64)
        parts = (np.arange(100), np.arange(100, SIZE))
        for part, mine in zip(parts, (is_first, ~is_first), strict=True):
            rng = random(seed, epoch, len(part))
            many = [rng.permutation(part) for _ in range(1 + mine.sum() // len(part))]
            unit[mine] = np.concatenate(many)[: mine.sum()]
        ranks = np.tile(np.arange(STEP) % RANKS, (STEPS, 1))
        rank = random(seed, epoch, 0).permuted(ranks, axis=1).ravel()
        return Taken(unit, np.arange(SIZE) // STEP, rank)

    return draw


def tied_to_lanes(seed: int, epoch: int) -> Taken:
    """Ranks keep the shares in the mean over seeds, and under none of them."""
    taken = mixed(0.0)(seed, epoch)
    is_small = taken.unit < 100
    begins = np.arange(SIZE) // STEP * STEP
    by_rank = np.lexsort((~is_small, begins))  # The small dataset comes first.
    rank = np.empty(SIZE, dtype=np.int64)
    rank[by_rank] = (np.arange(SIZE) % STEP // ROWS + random(seed).integers(4)) % RANKS
    return taken._replace(rank=rank)


MIXED = Units(
    num_units=SIZE,
    dataset=(np.arange(SIZE) >= 100).astype(np.int64),
    shares=np.array([0.3, 0.7]),
)


@pytest.mark.parametrize("ranks", [1, 2, 16])
@pytest.mark.parametrize("size", [16, 64, 320, 3200])
def test_random_orders_pass(size, ranks):
    def draw(seed, epoch):
        order = random(seed, epoch, ranks).permutation(size)
        return order.reshape(-1, ranks, max(1, min(size // 16, 64) // ranks))

    costs = {"cost": random(size).lognormal(0, 1, size)}
    source = np.arange(size) * 5 // size
    units = Units(num_units=size, page=np.arange(size) // 9, source=source, costs=costs)
    found = order_statistics(draw, units)
    assert found.problems == []
    assert all(0 <= each.p <= 1 for each in found.findings)


def test_random_orders_pass_every_test_of_the_list():
    found = order_statistics(right, UNITS, limits={"pages": 1.5})
    assert found.problems == []
    assert {each.test for each in found.findings} == {*WRONG}


@pytest.mark.parametrize(
    ("test", "draw"), [(test, draw) for test, all_ in WRONG.items() for draw in all_]
)
def test_each_test_fails_for_a_wrong_order(test, draw):
    found = order_statistics(draw, UNITS, seeds=48, limits={"pages": 1.5})
    assert test in {each.test for each in found.findings if not each.ok}
    said = next(line for line in found.problems if line.startswith(f"{test}: "))
    assert "a random order gives" in said


def test_shares_of_a_mixture_are_held_at_every_prefix():
    assert order_statistics(mixed(0.0), MIXED).problems == []
    (said,) = order_statistics(mixed(0.009), MIXED).problems
    assert said.startswith("shares: ")


def test_shares_of_single_ranks_are_held_within_each_run():
    (said,) = order_statistics(tied_to_lanes, MIXED, seeds=24).problems
    assert said.startswith("datasets by rank: ")


def test_a_dataset_of_a_mixture_comes_again_after_all_of_it_has_come():
    def too_early(seed, epoch):
        taken = mixed(0.0)(seed, epoch)
        mine = np.flatnonzero(taken.unit < 100)
        taken.unit[mine[90]] = taken.unit[mine[0]]
        return taken

    (said,) = order_statistics(too_early, MIXED).problems
    assert said.startswith("once: 1 units")


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda seed, epoch: right(seed, epoch) + 1, "expected units 0 to 959"),
        (lambda seed, epoch: right(seed, epoch) * 0.5, "found float64"),
        (lambda seed, epoch: right(seed, epoch).ravel(), r"found int64 \(960,\)"),
        (lambda seed, epoch: right(seed, epoch) * 0 - 1, "0 deliveries"),
    ],
)
def test_what_is_no_order_is_refused(draw, said):
    with pytest.raises(InvalidArgumentError, match=said):
        order_statistics(draw, UNITS)


def test_units_without_their_number_and_of_other_numbers_are_refused():
    with pytest.raises(InvalidArgumentError, match="needs units="):
        order_statistics(right)
    with pytest.raises(InvalidArgumentError, match=r"page has shape \(3,\)"):
        Units(num_units=4, page=np.arange(3))


def test_a_t_test_gives_what_tables_of_students_distribution_say():
    # Upper tails of 0.05, 0.005 and 0.0005 for 10, 3 and 120 degrees of freedom.
    for freedom, t, wanted in [
        (10, 1.812, 0.05),
        (3, 5.841, 0.005),
        (120, 3.373, 5e-4),
    ]:
        values = random(freedom).standard_normal((freedom + 1, 1))
        values = (values - values.mean()) / values.std(ddof=1)
        shifted = values + t / np.sqrt(freedom + 1)
        assert exceeds(shifted)[0] == pytest.approx(wanted, rel=2e-3)
        assert exceeds(-shifted)[0] == pytest.approx(1 - wanted, rel=1e-3)


def test_one_value_in_all_draws_is_certain():
    same = np.array([[0.1, 0.0, -0.1]] * 4)
    assert exceeds(same).round(9).tolist() == [0.0, 0.5, 1.0]


def test_parts_that_hold_whole_buckets_of_like_units_are_no_trend():
    # Few of them: in some part no seed puts the rarest group, as is to be expected.
    def draw(first):
        def drawn(seed, epoch):
            buckets = np.argsort(COSTS).reshape(12, 80)
            mixed = buckets[random(first + seed, epoch).permutation(12)]
            return mixed.reshape(-1, 1, 4)

        return drawn

    for first in range(0, 400, 20):
        found = order_statistics(draw(first), UNITS, seeds=10)
        assert not [line for line in found.problems if line.startswith("cost by part")]
