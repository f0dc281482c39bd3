"""What a plan says of balance: mates that meet again, padding, what stays as it is."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from pagefeed.cli import main
from pagefeed.reports import step_costs

SIZES = {"large": 3000, "small": 600, "tiny": 30}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    rng, found = np.random.default_rng(3), {}
    for name, size in SIZES.items():
        found[name] = tmp_path_factory.mktemp(name)
        lengths = rng.lognormal(3, 0.8, size).astype(int).clip(1, 400)
        rows = [np.full(length, 7, np.uint16) for length in lengths]
        table = pa.table({"input_ids": rows})
        pq.write_table(table, found[name] / "a.parquet", row_group_size=100)
    return found


def datasets(folders):
    return {name: pf.parquet(at, column="input_ids") for name, at in folders.items()}


def documents(pad: Any = "longest") -> pf.Documents:
    return pf.Documents([], max_length=400, pad=pad)


@pytest.mark.parametrize("balance", ["tokens", pf.Balance(attention=1, stretch=64)])
@pytest.mark.parametrize("pad", ["longest", "max_length"])
@pytest.mark.parametrize("kind", ["alone", "mixed"])
def test_padding_of_batches_is_that_of_the_run(folders, balance, pad, kind):
    parts = datasets(folders)
    data: Any = parts["large"]
    if kind == "mixed":
        both = {name: (parts[name], 0.5) for name in ("large", "small")}
        data = pf.mix(both, unit="sequences", stop="first_exhausted")

    def share(balance: Any) -> float:
        places = tokens = 0
        for rank in range(2):
            for batch in loader(balance, rank):
                places += batch["labels"].size
                tokens += int(batch["lengths"].sum())
        return 1 - tokens / places

    def loader(balance: Any, rank: int = 0) -> pf.Loader:
        return pf.Loader(
            data,
            sequences=documents(pad),
            batch_size=8,
            rank=rank,
            world_size=2,
            balance=balance,
            fields=("labels",),
        )

    told = step_costs(loader(balance))
    assert told.padding == pytest.approx(share(balance))
    assert told.padding_unbalanced == pytest.approx(share(None))
    assert told.padding is not None
    assert told.padding_unbalanced is not None
    if balance == "tokens" and pad == "longest" and kind == "alone":
        assert told.padding < 0.3 < told.padding_unbalanced


def test_figures_of_steps_are_those_of_the_run(folders):
    data, ranks = datasets(folders)["large"], range(3)

    def loader(balance: Any, rank: int = 0) -> pf.Loader:
        return pf.Loader(
            data,
            sequences=documents(),
            batch_size=8,
            rank=rank,
            world_size=len(ranks),
            balance=balance,
            fields=("labels",),
        )

    def costs(balance: Any) -> Any:
        """Tokens of each document: [steps, ranks, rows]."""
        of_ranks = [[b["lengths"] for b in loader(balance, rank)] for rank in ranks]
        return np.array(of_ranks, dtype=np.float64).swapaxes(0, 1)

    def slowest(found: Any) -> float:
        of_ranks = found.sum(axis=2)
        return float((of_ranks.max(axis=1) / of_ranks.mean(axis=1)).mean())

    def spread(found: Any) -> float:
        of_steps = found.mean(axis=(1, 2))
        return float(of_steps.std() / of_steps.mean())

    told, dealt, plain = step_costs(loader("tokens")), costs("tokens"), costs(None)
    assert told.slowest == pytest.approx(slowest(dealt))
    assert told.slowest_unbalanced == pytest.approx(slowest(plain))
    assert told.spread == pytest.approx(spread(dealt))
    assert told.spread_unbalanced == pytest.approx(spread(plain))


def test_sequences_of_one_length_and_joined_ones_have_no_such_padding(folders):
    data = datasets(folders)["large"]
    for sequences in (pf.Packed(400), documents(None)):
        loader = pf.Loader(data, sequences=sequences, batch_size=4, seed=1)
        told = step_costs(loader)
        assert (told.padding, told.padding_unbalanced) == (None, None)


def test_a_plan_prints_padding_beside_mates_that_meet_again(folders, capsys):
    loader = pf.Loader(
        datasets(folders)["large"],
        sequences=documents(),
        batch_size=16,
        balance="tokens",
    )
    plan = pf.forecast(loader)
    assert plan.step_costs is not None
    assert main(["plan", name_run(loader)]) == 0
    told = dict(
        line.strip().split("  ", 1) for line in capsys.readouterr().out.splitlines()
    )
    assert told["batch mates that meet again"].strip() == (
        f"{plan.met_again:.2%} (random {plan.met_again_random:.2%})"
    )
    assert told["padding of batches"].strip() == (
        f"{plan.step_costs.padding:.1%} "
        f"({plan.step_costs.padding_unbalanced:.1%} without balance)"
    )


def test_a_plan_names_datasets_that_stay_as_they_are(folders, capsys):
    parts = {
        name: (data, weight)
        for (name, data), weight in zip(
            datasets(folders).items(), (0.6, 0.2, 0.2), strict=True
        )
    }

    def loader(world_size: int, **options: Any) -> pf.Loader:
        return pf.Loader(
            pf.mix(parts, unit="sequences", max_steps=100, **options),
            sequences=documents(),
            batch_size=4,
            rank=0,
            world_size=world_size,
            balance="attention",
        )

    def balanced(loader: pf.Loader) -> dict[str, bool | None]:
        found = pf.forecast(loader).datasets
        return {name: found[name].is_balanced for name in found}

    # Of an epoch of "small" 600 / (0.2 * 8) sequences are a rank's.
    assert balanced(loader(8)) == {"large": True, "small": True, "tiny": False}
    assert balanced(loader(64)) == {"large": True, "small": False, "tiny": False}
    plain = pf.Loader(pf.mix(parts, max_steps=9), sequences=documents(), batch_size=4)
    assert set(balanced(plain).values()) == {None}
    # Under other weights, later.
    stages = [pf.Stage(start_step=50, weights={"small": 3, "large": 1})]
    assert balanced(loader(24, stages=stages))["small"] is False
    stages = [pf.Stage(start_step=500, weights={"small": 3, "large": 1})]
    assert balanced(loader(24, stages=stages))["small"] is True

    assert main(["plan", name_run(loader(1)), "--world-size", "8"]) == 0
    assert "datasets that are not balanced" in (told := capsys.readouterr().out)
    assert "  tiny: an epoch has fewer than some 64 sequences a rank" in told
    assert main(["plan", name_run(plain)]) == 0
    assert "not balanced" not in capsys.readouterr().out
