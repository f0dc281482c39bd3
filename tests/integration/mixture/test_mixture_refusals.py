"""Mixtures, runs and states that cannot be right are refused."""

import json
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
import pagefeed.mixture.state_part
from made.numbered import write_numbered
from models.mixing import APART, ROWS, make, mixture, take, write_datasets
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture import MixtureCursor
from pagefeed.reports import forecast, verify


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> dict[str, pf.dataset.ParquetDataset]:
    """Three datasets that tokens tell apart."""
    return write_datasets(tmp_path_factory.mktemp("mixture"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"swap": True}, r"web: rows in them then \d+, now \d+; tokens in them then"),
        ({"max_epochs": {"web": 2}}, "web: max_epochs then None, now 2"),
        ({"weights": {"math": 1}}, r"the state has \['web'\], this loader \['math'\]"),
    ],
)
def test_another_mixture_is_refused(datasets, change, message):
    state = make(mixture(datasets, {"web": 1}, max_steps=9)).state_dict()
    weights = change.pop("weights", {"web": 1})
    if change.pop("swap", False):
        datasets = datasets | {"web": datasets["code"]}
    other = make(mixture(datasets, weights, max_steps=9, **change))
    with pytest.raises(StateMismatchError, match=message):
        other.load_state_dict(state)


def test_other_contents_of_equal_size_are_refused(datasets, tmp_path):
    state = make(mixture(datasets, max_steps=9)).state_dict()
    write_numbered(tmp_path, num_rows=ROWS["web"], first_token=7 * APART)
    web = pf.parquet(tmp_path, column="input_ids")
    other = make(mixture(datasets | {"web": web}, max_steps=9))
    assert web.index.num_values == datasets["web"].index.num_values
    with pytest.raises(
        StateMismatchError, match="web: as many files, with as many rows"
    ):
        other.load_state_dict(state)


def test_states_of_one_dataset_and_of_mixtures_do_not_mix(datasets):
    mixed, single = make(mixture(datasets, max_steps=9)), make(datasets["web"])
    with pytest.raises(StateMismatchError, match="dataset: the state has 'mixture'"):
        single.load_state_dict(mixed.state_dict())
    with pytest.raises(StateMismatchError, match="this loader 'mixture'"):
        mixed.load_state_dict(single.state_dict())


def test_wrong_mixtures_are_refused(datasets):
    web, code = datasets["web"], datasets["code"]
    refused: list[tuple[Any, dict[str, Any], str]] = [
        ({}, {}, "needs datasets"),
        ([web, code], {}, "needs datasets"),
        ({"web": (web, -1)}, {}, "weight of 'web'=-1 must be a number from 0"),
        ({"web": (web, float("nan"))}, {}, "weight of 'web'=nan must be"),
        *(
            ({"web": (web, large)}, {}, r"weight of 'web'=.* 0 to 1e\+100")
            for large in (1e308, 10**400, Fraction(10**400))
        ),
        ({"web": (web, 0), "code": (code, 0)}, {}, "no weight is above 0"),
        ({"web": (web, 1), "code": code}, {}, "code: no weight"),
        ({"web": (web, 1)}, {"temperature": 2}, "makes weights of sizes"),
        ({"web": web}, {"temperature": 0}, "must be a number, 1 for shares by size"),
        ({"web": "corpus/"}, {}, "expected a dataset"),
        ({"web": web}, {"max_epochs": {"wbe": 1}}, "'wbe'.*it has 'web'"),
        ({"web": web}, {"max_epochs": {"web": 0}}, "at least 1"),
        ({"web": web}, {"stop": "never"}, "first_exhausted, all_exhausted"),
        ({"web": web}, {"unit": "rows"}, "tokens, sequences"),
        (
            {"web": web},
            {"stages": [pf.Stage(start_step=1, weights={"books": 1})]},
            "'books'.*it has 'web'",
        ),
    ]
    for parts, options, message in refused:
        with pytest.raises(InvalidArgumentError, match=message):
            pf.mix(parts, **options)
    with pytest.raises(InvalidArgumentError, match="exactly one"):
        pf.Stage(weights={"web": 1})
    with pytest.raises(InvalidArgumentError, match="exactly one"):
        pf.Stage(weights={"web": 1}, start_step=1, start_tokens=1)


