"""A curriculum takes prompts by their scores, and resumes exactly."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.prompts import ROWS, queue_of, saved, taken
from order_statistics import Units, order_statistics
from pagefeed.errors import (
    EmptySelectionError,
)
from pagefeed.prompts.curriculum import Scores

CURRICULUM = pf.Curriculum(edges=[0.125, 0.875], weights=[0.2, 1.0, 0.1])


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
def test_a_score_at_an_edge_lies_above_it(smoothing):
    for answers in range(2, 101):
        edges = [n / answers for n in range(1, answers)]
        curriculum = pf.Curriculum(edges, [1.0] * answers, smoothing)
        scores = Scores(answers + 1, curriculum)
        for _ in range(3):
            for right in range(answers + 1):
                scores.add(right, sum([1.0] * right) / answers)
        assert scores.counts == [0, *[1] * (answers - 1), 2]


def test_scores_move_prompts_between_tiers(math):
    queue = queue_of(math, curriculum=pf.Curriculum([0.5], [1, 1], smoothing=0.5))
    assert queue.tiers() == {"": (ROWS, 0, 0)}
    [ticket] = queue.take(1)
    queue.commit([ticket], [0.6])
    assert queue.tiers() == {"": (ROWS - 1, 0, 1)}
    assert ticket.row in {t.row for t in taken(queue, 2 * ROWS - 1)}
    queue.set_curriculum(pf.Curriculum([0.7], [1, 1], smoothing=0.5))
    assert queue.tiers() == {"": (ROWS - 1, 1, 0)}


def test_prompts_without_weight_leave(math):
    queue = queue_of(math, curriculum=pf.Curriculum([0.9], [1.0, 0.0]))
    rows = []
    while queue.tiers()[""][0]:
        tickets = queue.take(64)
        queue.commit(tickets, [1.0] * len(tickets))
        rows += [ticket.row for ticket in tickets]
    assert set(rows) == {*range(ROWS)}
    with pytest.raises(EmptySelectionError, match=r"\[0, 0, 500\]"):
        queue.take(1)
    queue.set_curriculum(pf.Curriculum([0.9], [1.0, 0.01]))
    assert len(queue.take(3)) == 3


def test_a_resumed_queue_hands_out_the_same(math, code):
    """400 calls on two queues, one resumed from the JSON of the other."""

    def make() -> pf.PromptQueue:
        data = {"math": (math, 0.6), "code": (code, 0.4)}
        return queue_of(data, curriculum=CURRICULUM)

    one, two, draw = make(), make(), np.random.default_rng(4)
    one.commit((some := one.take(60))[:40], draw.random(40).tolist())
    one.release(some[40:45], priority=2)
    two.load_state_dict(saved(one))
    flying = {
        t.key: (t, mine)
        for t, mine in zip(some[45:], two.claim(some[45:]), strict=True)
    }
    for call in range(400):
        if call == 200:
            one.set_weights({"math": 1, "code": 3})
            two.set_weights({"math": 1, "code": 3})
        pairs = zip(one.take(9, version=call), two.take(9, version=call), strict=True)
        for first, second in pairs:
            assert first._replace(life=0) == second._replace(life=0)
            flying[first.key] = first, second
        keys = draw.permutation(len(flying))[: draw.integers(0, 12)].tolist()
        chosen = [list(flying)[n] for n in keys]
        tickets = [flying.pop(key) for key in chosen]
        scores = (draw.integers(0, 9, len(tickets)) / 8).tolist()
        for which, queue in enumerate((one, two)):
            finish = queue.drop if call % 5 == 0 else queue.commit
            finish([pair[which] for pair in tickets], scores)
    assert saved(one) == saved(two)


def passes_of(queue: pf.PromptQueue, count: int, size: int, scores: Any) -> Any:
    """Run passes in which each prompt keeps its score: which were taken, bool."""
    seen = np.zeros((count + 1, size), dtype=bool)
    while True:
        tickets = queue.take(64)
        queue.commit(tickets, [scores[t.row] for t in tickets])
        for ticket in tickets:
            if ticket.epoch > count:
                return seen[:-1]
            seen[ticket.epoch, ticket.row] = True


def test_tiers_are_visited_by_their_weights(tmp_path):
    """29 passes of 1,500 prompts whose scores stay as they are."""
    size, passes = 1_500, 29
    pq.write_table(pa.table({"n": np.arange(size)}), tmp_path / "n.parquet")
    queue = queue_of(
        pf.parquet(tmp_path / "n.parquet", column="n"), curriculum=CURRICULUM
    )
    scores = np.random.default_rng(5).choice([0.0, 0.5, 1.0], size)
    seen = passes_of(queue, passes + 1, size, scores)
    assert seen[0].all()  # None had a score.
    visits = seen[1:]
    for score, weight in ((0.0, 0.2), (0.5, 1.0), (1.0, 0.1)):
        hits = visits[:, scores == score]
        spread = np.sqrt(hits.size * weight * (1 - weight))
        assert abs(hits.sum() - hits.size * weight) <= 4.5 * spread
    rare = visits[:, scores != 0.5].astype(float)
    rare -= np.where(scores[scores != 0.5] == 0, 0.2, 0.1)
    near = np.corrcoef(rare[:-1].ravel(), rare[1:].ravel())[0, 1]
    assert abs(near) < 0.03
    rows = np.corrcoef(rare[:, :-1].ravel(), rare[:, 1:].ravel())[0, 1]
    assert abs(rows) < 0.03


def test_the_order_of_a_curriculum_is_random(tmp_path):
    """The battery of orders, on passes in which half of the prompts are taken."""
    size, rows = 480, 8
    pq.write_table(
        pa.table({"n": np.arange(size)}), tmp_path / "n.parquet", row_group_size=20
    )
    data = pf.parquet(tmp_path / "n.parquet", column="n")
    curriculum = pf.Curriculum([], [0.5])

    @cache
    def passes(seed: int) -> list[list[int]]:
        queue = queue_of(data, seed=seed, curriculum=curriculum)
        found: list[list[int]] = [[], [], []]
        while (ticket := queue.take(1)[0]).epoch < 3:
            queue.commit([ticket], [0.5])
            found[ticket.epoch].append(ticket.row)
        return found

    def draw(seed: int, epoch: int) -> Any:
        order = passes(seed)[1 + epoch]
        return np.reshape(order[: len(order) // rows * rows], (-1, rows))

    units = Units(
        num_units=size, source=np.arange(size) // 60, dataset=np.zeros(size, np.int64)
    )
    assert order_statistics(draw, units, seeds=12).problems == []
