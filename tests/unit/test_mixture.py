"""From what is asked for to weights of sequences by position."""

import hashlib

import numpy as np
import pytest

from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture import (
    Anchor,
    Component,
    Course,
    Mixture,
    Schedule,
    Stage,
    WeightChange,
    adopt,
    resolve,
    sequence_weights,
)


def part(name: str, num_sequences: int = 1000, sequence_tokens: int = 10) -> Component:
    return Component(
        name=name,
        data=name,
        num_sequences=num_sequences,
        num_tokens=num_sequences * sequence_tokens,
    )


def mixture(weights: dict[str, float], *stages: Stage, **options: str) -> Mixture:
    # Datasets are not looked at here.
    datasets: dict = dict.fromkeys(weights)
    return Mixture(
        datasets=datasets,
        weights=weights,
        stages=stages,
        max_epochs={},
        **options,  # type: ignore[arg-type]
    )


ANCHOR = Anchor(step_sequences=8)
PARTS = [part("code"), part("web")]
MANY = [part("code"), part("math", 50), part("web")]


def test_weights_by_tokens_hold_where_lengths_differ_by_a_hundred():
    rng = np.random.default_rng(1)
    lengths = {
        "long": 10_000 + rng.integers(-100, 101, 3000),
        "short": 100 + rng.integers(-1, 2, 150_000),
    }
    parts = [
        Component(
            name=name,
            data="",
            num_sequences=len(of_sequences),
            num_tokens=int(of_sequences.sum()),
        )
        for name, of_sequences in lengths.items()
    ]
    plan = resolve(mixture({"long": 0.5, "short": 0.5}), parts, ANCHOR)
    dataset, local = Course(plan, num_lanes=48, seed=1).at(np.arange(100_000))
    tokens = [
        of_sequences[local[dataset == number]].sum()
        for number, of_sequences in enumerate(lengths.values())
    ]
    assert abs(tokens[0] / sum(tokens) - 0.5) < 0.001
    # By samples it would be another mixture altogether.
    by_samples = mixture({"long": 0.5, "short": 0.5}, unit="sequences")
    assert sequence_weights(by_samples, parts, {"long": 1, "short": 3}) == [1, 3]


def test_stages_by_steps_begin_at_their_step():
    stages = [
        Stage(start_step=10, weights={"code": 1}),
        Stage(start_step=20, weights={"web": 1}, anneal=5),
    ]
    plan = resolve(mixture({"code": 1, "web": 3}, *stages), PARTS, ANCHOR)
    assert plan.changes == (
        WeightChange(0, 0, (0.25, 0.75)),
        WeightChange(80, 0, (1.0, 0.0)),
        WeightChange(160, 40, (0.0, 1.0)),
    )
    intervals = list(plan.intervals())
    assert [interval.start for interval in intervals] == [0, 80, *range(160, 201)]
    assert intervals[2 + 20].weights == pytest.approx((0.4875, 0.5125))
    assert intervals[-1] == (200, None, (0.0, 1.0))


def test_stages_by_tokens_count_the_tokens_of_what_is_mixed():
    parts = [part("code", sequence_tokens=100), part("web", sequence_tokens=10)]
    stages = [
        Stage(start_tokens=1000, weights={"code": 1}),
        Stage(start_tokens=3000, weights={"web": 1}),
        Stage(start_tokens=5000, weights={"code": 1}, anneal=1100),
    ]
    plan = resolve(mixture({"web": 1, "code": 0}, *stages), parts, ANCHOR)
    assert [span.start for span in plan.changes] == [0, 100, 120, 320]
    assert plan.position_of_tokens(2999) == plan.position_of_tokens(3000) == 120
    # A hundred tokens a sequence at its end, ten at its start: 55 between them.
    assert plan.changes[-1].anneal == 20
    assert plan.position_of_tokens(6100) == 340
    assert plan.position_of_tokens(6101) == 341


def test_a_change_at_once_replaces_what_began_there():
    plan = resolve(mixture({"code": 1, "web": 1}), PARTS, ANCHOR)
    plan = plan.changed(40, 0, [1, 3]).changed(40, 0, [3, 1])
    assert plan.changes == (
        WeightChange(0, 0, (0.5, 0.5)),
        WeightChange(40, 0, (0.75, 0.25)),
    )
    annealed = plan.changed(0, 10, [1, 0])
    assert [span.start for span in annealed.changes] == [0, 0, 40]
    assert annealed.weights_before(5) == pytest.approx((0.75, 0.25))
    assert annealed.changed(0, 0, [1, 0]).changes[0] == WeightChange(0, 0, (1.0, 0.0))


def test_a_change_starts_from_the_weights_before_it():
    plan = resolve(mixture({"code": 1, "web": 3}), PARTS, ANCHOR)
    plan = (
        plan.changed(100, 40, [1, 0]).changed(120, 40, [0, 1]).changed(300, 0, [1, 1])
    )
    # The second change begins halfway through the anneal of the first.
    half = (0.625, 0.375)
    for position, code in [
        (0, 0.25),
        (100, 0.25),
        (101, 0.25 + 0.75 / 40),
        (120, half[0]),
        (130, half[0] * 3 / 4),
        (160, 0.0),
        (300, 0.0),
        (301, 0.5),
        (9000, 0.5),
    ]:
        assert plan.weights_before(position) == pytest.approx((code, 1 - code))