def test_wrong_runs_are_refused(datasets, tmp_path):
    loader = make(mixture(datasets, max_steps=9))
    with pytest.raises(InvalidArgumentError, match=r"'wbe'.*it has"):
        loader.set_weights({"wbe": 1})
    with pytest.raises(InvalidArgumentError, match="needs a mixture"):
        make(datasets["web"]).set_weights({"web": 1})
    with pytest.raises(InvalidArgumentError, match="give epochs=1"):
        make(mixture(datasets), epochs=2)
    stages = [pf.Stage(start_step=s, weights={"web": 1}) for s in (9, 5)]
    with pytest.raises(InvalidArgumentError, match="rising start"):
        make(mixture(datasets, stages=stages))
    stages = [pf.Stage(start_step=10**6, weights={"web": 1})]
    caps = dict.fromkeys(ROWS, 1)
    with pytest.raises(InvalidArgumentError, match="before the weights change"):
        make(mixture(datasets, stages=stages, max_epochs=caps)).seek(0)
    (tmp_path / "empty").mkdir()
    write_numbered(tmp_path / "empty", num_rows=0)
    empty = pf.parquet(tmp_path / "empty", column="input_ids")
    with pytest.raises(InvalidArgumentError, match="dataset 'empty' holds no sequence"):
        make(pf.mix({"empty": (empty, 0.1), "web": (datasets["web"], 1)}))
    with pytest.raises(InvalidArgumentError, match="dataset 'empty' holds no sequence"):
        make(pf.mix({"empty": empty}))


def test_an_empty_dataset_has_no_weight(datasets, tmp_path):
    write_numbered(tmp_path, num_rows=0)
    empty, web = pf.parquet(tmp_path, column="input_ids"), datasets["web"]
    alone = take([make(pf.mix({"web": web}, max_steps=9))])
    by_size = pf.mix({"empty": empty, "web": web}, max_steps=9)
    weighted = pf.mix({"empty": (empty, 0), "web": (web, 1)}, max_steps=9)
    for mixed in (by_size, weighted):
        loader = make(mixed)
        assert take([loader]) == alone
        loader.set_weights({"web": 2, "empty": 0})
        with pytest.raises(InvalidArgumentError, match="'empty': no sequence"):
            loader.set_weights({"web": 2, "empty": 1})
        resumed = make(mixed)
        resumed.load_state_dict(loader.state_dict())
        assert verify(resumed).ok
        assert forecast(resumed).steps == 9
    stages = [pf.Stage(start_step=3, weights={"empty": 1})]
    with pytest.raises(InvalidArgumentError, match="dataset 'empty' holds no sequence"):
        make(pf.mix({"empty": (empty, 0), "web": (web, 1)}, stages=stages))


def test_an_empty_tier_is_left_out_of_a_mixture(tmp_path):
    table = pa.table({"input_ids": [[*range(64)]] * 40, "quality": [1.0] * 40})
    pq.write_table(table, tmp_path / "a.parquet")
    tiers = pf.parquet(tmp_path, column="input_ids").tiers("quality", edges=[2.0])
    loader = make(pf.mix(tiers, max_steps=5))
    assert len(list(loader)) == 5
    assert len(loader.view().run.datasets) == 1 < len(tiers)


def test_too_many_changes_are_refused_and_leave_all_as_it_was(datasets, monkeypatch):
    monkeypatch.setattr("pagefeed.mixture.state_part.MAX_STATE_BYTES", 1000)
    loader = make(mixture(datasets))
    states = []

    def change_often() -> None:
        for step in range(100):
            loader.seek(step)
            states.append(loader.state_dict())
            loader.set_weights({"web": 1, "code": 1 + step / 7})

    with pytest.raises(InvalidArgumentError, match=r"make a state of 1... bytes"):
        change_often()
    assert len(states) > 5
    assert loader.state_dict() == states[-1]
    assert len(json.dumps(states[-1])) <= 1000


def test_weights_change_until_the_first_lane_has_run_out(datasets):
    loader = make(mixture(datasets, max_epochs=dict.fromkeys(ROWS, 1)), batch_size=1)
    track = loader.view().run.at(loader.view().position.now)
    assert isinstance(track, MixtureCursor)
    last = track.course.end_of_changes
    assert last < len(loader)
    loader.seek(last)
    loader.set_weights({"web": 1, "code": 1, "math": 1})
    loader.seek(last + 1)
    with pytest.raises(InvalidArgumentError, match="has run out"):
        loader.set_weights({"web": 2, "code": 1, "math": 1})
