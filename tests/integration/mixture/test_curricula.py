"""A curriculum by a column: difficulty follows the pace, every row once an epoch."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import ColumnNotFoundError, InvalidArgumentError

ROWS, STEPS = 1600, 60
HARD = np.random.default_rng(1).permutation(ROWS)
"""How hard each row is: all different, so that its mean tells what is open."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("curricula") / "a.parquet"
    lengths = 1 + HARD % 40
    table = {
        "input_ids": [[int(n)] * int(k) for n, k in zip(HARD, lengths, strict=True)],
        "hard": HARD / ROWS,
        "easy": -HARD,
        "few": HARD % 3,
        "word": ["w"] * ROWS,
    }
    pq.write_table(pa.table(table), path, row_group_size=100, data_page_size=1000)
    return pf.parquet(path, column="input_ids")


def open_loader(mixture: Any, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Documents(columns=["hard"]),
        "batch_size": 12,
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
    }
    return pf.Loader(mixture, **settings | options)


def open_share(pace: str, start: float, t: float) -> float:
    """The share that is open, as the documentation gives it."""
    if pace == "linear":
        return start + (1 - start) * t
    return float(np.sqrt(start**2 + (1 - start**2) * t))


@pytest.mark.parametrize("pace", ["linear", "sqrt"])
@pytest.mark.parametrize(("start", "mixed"), [(0.2, 0.1), (0.1, 0.0), (0.5, 0.4)])
def test_difficulty_follows_the_pace_on_any_ranks(data, pace, start, mixed):
    mixture = pf.curriculum(
        *(data,),
        by="hard",
        steps=STEPS,
        pace=pace,
        start=start,
        mix=mixed,
        unit="sequences",
    )
    for world_size in (1, 2, 3):
        means = np.zeros(STEPS)
        for rank in range(world_size):
            size = 12 // world_size
            ranks = {"rank": rank, "world_size": world_size, "batch_size": size}
            batches = [b["hard"].mean() for b in open_loader(mixture, **ranks)]
            assert len(batches) == STEPS
            means += np.array(batches) / world_size
        for first in range(0, STEPS, 15):
            opened = open_share(pace, start, (first + 7.5) / STEPS)
            asked = (1 - mixed) * opened / 2 + mixed / 2
            # 180 rows: their mean scatters by 0.3 / sqrt(180), by less inside of tiers.
            assert means[first : first + 15].mean() == pytest.approx(asked, abs=0.04)


def test_steps_open_one_tier_after_another(data):
    given: dict[str, Any] = {"tiers": 5, "pace": "step", "start": 0.4, "mix": 0.0}
    mixture = pf.curriculum(data, by="hard", steps=40, unit="sequences", **given)
    hardest = [b["hard"].max() for b in open_loader(mixture)]
    # 2, 3, 4 and 5 of five tiers, for ten steps each.
    for number in range(4):
        most = max(hardest[number * 10 : number * 10 + 10])
        assert 0.2 + 0.2 * number < most < 0.4 + 0.2 * number


def test_a_resume_is_exact_and_nothing_is_repeated_early(data):
    mixture = pf.curriculum(data, by="hard", steps=STEPS, tiers=5, unit="sequences")
    whole = [b["hard"].tolist() for b in open_loader(mixture)]
    assert len(whole) == STEPS
    begun = open_loader(mixture)
    assert [b["hard"].tolist() for b in islice(begun, 25)] == whole[:25]
    state = json.loads(json.dumps(begun.state_dict()))
    ranks = [open_loader(mixture, rank=r, world_size=3, batch_size=4) for r in range(3)]
    for rank in ranks:
        rank.load_state_dict(state)
    rest = [[sorted(b["hard"].tolist()) for b in rank] for rank in ranks]
    together = [sorted(a + b + c) for a, b, c in zip(*rest, strict=True)]
    assert together == [sorted(step) for step in whole[25:]]
    # Lanes begin an epoch of a small tier at their own time.
    counts = Counter(value for step in whole for value in step)
    tiers = np.array([counts.get(n / ROWS, 0) for n in range(ROWS)]).reshape(5, 320)
    assert (tiers.max(axis=1) - tiers.min(axis=1) <= 2).all()
    assert tiers.sum(axis=1)[0] > tiers.sum(axis=1)[-1] > 0


def test_tokens_are_shared_out_by_tokens(data):
    """All open: each tier comes as often as its tokens are many."""
    mixture = pf.curriculum(data, by="hard", steps=60, start=1.0, tiers=4)
    assert not mixture.stages
    loader = open_loader(mixture, sequences=pf.Windows(32), batch_size=8)
    tokens = np.concatenate([b["input_ids"].ravel() for b in loader])
    lengths = 1 + HARD % 40
    for tier in range(4):
        of_tier = lengths[tier == HARD * 4 // ROWS].sum() / lengths.sum()
        share = (tokens * 4 // ROWS == tier).mean()
        assert share == pytest.approx(of_tier, abs=0.02)


def test_high_numbers_may_be_easy(data):
    given: dict[str, Any] = {
        "tiers": 10,
        "steps": 40,
        "unit": "sequences",
        "mix": 0.0,
        "start": 0.1,
    }
    low = pf.curriculum(data, by="hard", **given)
    high = pf.curriculum(data, by="easy", easy="high", **given)
    for mixture in (low, high):
        begin = next(iter(open_loader(mixture)))
        assert begin["hard"].mean() < 0.15
    plan = pf.forecast(open_loader(low))
    assert len(plan.stages) >= 8


def test_arguments_are_checked(data):
    usual: dict[str, Any] = {"by": "hard", "steps": 10}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"steps": 0}, "steps=0"),
        ({"tiers": 1}, "tiers=1"),
        ({"pace": "squrt"}, "did you mean 'sqrt'"),
        ({"start": 0}, "start=0"),
        ({"start": 1.2}, "start=1.2"),
        ({"mix": -0.1}, "mix=-0.1"),
        ({"easy": "lo"}, "easy='lo'"),
        ({"unit": "token"}, "did you mean 'tokens'"),
        ({"by": "few"}, "rows of equal value"),
        ({"by": 3}, "column=3"),
        ({"max_steps": -1}, "max_steps=-1"),
    ]
    for given, said in wrong:
        with pytest.raises(InvalidArgumentError, match=said):
            pf.curriculum(data, **usual | given)
    with pytest.raises(ColumnNotFoundError, match="hrad"):
        pf.curriculum(data, by="hrad", steps=10)
    with pytest.raises(InvalidArgumentError, match="has no tiers"):
        pf.curriculum("a.parquet", by="hard", steps=10)