def test_weights_that_hold_are_no_change_unless_an_anneal_goes_on():
    plan = resolve(mixture({"code": 1, "web": 3}), PARTS, ANCHOR)
    assert plan.reweighted(50, 0, [2, 6]) is plan
    assert plan.reweighted(50, 10, [2, 6]) != plan
    annealed = plan.reweighted(100, 40, [1, 0])
    # They are the goal of the anneal, and do not hold yet.
    for position in (100, 101, 139):
        now = annealed.reweighted(position, 0, [1, 0])
        assert now.changes[-1] == WeightChange(position, 0, (1.0, 0.0))
    for position in (140, 141, 9000):
        assert annealed.reweighted(position, 0, [1, 0]) is annealed
    assert annealed.reweighted(140, 0, [1, 1]) != annealed


def test_a_resume_with_the_same_mixture_keeps_what_is_recorded():
    asked = mixture({"code": 1, "web": 1}, Stage(start_step=10, weights={"web": 1}))
    recorded = resolve(asked, PARTS, ANCHOR).changed(40, 0, [1, 3])
    # Another batch size moves neither what was passed nor what is to come.
    anchor = Anchor(position=48, step=6, step_sequences=100)
    assert adopt(recorded, asked, PARTS, anchor) == recorded


def test_a_resume_with_another_mixture_drops_a_change_that_begins_there():
    recorded = resolve(mixture({"code": 1, "web": 1}), PARTS, ANCHOR)
    recorded = recorded.changed(40, 0, [1, 2]).changed(48, 0, [1, 3])
    last = Stage(start_step=20, weights={"web": 1})
    other = mixture({"code": 1, "web": 2}, last)
    anchor = Anchor(position=48, step=6, step_sequences=100)
    assert adopt(recorded, other, PARTS, anchor).changes == (
        *recorded.changes[:2],
        # The weights before are those of now.
        WeightChange(48 + 14 * 100, 0, (0.0, 1.0)),
    )


def test_a_resume_with_other_stages_keeps_what_was_passed():
    asked = mixture({"code": 1, "web": 1}, Stage(start_step=10, weights={"web": 1}))
    recorded = resolve(asked, PARTS, ANCHOR).changed(40, 0, [1, 3])
    other = mixture(
        {"code": 1, "math": 1, "web": 2},
        Stage(start_step=4, weights={"math": 1, "web": 1}, anneal=6),
        Stage(start_step=20, weights={"math": 1}),
    )
    anchor = Anchor(position=48, step=6, step_sequences=100)
    parts = [PARTS[0], part("math"), PARTS[1]]
    plan = adopt(recorded, other, parts, anchor)
    assert plan.names == ["code", "web", "math"]
    assert plan.digest == other.digest
    assert plan.changes == (
        WeightChange(0, 0, (0.5, 0.5, 0.0)),
        WeightChange(40, 0, (0.25, 0.75, 0.0)),
        # Step 10 is four steps of the new size from here.
        WeightChange(48, 400, (0.0, 0.5, 0.5)),
        WeightChange(48 + 14 * 100, 0, (0.0, 0.0, 1.0)),
    )


def test_a_dataset_left_out_at_a_resume_is_given_nothing_more():
    asked = mixture({"code": 1, "web": 1})
    recorded = resolve(asked, PARTS, ANCHOR)
    plan = adopt(
        recorded,
        mixture({"web": 1}),
        [PARTS[1]],
        Anchor(position=16, step=2, step_sequences=8),
    )
    assert plan.names == ["code", "web"]
    assert plan.changes == (
        WeightChange(0, 0, (0.5, 0.5)),
        WeightChange(16, 0, (0.0, 1.0)),
    )


def test_other_contents_by_the_same_name_are_refused():
    recorded = resolve(mixture({"code": 1, "web": 1}), PARTS, ANCHOR)
    other = [PARTS[0], part("web", num_sequences=999)]
    with pytest.raises(StateMismatchError, match="num_sequences then 1000, now 999"):
        adopt(recorded, mixture({"code": 1, "web": 1}), other, ANCHOR)


def test_a_schedule_survives_its_dict():
    plan = resolve(mixture({"code": 1, "web": 3}), PARTS, ANCHOR).changed(40, 3, [1, 0])
    assert Schedule.from_dict(plan.to_dict()) == plan
    with pytest.raises(StateMismatchError, match="not the mixture"):
        Schedule.from_dict(plan.to_dict() | {"datasets": [["web"]]})


def test_the_order_in_which_datasets_are_named_is_nothing():
    one, other = mixture({"code": 1, "web": 3}), mixture({"web": 3, "code": 1})
    assert one.digest == other.digest
    assert one.digest != mixture({"web": 3, "code": 1.5}).digest


def test_stages_begin_one_after_another():
    stages = [Stage(start_step=step, weights={"web": 1}) for step in (9, 9, 5)]
    with pytest.raises(InvalidArgumentError, match="stage 1 begins at position 72"):
        resolve(mixture({"code": 1, "web": 1}, *stages), PARTS, ANCHOR)


def test_the_course_is_what_it_was_in_earlier_releases():
    plan = resolve(mixture({"code": 1, "math": 0.01, "web": 3}), MANY, ANCHOR)
    plan = plan.changed(1000, 300, [1, 1, 1]).changed(3000, 0, [0, 1, 1])
    dataset, local = Course(plan, num_lanes=8, seed=7).at(np.arange(5000))
    digest = hashlib.blake2b(digest_size=8)
    for part in (dataset, local):
        digest.update(part.astype("<i8").tobytes())
    assert digest.hexdigest() == "4d84408fd36a8696"
