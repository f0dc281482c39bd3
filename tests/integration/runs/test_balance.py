"""Ranks of a step cost about the same, by what their batches hold."""

import json
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from pagefeed.balance import Dealing
from pagefeed.cli import main
from pagefeed.core.run import Sequences
from pagefeed.errors import BalanceWarning, InvalidArgumentError, StateMismatchError
from pagefeed.integrations.delivery import Delivery
from pagefeed.reports import step_costs as step_costs_of
from pagefeed.reports.step_costs import slowest_ranks

RANKS = 4
LENGTH = 256


def write(folder, *, seed, median, num_rows):
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for number in range(2):
        lengths = rng.lognormal(np.log(median), 1.3, num_rows).astype(int) + 1
        rows = [np.full(length, 7, np.int32) for length in lengths.clip(max=2000)]
        table = pa.table({"input_ids": rows})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=50)
    return pf.parquet(folder, column="input_ids")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("balance")
    return {
        "short": write(folder / "short", seed=1, median=15, num_rows=24_000),
        "long": write(folder / "long", seed=2, median=60, num_rows=6_000),
    }


def loaders(data, **options: Any):
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH),
        "batch_size": 2,
        "seed": 3,
    } | options
    settings.setdefault("fields", ("input_ids", "cu_seqlens"))
    return [
        pf.Loader(data, rank=rank, world_size=RANKS, num_threads=1, **settings)
        for rank in range(RANKS)
    ]


def step_costs(data, **options):
    """Squared lengths of documents of each step and rank: float64 [steps, ranks]."""
    costs = [
        [np.square(np.diff(batch["cu_seqlens"]).astype(float)).sum() for batch in one]
        for one in loaders(data, **options)
    ]
    return np.array(costs).T


def slowest(costs):
    return float((costs.max(axis=1) / costs.mean(axis=1)).mean())


def mixed(datasets, **options):
    parts = {"short": (datasets["short"], 0.5), "long": (datasets["long"], 0.5)}
    return pf.mix(parts, **options)


@pytest.mark.filterwarnings("ignore::pagefeed.errors.BalanceWarning")
@pytest.mark.parametrize("kind", ["alone", "mixed"])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_the_slowest_rank_is_hardly_slower_than_the_mean(datasets, kind, batch_size):
    steps = {"stop": "first_exhausted"}
    data = datasets["long"] if kind == "alone" else mixed(datasets, **steps)
    plain = step_costs(data, batch_size=batch_size)
    balanced = step_costs(data, batch_size=batch_size, balance="attention")
    assert len(plain) == len(balanced) > 100
    assert slowest(plain) > 1.12
    assert slowest(balanced) < 1.07
    if batch_size == 4:  # Steps are alike, too.
        assert balanced.sum(axis=1).std() < 1.3 * plain.sum(axis=1).std()


