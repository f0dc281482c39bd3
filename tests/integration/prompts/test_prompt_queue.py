"""A queue of prompts: what it hands out, in which order, and what it refuses."""

import json
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.prompts import ROWS, queue_of, saved, taken, write
from pagefeed.errors import (
    InvalidArgumentError,
    StateMismatchError,
    TicketError,
    UnsupportedError,
)
from pagefeed.run import Ticket


def test_the_order_is_that_of_a_loader(math):
    loader = pf.Loader(
        math, sequences=pf.Documents(columns=["prompt"]), batch_size=1, seed=1
    )
    queue = queue_of(math, columns=["prompt"], epochs=1, max_in_flight=ROWS)
    tickets = queue.take(ROWS)
    rows = queue.read(tickets)
    assert [row["prompt"] for row in rows] == [b["prompt"][0] for b in loader]
    assert [row["prompt"] for row in rows] == [f"math {t.row}" for t in tickets]


@pytest.mark.parametrize("names", [["math"], ["math", "code"]])
def test_new_tickets_do_not_depend_on_how_many_are_in_flight(math, code, names):
    data = {name: {"math": math, "code": code}[name] for name in names}
    orders = []
    for most in (5, 3000):
        queue = queue_of(data, max_in_flight=most)
        fresh: list[Any] = []
        flying: list[Any] = []
        draw = np.random.default_rng(most)
        while len(fresh) < 2000:
            some = queue.take(int(draw.integers(1, most + 1)))
            fresh += [(*t.key, t.epoch, t.row) for t in some if t.attempt == 0]
            flying += some
            draw.shuffle(flying)
            finish = [flying.pop() for _ in range(len(flying) // 2 + 1)]
            queue.commit(finish[1:])
            queue.release(finish[:1])
        orders.append(fresh[:2000])
    assert orders[0] == orders[1]


def test_a_pickled_ticket_is_read_in_another_process(math, folder):
    queue = queue_of(math, columns=["prompt", "level"])
    tickets = queue.take(20)
    (folder / "tickets.pickle").write_bytes(pickle.dumps(tickets))
    script = (
        "import json, pickle, pagefeed as pf\n"
        f"data = pf.parquet({str(folder / 'math.parquet')!r}, column='prompt')\n"
        "queue = pf.PromptQueue(data, columns=['prompt', 'level'], seed=1,\n"
        "    max_in_flight=1)\n"
        f"tickets = pickle.load(open({str(folder / 'tickets.pickle')!r}, 'rb'))\n"
        "print(json.dumps(queue.read(tickets)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    expected = [{"prompt": f"math {t.row}", "level": t.row % 5} for t in tickets]
    assert json.loads(printed) == expected == queue.read(tickets)


def test_a_pickled_queue_reads_and_takes_nothing(math):
    queue = queue_of(math, columns=["prompt"])
    tickets = queue.take(3)
    copy = pickle.loads(pickle.dumps(queue))
    assert copy.read(tickets) == queue.read(tickets)
    with pytest.raises(UnsupportedError, match="reads tickets"):
        copy.take(1)
    with pytest.raises(TicketError):
        copy.commit(tickets)


def test_rows_of_several_kinds(math, code, tmp_path):
    both = queue_of({"math": math, "code": code})
    tickets = both.take(40)
    assert Counter(t.dataset for t in tickets) == {"math": 20, "code": 20}
    names = [row["prompt"].split()[0] for row in both.read(tickets)]
    assert names == [t.dataset for t in tickets]
    chats = queue_of(math.where("level == 2"), columns=["turns"], epochs=1)
    tickets = taken(chats, ROWS)
    assert len(tickets) == ROWS // 5
    assert chats.read(tickets[:1])[0]["turns"] == [
        {"role": "user", "content": str(5 * tickets[0].row + 2)}
    ]
    train, held = math.split(by="prompt", train=0.8, held=0.2).values()
    rows = [
        queue_of(part, columns=["prompt"], epochs=1, max_in_flight=ROWS)
        for part in (train, held)
    ]
    texts = [{r["prompt"] for r in q.read(q.take(ROWS))} for q in rows]
    assert len(texts[0]) + len(texts[1]) == ROWS
    assert not texts[0] & texts[1]
    tokens = [list(range(row % 9)) for row in range(50)]
    pq.write_table(
        pa.table({"input_ids": pa.array(tokens, pa.list_(pa.int32()))}),
        tmp_path / "tokens.parquet",
    )
    ids = pf.parquet(tmp_path / "tokens.parquet", column="input_ids")
    queue = queue_of(ids, max_length=6)
    for ticket in queue.take(50):
        [row] = queue.read([ticket])
        assert row["input_ids"].tolist() == tokens[ticket.row][:6]


def test_datasets_are_within_one_of_their_share(math, code, tmp_path):
    third = write(tmp_path, "science", 200)
    weights = {"code": 0.25, "math": 0.6, "science": 0.15}
    data = {"code": code, "math": math, "science": third}
    queue = queue_of({name: (data[name], weights[name]) for name in data})
    for change in ({}, {"code": 1, "math": 1, "science": 2}, {"code": 7, "math": 1}):
        if change:
            weights = dict.fromkeys(data, 0.0) | change
            queue.set_weights(weights)
        counts = dict.fromkeys(data, 0)
        for number, ticket in enumerate(taken(queue, 1000), 1):
            counts[ticket.dataset] += 1
            for name, weight in weights.items():
                share = number * weight / sum(weights.values())
                assert abs(counts[name] - share) < 1


def test_datasets_end_one_after_another(math, code):
    queue = queue_of({"math": (math, 0.5), "code": (code, 0.5)}, epochs=2)
    tickets = taken(queue, 10_000)
    assert Counter(t.dataset for t in tickets) == {"math": 1000, "code": 600}
    assert queue.done
    assert queue.counts["code"] == {"taken": 600, "committed": 600, "dropped": 0}


def test_wrong_tickets_change_nothing(math):
    queue = queue_of(math)
    tickets = queue.take(10)
    queue.commit(tickets[:1])
    queue.release(tickets[1:3])
    again = queue.take(1)
    before = json.dumps(queue.state_dict())
    for wrong in tickets[:3]:
        for finish in (queue.commit, queue.drop, queue.release):
            with pytest.raises(TicketError):
                finish([*tickets[5:], wrong])
            assert json.dumps(queue.state_dict()) == before
    assert again[0].key == tickets[1].key
    with pytest.raises(InvalidArgumentError, match="twice"):
        queue.commit([tickets[5], tickets[5]])
    with pytest.raises(InvalidArgumentError, match="not a Ticket"):
        queue.commit([tuple(tickets[5])])  # type: ignore[list-item]
    assert json.dumps(queue.state_dict()) == before
    queue.commit([Ticket(*json.loads(json.dumps(tickets[5])))])


@pytest.mark.parametrize("scores", [[1.1], [-0.1], [float("nan")], ["1"], [], [1, 1]])
def test_wrong_scores_change_nothing(math, scores):
    queue = queue_of(math, curriculum=pf.Curriculum([0.5], [1, 0.5]))
    tickets = queue.take(1)
    before = json.dumps(queue.state_dict())
    with pytest.raises(InvalidArgumentError, match="score"):
        queue.commit(tickets, scores)
    assert json.dumps(queue.state_dict()) == before


def test_what_cannot_be_right_is_refused(math, code):
    settings: dict[str, Any]
    for settings in (
        {"max_in_flight": 0},
        {"max_in_flight": 65_537},
        {"epochs": 0},
        {"curriculum": 1},
        {"columns": "prompt"},
    ):
        with pytest.raises(InvalidArgumentError):
            queue_of(math, **settings)
    data: Any
    for data in ({}, {"": math}, {"a": (math, -1)}, {"a": (math, 0)}, {1: math}):
        with pytest.raises(InvalidArgumentError):
            queue_of(data)
    queue = queue_of({"math": math, "code": code})
    weights: Any
    for weights in ({"math": 1}, {"math": 0, "code": 0}, {"math": 1, "code": -1}, 3):
        with pytest.raises(InvalidArgumentError, match="weight"):
            queue.set_weights(weights)
    arguments: tuple[Any, Any, Any]
    for arguments in (
        ([0.5], [1], 0),
        ([0.5], [1.1, 1], 0),
        ([0.5, 0.5], [1, 1, 1], 0),
        ([1.5], [1, 1], 0),
        ([0.5], [1e-5, 1], 0),
        ([0.5], [1, 1], 1),
        ("1", [1, 1], 0),
    ):
        with pytest.raises(InvalidArgumentError):
            pf.Curriculum(*arguments)
    with pytest.raises(InvalidArgumentError, match="must be a Curriculum"):
        queue.set_curriculum(None)  # type: ignore[arg-type]
    wrong: Any
    for wrong in (0, -1, 1.5):
        with pytest.raises(InvalidArgumentError):
            queue.take(wrong)


def test_states_of_another_run_are_refused(math, code):
    curriculum = pf.Curriculum([0.5], [1, 0.5])
    queue = queue_of(math, curriculum=curriculum)
    queue.commit(queue.take(9)[:5], [0.5] * 5)
    state = saved(queue)
    for other in (
        queue_of(code, curriculum=curriculum),
        queue_of(math, seed=2, curriculum=curriculum),
        queue_of(math, shuffle="row", curriculum=curriculum),
        queue_of(math.where("level < 4"), curriculum=curriculum),
        queue_of({"math": math}, curriculum=curriculum),
    ):
        before = saved(other)
        with pytest.raises(StateMismatchError):
            other.load_state_dict(state)
        assert saved(other) == before
    [dataset] = state["datasets"].values()
    changed: dict[str, Any]
    for changed in (
        {},
        {"version": 2},
        {"num_out": 5},
        {"num_out": 10**9},
        {"out": "x"},
        {"turns": {}},
        {"weights": {"": 0}},
        {"curriculum": {}},
        {"datasets": {"": {**dataset, "scores": "AAAA"}}},
        {"datasets": {"": {**dataset, "next": {}}}},
        {"datasets": {"": dataset | {"next": dataset["next"] | {"position": 2}}}},
        {"datasets": 3},
    ):
        with pytest.raises(StateMismatchError):
            queue.load_state_dict({**state, **changed} if changed else {})
    assert saved(queue) == state
    short = queue_of(math, curriculum=curriculum, epochs=1)
    taken(long := queue_of(math, curriculum=curriculum), 2 * ROWS)
    with pytest.raises(StateMismatchError, match="epochs"):
        short.load_state_dict(saved(long))


def test_tickets_of_other_data_are_not_read(math, code):
    tickets = queue_of(math).take(5)
    for other in (queue_of(code), queue_of(math, seed=2), queue_of({"math": math})):
        with pytest.raises(StateMismatchError):
            other.read(tickets)


def test_a_dataset_is_added_at_a_resume(math, code):
    queue = queue_of({"math": math})
    queue.commit(queue.take(30)[:20])
    more = queue_of({"math": (math, 0.5), "code": (code, 0.5)})
    more.load_state_dict(saved(queue))
    back = more.take(10)
    assert {t.attempt for t in back} == {1}
    new = more.take(40)
    assert Counter(t.dataset for t in new) == {"math": 20, "code": 20}
    assert min(t.position for t in new if t.dataset == "math") == 30
    with pytest.raises(StateMismatchError, match="lacks"):
        queue.load_state_dict(saved(more))


def test_replicas_share_tickets(math):
    one, two = queue_of(math), queue_of(math)
    with pytest.raises(TicketError):
        two.commit(one.take(1))
    one, two = queue_of(math), queue_of(math)
    facts: list[Any] = []

    def alone(fact: Any) -> list[Any]:
        facts.append(fact)
        return [fact]

    one.check_ranks(alone)
    for _ in range(2):
        two.check_ranks(lambda fact: [facts[0], fact])
    tickets = one.take(9)
    assert two.take(9) == tickets
    two.commit(tickets[:4])
    one.commit(two_of := tickets[:4])
    assert saved(one) == saved(two)
    assert two_of
    one.take(1)
    one.check_ranks(alone)
    with pytest.raises(InvalidArgumentError, match="another state"):
        two.check_ranks(lambda fact: [facts[-1], fact])


def test_ten_thousand_in_flight_are_a_small_state(tmp_path):
    table = pa.table({"n": np.arange(100_000)})
    pq.write_table(table, tmp_path / "n.parquet")
    queue = queue_of(
        pf.parquet(tmp_path / "n.parquet", column="n"), max_in_flight=20_000
    )
    draw = np.random.default_rng(1)
    for step in range(20):
        some = queue.take(5_000, version=step)
        stays = draw.random(5_000) < 0.1
        queue.commit([t for t, keep in zip(some, stays, strict=True) if not keep])
    assert queue.in_flight > 9_500
    assert len(json.dumps(queue.state_dict())) < 40_000


def test_rows_are_read_together(tmp_path):
    """Pages stay in memory: further rows cost no page."""
    rows = 2_000
    texts = [f"prompt number {row} " * 8 for row in range(rows)]
    path = tmp_path / "p.parquet"
    pq.write_table(
        pa.table({"prompt": texts}), path, data_page_size=4_096, use_dictionary=False
    )
    data = pf.parquet(path, column="prompt")
    queue = queue_of(data, columns=["prompt"])
    [places] = queue._places.values()
    for tickets in (queue.take(64) for _ in range(90)):
        assert [row["prompt"] for row in queue.read(tickets)] == [
            texts[ticket.row] for ticket in tickets
        ]
        queue.commit(tickets)
    loaded = places._view._feed.engine().stats()["pages_loaded"]
    assert loaded == len(data.index) > 1


def test_texts_are_read_as_tokens(tmp_path):
    texts = ["ab" * (row % 5 + 1) for row in range(40)]
    pq.write_table(pa.table({"text": texts, "n": range(40)}), tmp_path / "t.parquet")
    tokenizer = pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256)
    data = pf.parquet(tmp_path / "t.parquet", column="text").tokenize(tokenizer)
    queue = queue_of(data, columns=["n"], max_length=6, epochs=1)
    tickets = queue.take(40)
    for ticket, row in zip(tickets, queue.read(tickets), strict=True):
        assert row["n"] == ticket.row
        assert bytes(row["input_ids"].tolist()).decode() == texts[ticket.row][:6]


def test_pages_that_stay_keep_to_the_memory(tmp_path):
    texts = [f"{row} " * 60 for row in range(20_000)]
    path = tmp_path / "p.parquet"
    pq.write_table(
        pa.table({"prompt": texts}),
        path,
        data_page_size=65_536,
        row_group_size=2_000,
        use_dictionary=False,
    )
    data, memory = pf.parquet(path, column="prompt"), 2 << 20
    queue = queue_of(data, columns=["prompt"], shuffle="row", memory=memory)
    [places] = queue._places.values()
    for tickets in (queue.take(32) for _ in range(12)):
        rows = queue.read(tickets)
        assert [row["prompt"] for row in rows] == [texts[t.row] for t in tickets]
        queue.commit(tickets)
    stats = places._view._feed.engine().stats()
    assert stats["peak_bytes"] <= memory
    assert stats["pages_loaded"] > len(data.index)
