"""What is said of a mixture beforehand is what comes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.named import name_run
from made.numbered import LENGTH, write_numbered
from pagefeed.cli import main
from pagefeed.core.run import Sequences
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import MixtureCursor
from pagefeed.reports import Leg, forecast, mixture_weights, verify
from pagefeed.run import LoaderState

ROWS = {"code": 200, "math": 12, "web": 300}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("mixture")
    for name, rows in ROWS.items():
        (folder / name).mkdir()
        write_numbered(folder / name, num_rows=rows)
    return folder


def make(folder: Path, sequences: Any = None, **options: Any) -> pf.Loader:
    parts = {name: pf.parquet(folder / name, column="input_ids") for name in ROWS}
    weights = {"code": 0.29, "math": 0.01, "web": 0.7}
    stages = [pf.Stage(start_step=50, weights={"code": 1, "web": 1}, anneal=20)]
    settings: dict[str, Any] = {"stages": stages, "max_steps": 90} | options
    return pf.Loader(
        pf.mix({name: (parts[name], weights[name]) for name in ROWS}, **settings),
        sequences=sequences or pf.Windows(LENGTH, tail="drop"),
        batch_size=4,
        num_threads=2,
        memory="8MiB",
        rank=0,
        world_size=1,
    )


def test_a_forecast_is_what_comes(folder):
    loader = make(folder)
    plan = forecast(loader)
    assert plan.steps == len(loader) == sum(1 for _ in loader)
    stats = loader.stats()
    for name in ROWS:
        assert plan.datasets[name].delivered_sequences == stats[f"{name}/sequences"]
        tokens = sum(stage.tokens[name] for stage in plan.stages)
        assert tokens == stats[f"{name}/tokens"]
        assert plan.stages[-1].epochs[name] == plan.datasets[name].epochs
    assert [stage.first_step for stage in plan.stages] == [0, 50]
    assert plan.stages[1].anneal_steps == 20
    # A stage of 200 sequences, one of 160; a few sequences are what the lanes may be
    # off.
    assert abs(plan.stages[0].shares["web"] - 0.7) < 0.03
    # Half of the first twenty steps' way, and all of the other twenty's.
    assert abs(plan.stages[1].shares["web"] - (0.6 * 20 + 0.5 * 20) / 40) < 0.04
    assert 0 < plan.needed_bytes < 1 << 20


def test_what_is_packed_takes_memory_too(folder):
    plan = forecast(make(folder, sequences=pf.Packed(LENGTH)))
    whole = forecast(make(folder))
    # Bundles are many pages each.
    assert plan.needed_bytes > whole.needed_bytes > 0


def test_a_forecast_without_an_end_goes_through_all_once(folder):
    plan = forecast(make(folder, stages=[], max_steps=None))
    assert plan.steps is None
    assert min(data.epochs for data in plan.datasets.values()) >= 1


def test_only_a_mixture_has_shares(folder):
    single = pf.Loader(
        pf.parquet(folder / "web", column="input_ids"),
        sequences=pf.Windows(LENGTH),
        batch_size=4,
    )
    assert forecast(single).datasets == {}
    with pytest.raises(InvalidArgumentError, match="not a mixture"):
        mixture_weights(single)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stages": [pf.Stage(start_step=0, weights={"web": 1}, anneal=30)]},
        {"stages": [pf.Stage(start_tokens=0, weights={"web": 1}, anneal=9000)]},
        {
            "stages": [],
            "max_steps": None,
            "max_epochs": {"web": 2, "code": 1, "math": 3},
        },
        {"stages": [], "max_steps": None, "stop": "first_exhausted"},
        {"stages": [], "max_steps": None, "stop": "all_exhausted"},
    ],
)
def test_mixtures_are_verified_over_resumes(folder, options):
    loader = make(folder, **options)
    legs = [
        Leg(world_size=2, batch_size=3, steps=7),
        Leg(world_size=5, batch_size=1, steps=9),
        Leg(world_size=1, batch_size=1),
    ]
    result = verify(loader, legs, epoch=1)
    assert result.problems == []
    assert result.num_delivered + result.num_dropped == result.num_sequences


def test_what_is_wrong_is_found(folder, monkeypatch):
    loader = make(folder, max_epochs=dict.fromkeys(ROWS, 1), stages=[], max_steps=None)
    sequences = MixtureCursor.at

    def repeated(
        track: MixtureCursor, positions: range | np.ndarray
    ) -> Iterator[Sequences | None]:
        for part in sequences(track, positions):
            if part is not None:
                part.numbers[part.numbers == 7] = 8
            yield part

    monkeypatch.setattr(MixtureCursor, "at", repeated)
    [problem] = verify(loader).problems
    assert "2 sequences of 'code'" in problem
    assert "such as [7, 8]" in problem


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"position": 0}, "more or less often"),
        ({"num_lanes": 0}, "leg 0 cannot load its state"),
    ],
)
def test_every_leg_goes_on_from_a_saved_state(folder, monkeypatch, change, problem):
    to_dict = LoaderState.to_dict
    monkeypatch.setattr(LoaderState, "to_dict", lambda state: to_dict(state) | change)
    legs = [Leg(world_size=2, batch_size=3, steps=7), Leg(world_size=1, batch_size=4)]
    assert problem in verify(make(folder), legs).problems[0]


def test_a_leg_ends_within_the_epoch(folder, capsys):
    loader = make(folder, stages=[], max_steps=10)
    last = Leg(world_size=2, batch_size=4)
    assert verify(loader, [Leg(world_size=1, batch_size=4, steps=10), last]).ok
    with pytest.raises(InvalidArgumentError, match=r"has 11 steps .* 10 are left"):
        verify(loader, [Leg(world_size=1, batch_size=4, steps=11), last])
    assert main(["verify", name_run(loader), "--resume", "999999:2"]) == 2
    assert "leg 0 has 999999 steps" in capsys.readouterr().err


def test_endless_mixtures_are_not_verified(folder):
    with pytest.raises(InvalidArgumentError, match="never ends"):
        verify(make(folder, stages=[], max_steps=None))


def test_the_command_line_plans_a_mixture(folder, capsys):
    run = name_run(make(folder))
    assert main(["plan", run, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["steps"] == len(make(folder))
    assert len(plan["stages"]) > 1
    assert main(["plan", run]) == 0
    assert "stage 1 from step" in capsys.readouterr().out
    assert main(["verify", run, "--resume", "9:3"]) == 0
    assert "as often as it should be" in capsys.readouterr().out


def test_a_stage_has_one_start():
    stage = pf.Stage(start_tokens=10, weights={"web": 1})
    assert stage.start == 10
    for step in (3, 0):
        assert replace(stage, start_tokens=None, start_step=step).start == step
    assert replace(stage, start_tokens=0).start == 0