@pytest.mark.parametrize("settings", [{}, {"max_steps": 30}])
def test_weights_change_where_a_stretch_ends(datasets, settings):
    options = {"balance": pf.Balance(attention=1, stretch=8)}
    epochs = 1 if settings else None
    (loader, *_) = loaders(mixed(datasets, **settings), epochs=epochs, **options)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    before = loader.state_dict()
    loader.set_weights({"short": 1, "long": 0})
    after = loader.state_dict()
    start = after["mixture"]["stages"][-1][0]
    assert start == 8 * RANKS > after["position"]
    for rank in range(RANKS):
        for step in range(3, start // (2 * RANKS)):
            places = [
                [one.locate(step, row) for row in range(2)]
                for one in continued(datasets, settings, options, rank, before, after)
            ]
            assert places[0] == places[1]


def continued(datasets, settings, options, rank, *states):
    """Loaders that go on from states."""
    epochs = 1 if settings else None
    for state in states:
        loader = loaders(mixed(datasets, **settings), epochs=epochs, **options)[rank]
        loader.load_state_dict(json.loads(json.dumps(state)))
        yield loader


def test_one_sequence_a_rank_and_step_is_warned_of_once(datasets):
    options = {"balance": "attention", "batch_size": 1}
    (loader, *_) = loaders(datasets["long"], **options)
    with pytest.warns(BalanceWarning, match="accumulate"):
        next(iter(loader))
    next(iter(loader))


@pytest.mark.parametrize(("steps", "is_warned"), [(1, True), (3, True), (4, False)])
def test_a_framework_tells_how_many_steps_it_accumulates(datasets, steps, is_warned):
    (loader, *_) = loaders(datasets["long"], balance="attention", batch_size=1)
    delivery = Delivery(loader, "it", format=None, gather=lambda one: [one] * RANKS)
    delivery.accumulate(steps)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", BalanceWarning)
        next(iter(delivery))
    assert [f"here {steps}" in str(each.message) for each in given] == [
        True
    ] * is_warned


@pytest.mark.parametrize(
    "options",
    [
        {"balance": None, "batch_size": 1},
        {"balance": "attention", "batch_size": 2},
        {"balance": pf.Balance(attention=1, bucket=4), "batch_size": 1},
        {
            "balance": "attention",
            "batch_size": None,
            "batch_tokens": 2000,
            "sequences": pf.Documents([], max_length=LENGTH, pad=None),
        },
    ],
    ids=["no balance", "two sequences", "buckets", "batches of tokens"],
)
def test_other_steps_are_not_warned_of(datasets, options):
    (loader, *_) = loaders(datasets["long"], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BalanceWarning)
        next(iter(loader))


def test_a_state_is_small_and_of_its_balance_alone(datasets):
    (loader, *_) = loaders(datasets["long"], balance="attention")
    next(iter(loader))
    state = loader.state_dict()
    assert len(json.dumps(state)) < 1000
    assert state["ranks"] == RANKS
    for balance in (None, pf.Balance(attention=1, stretch=100)):
        (other, *_) = loaders(datasets["long"], balance=balance)
        with pytest.raises(StateMismatchError, match="balance"):
            other.load_state_dict(state)
    plain = loaders(datasets["long"])[0].state_dict()
    assert not {"balance", "ranks"} & set(plain)
    for broken in ({"ranks": 0}, {"balance": 3}, {"balance": None}):
        with pytest.raises(StateMismatchError):
            loader.load_state_dict(state | broken)


@pytest.mark.parametrize("kind", ["alone", "mixed"])
def test_what_steps_cost_is_told_before_and_meanwhile(datasets, kind):
    data = datasets["long"]
    if kind == "mixed":
        data = mixed(datasets, stop="first_exhausted")
    told = step_costs_of(loaders(data, balance="attention")[0])
    for balance, figure in (
        ("attention", (told.slowest, told.spread)),
        (None, (told.slowest_unbalanced, told.spread_unbalanced)),
    ):
        seen = step_costs(data, balance=balance)
        means = seen.mean(axis=1)
        spread = means.std() / means.mean()
        assert figure == pytest.approx((slowest(seen), spread), rel=0.05)
    assert told == step_costs_of(loaders(data)[0])
    balanced, plain = slowest_ranks(loaders(data, balance="attention")[0])
    seen = step_costs(data, balance="attention")
    # In a batch the padding of a sequence is a segment, and costs nothing here.
    near = np.isclose(balanced, seen.max(axis=1) / seen.mean(axis=1), rtol=0.05)
    assert near.mean() > 0.97
    assert (balanced.mean(), plain.mean()) == (told.slowest, told.slowest_unbalanced)
    assert told.slowest < told.slowest_unbalanced

    (loader, *_) = loaders(data, balance="attention")
    assert "data/slowest_rank" not in loader.metrics()
    seen = step_costs(data, balance="attention")
    for _, costs in zip(loader, seen[:5], strict=False):
        told_now = loader.metrics()["data/slowest_rank"]
        assert told_now == pytest.approx(costs.max() / costs.mean(), rel=0.05)
    (plain, *_) = loaders(data)
    next(iter(plain))
    assert "data/slowest_rank" not in plain.metrics()


def test_a_plan_tells_what_steps_cost(datasets, capsys):
    loader = loaders(datasets["long"], balance="attention", seed=0, batch_size=2)[0]
    assert main(["plan", name_run(loader)]) == 0
    told = step_costs_of(loader)
    [line] = [
        line for line in capsys.readouterr().out.splitlines() if "slowest" in line
    ]
    assert line.split()[5] == f"{told.slowest:.2f}"
    (plain, *_) = loaders(datasets["long"])
    assert main(["plan", name_run(plain)]) == 0
    assert "slowest" not in capsys.readouterr().out
    assert pf.forecast(plain).step_costs is None


def test_a_plan_tells_what_steps_of_a_mixture_cost(datasets, capsys):
    data = mixed(datasets, max_steps=300)
    (loader, *_) = loaders(data, balance="attention", seed=0)
    assert main(["plan", name_run(loader)]) == 0
    told = capsys.readouterr().out
    found = step_costs_of(loader)
    for line in (
        f"{found.slowest:.2f} of the mean ({found.slowest_unbalanced:.2f} without",
        f"steps vary by {found.spread:.0%} ({found.spread_unbalanced:.0%})",
    ):
        assert line in told


@pytest.mark.parametrize("kind", ["alone", "mixed"])
@pytest.mark.parametrize("budget", [None, 2000])
@pytest.mark.parametrize(
    "sequences", [pf.Packed(LENGTH), pf.Windows(LENGTH), pf.Documents(max_length=99)]
)
def test_sequences_of_as_many_tokens_are_not_balanced_by_tokens(
    datasets, sequences, budget, kind
):
    data = mixed(datasets, max_steps=9) if kind == "mixed" else datasets["long"]
    options: dict[str, Any] = {"sequences": sequences, "balance": "tokens"}
    options["fields"] = ("input_ids",)
    if budget is not None:
        options |= {"batch_size": None, "batch_tokens": budget}
    elif isinstance(sequences, pf.Documents):
        loaders(data, **options)
        return
    with pytest.raises(InvalidArgumentError, match="balances nothing"):
        loaders(data, **options)


def test_documents_without_borders_cannot_be_balanced(tmp_path):
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    data = pf.tokens(tmp_path / "a.bin", dtype="uint16")
    with pytest.raises(InvalidArgumentError, match="documents"):
        loaders(data, sequences=pf.Windows(8), balance="attention", fields=["labels"])


@pytest.mark.parametrize("kind", ["alone", "mixed"])
def test_metrics_deal_all_ranks_at_once_and_few_of_very_many(
    datasets, kind, monkeypatch
):
    data = datasets["short"]
    if kind == "mixed":
        data = mixed(datasets, max_steps=20)
    options: dict[str, Any] = {"rank": 0, "world_size": 200, "batch_size": 1}
    loader = pf.Loader(
        data,
        sequences=pf.Documents([], max_length=999),
        balance=pf.Balance(attention=1, bucket=2),
        fields=("labels",),
        num_threads=1,
        **options,
    )
    iterator, dealt = iter(loader), []
    plain = Dealing._deal_some

    def counted(self, stretch, ranks):
        dealt.append(len(ranks))
        return plain(self, stretch, ranks)

    next(iterator)
    monkeypatch.setattr(Dealing, "_deal_some", counted)
    assert loader.metrics()["data/slowest_rank"] >= 1
    # Every fourth rank but what was dealt: the own one, and of a mixture those with
    # which it changes places. Counts of its datasets are those of all ranks.
    wanted = [49] if kind == "alone" else [200, 36]
    assert dealt == wanted
    loader.metrics()
    next(iterator)
    assert dealt == wanted


def test_very_many_ranks_that_share_a_stretch_deal_a_shorter_one():
    looked = []

    def found(positions):
        looked.append(len(positions))
        yield
        return Sequences(positions)

    for ranks in (64, 1024, 4096):
        dealing = Dealing(
            found,
            balance=pf.Balance(attention=1, exact=True),
            key=b"1",
            costs=lambda sequences: (sequences % 7).astype(np.float64),
            ranks=ranks,
            divisions=1 << 30,
        )
        for position in range(0, 1 << 23, 1 << 20):
            for _ in dealing.reading(np.array([position])):
                pass
        held = sum(stretch.put.size for stretch in dealing._cache.values())
        assert max(looked) <= 1 << 18
        assert held <= 1 << 20


def test_the_stretches_used_last_are_kept():
    looked = []

    def found(positions):
        looked.append(int(positions[0]))
        yield
        return Sequences(positions)

    dealing = Dealing(
        found,
        balance=pf.Balance(attention=1, stretch=8),
        key=b"1",
        costs=lambda sequences: (sequences % 7).astype(np.float64),
        ranks=1,
        divisions=1 << 10,
    )
    for position in (0, 8, 16, 24, 1, 32, 33, 2):
        for _ in dealing.reading(np.array([position])):
            pass
    assert looked == [0, 8, 16, 24, 32]
