"""Steps with a budget of tokens: full batches, equal steps on ranks, known places."""

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.named import name_run
from made.optional import as_dataset
from pagefeed.cli import main
from pagefeed.errors import InvalidArgumentError, StateMismatchError

RANKS = 3
MOST = 200
BUDGET = 4096


def write(folder, *, first, num_rows, seed):
    """Each row repeats its number."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(40), 1.0, num_rows).astype(int).clip(max=500)
    lengths[::50] = 0
    for part in range(2):
        here = range(part * num_rows // 2, (part + 1) * num_rows // 2)
        rows = [np.full(lengths[row], first + row, np.int32) for row in here]
        table = {"input_ids": rows, "weights": rows, "name": [f"{r}" for r in here]}
        path = folder / f"{part}.parquet"
        pq.write_table(pa.table(table), path, row_group_size=500, data_page_size=4096)
    wanted = {first + row: min(int(n), MOST) for row, n in enumerate(lengths) if n}
    return folder, wanted


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    return write(tmp_path_factory.mktemp("b") / "web", first=0, num_rows=9000, seed=1)


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    root = tmp_path_factory.mktemp("b")
    return write(root / "code", first=100_000, num_rows=3000, seed=2)


def loader(data, rank=0, world_size=RANKS, pad="longest", **options: Any):
    if not isinstance(data, pf.Mixture):
        data = pf.parquet(data, column="input_ids")
    settings: dict[str, Any] = {"batch_tokens": BUDGET, "seed": 3, "num_threads": 1}
    settings |= {"sequences": pf.Documents([], max_length=MOST, pad=pad)}
    return pf.Loader(data, rank=rank, world_size=world_size, **settings | options)


def counted(batch):
    """Tokens of each document of a batch; those that fill up are -1."""
    found = Counter(batch["input_ids"].ravel().tolist())
    found.pop(-1, None)
    return found


@pytest.mark.parametrize("balance", [None, "attention"])
@pytest.mark.parametrize("pad", ["longest", None])
def test_every_document_comes_once_in_steps_inside_the_budget(web, pad, balance):
    folder, wanted = web
    options = {"pad": pad, "padding": -1, "drop_last": False, "balance": balance}
    seen, steps, used, room = Counter[int](), set(), 0, 0
    for rank in range(RANKS):
        one = loader(folder, rank, **options)
        batches = list(one)
        steps.add(len(batches))
        assert len(batches) == len(one)
        for batch in batches:
            tokens = batch["input_ids"]
            assert tokens.size <= BUDGET
            rows = 1 if pad is None else len(batch["lengths"])
            assert len(tokens) == rows
            seen += counted(batch)
            used, room = used + int(batch["lengths"].sum()), room + BUDGET
    assert dict(seen) == wanted
    assert len(steps) == 1
    # The last batch of all, and of the last step, are small.
    assert 1 - used / room < (0.05 if pad else 0.03)


def test_padding_to_a_fixed_length_counts(web):
    folder, wanted = web
    one = loader(folder, world_size=1, pad="max_length", padding=-1, drop_last=False)
    seen, rows = Counter[int](), []
    for batch in one:
        seen += counted(batch)
        rows.append(len(batch["input_ids"]))
        assert batch["input_ids"].shape[1] == MOST
    assert dict(seen) == wanted
    assert max(rows) == BUDGET // MOST


def test_documents_one_behind_another_have_borders_and_labels(web):
    folder, _ = web
    names: Any = ("input_ids", "labels", "position_ids", "cu_seqlens", "document_ids")
    data = pf.parquet(folder, column="input_ids", aligned={"weights": -7})
    documents = pf.Documents(["name"], max_length=MOST, pad=None)
    one = pf.Loader(
        data,
        sequences=documents,
        batch_tokens=BUDGET,
        fields=names,
        rank=0,
        world_size=1,
    )
    for batch in itertools.islice(one, 20):
        lengths = batch["lengths"]
        assert len(batch["name"]) == len(lengths)
        full = lengths[lengths > 0]
        assert np.diff(batch["cu_seqlens"]).tolist() == full.tolist()
        places = np.concatenate([np.arange(n) for n in full])
        assert batch["position_ids"].tolist() == [places.tolist()]
        learned = np.where(places > 0, batch["input_ids"], 0)
        assert np.array_equal(batch["weights"], learned)
        expected = np.where(places == 0, -100, batch["input_ids"][0])
        assert np.array_equal(batch["labels"][0], expected)


def test_a_state_goes_on_at_any_number_of_ranks(web):
    folder, wanted = web
    first = [loader(folder, rank, padding=-1) for rank in range(RANKS)]
    seen = Counter[int]()
    for one in first:
        for batch in itertools.islice(one, 7):
            seen += counted(batch)
    states = [one.state_dict() for one in first]
    assert states.count(states[0]) == RANKS
    assert len(json.dumps(states[0])) < 1024
    for rank in range(2):
        one = loader(folder, rank, 2, padding=-1, drop_last=False)
        one.load_state_dict(states[0])
        for batch in one:
            seen += counted(batch)
    assert dict(seen) == wanted
    other = loader(folder, batch_tokens=BUDGET + 1)
    with pytest.raises(StateMismatchError, match="batch_tokens=4096"):
        other.load_state_dict(states[0])


@pytest.mark.parametrize("pad", ["longest", None])
def test_places_are_known_without_running(web, pad):
    folder, _ = web
    one = loader(folder, 1, pad=pad)
    batches = list(itertools.islice(one, 6))
    for step, batch in enumerate(batches):
        rows = pf.reports.trace(one, step)
        assert len(rows) == len(batch["lengths"])
        for row in (0, len(rows) // 2, len(rows) - 1):
            (origin,) = one.locate(step, row)
            assert rows[row].segments[0].origin == origin
            assert origin.num_tokens == batch["lengths"][row]
            tokens = rows[row].tokens
            assert tokens is not None
            begin = int(batch["lengths"][:row].sum())
            held = batch["input_ids"][0, begin:] if pad is None else None
            held = batch["input_ids"][row] if held is None else held
            assert held[: len(tokens)].tolist() == tokens
            assert (step, 1, row) in one.steps_of(origin.file, origin.row)
    with pytest.raises(InvalidArgumentError, match="row="):
        one.locate(0, len(batches[0]["lengths"]))
    again = loader(folder, 1, pad=pad)
    again.seek(4)
    assert np.array_equal(next(iter(again))["input_ids"], batches[4]["input_ids"])


def test_a_mixture_takes_batches_of_each_dataset(web, code):
    parts = {
        name: (pf.parquet(folder, column="input_ids"), weight)
        for name, folder, weight in (("web", web[0], 0.5), ("code", code[0], 0.5))
    }
    mixed = pf.mix(parts, stop="first_exhausted")
    options: dict[str, Any] = {"balance": "attention"}
    options["fields"] = ("input_ids", "dataset_ids")
    ranks = [loader(mixed, rank, **options) for rank in range(RANKS)]
    counts = Counter[bool]()
    for batch in itertools.chain(*ranks):
        sources = batch["input_ids"].max(axis=1) >= 100_000
        counts[bool(sources.any())] += int(batch["lengths"].sum())
        assert batch["input_ids"].size <= BUDGET
        names = [ranks[0].dataset_names[number] for number in batch["dataset_ids"]]
        assert names == ["code" if sources.any() else "web"] * len(sources)
    with pytest.raises(InvalidArgumentError, match="dataset_ids"):
        loader(mixed, pad=None, batch_size=2, batch_tokens=None, **options)
    assert 0.4 < counts[True] / (counts[True] + counts[False]) < 0.6


@pytest.mark.parametrize("pad", ["longest", None])
def test_rows_name_their_dataset_in_batches_without_tokens(web, pad):
    fed = loader(web[0], world_size=1, pad=pad, fields=("labels", "dataset_ids"))
    batch = next(iter(fed))
    assert batch["dataset_ids"].tolist() == [0] * len(batch["labels"])


def test_documents_of_one_dataset_in_one_row_name_it(web):
    options = {"pad": None, "batch_size": 3, "batch_tokens": None, "drop_last": False}
    fed = loader(web[0], world_size=1, fields=("labels", "dataset_ids"), **options)
    for batch in fed:
        assert batch["dataset_ids"].dtype == np.int32
        assert batch["dataset_ids"].tolist() == [0]
        assert len(batch["labels"]) == 1


@pytest.mark.parametrize(
    ("pad", "shape"), [(None, (1, 1)), ("longest", (4, 1)), ("max_length", (4, 9))]
)
def test_a_batch_of_empty_documents_is_padding(tmp_path, pad, shape):
    """A model takes no sequence without a token."""
    rows = pa.array([[], None, [], [], [1, 2], []], pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    data = pf.parquet(tmp_path, column="input_ids")
    fed = pf.Loader(
        data,
        sequences=pf.Documents([], max_length=9, pad=pad),
        batch_size=4,
        shuffle=None,
        padding=7,
        fields=("input_ids", "labels", "document_ids", "loss_mask", "cu_seqlens"),
    )
    batch = next(iter(fed))
    assert batch["lengths"].tolist() == [0] * 4
    assert batch["input_ids"].shape == shape
    assert (batch["input_ids"] == 7).all()
    assert (batch["labels"] == -100).all()
    assert (batch["document_ids"] == -1).all()
    assert not batch["loss_mask"].any()
    assert batch["cu_seqlens"][-1] == batch["input_ids"].size


def test_other_sequences_take_as_many_as_fit(web):
    one = loader(web[0], sequences=pf.Packed(256))
    assert next(iter(one))["input_ids"].shape == (16, 256)
    assert (one.batch_size, one.batch_tokens) == (16, BUDGET)


def test_workers_of_a_data_loader_share_the_steps(web):
    torch = pytest.importorskip("torch")
    one = loader(web[0], format="torch")
    expected = [batch["input_ids"] for batch in one]
    data = as_dataset(loader(web[0], format="torch"))
    workers = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
    for batch, tokens in zip(workers, expected, strict=True):
        assert torch.equal(batch["input_ids"], tokens)


def test_what_cannot_be_is_refused(web):
    for sizes in ({"batch_size": 2}, {"batch_tokens": None}, {"batch_tokens": 0}):
        with pytest.raises(InvalidArgumentError, match="batch_"):
            loader(web[0], **sizes)
    for budget, pad in ((MOST - 1, "longest"), (BUDGET, {"input_ids": 0})):
        with pytest.raises(InvalidArgumentError, match="batch_tokens"):
            loader(web[0], pad=pad, batch_tokens=budget)
    with pytest.raises(InvalidArgumentError, match="batch_tokens=100"):
        loader(web[0], sequences=pf.Windows(101), batch_tokens=100)


def test_plan_and_verify_know_budgets(web, capsys):
    run = name_run(loader(web[0]))
    assert main(["plan", run, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["steps"] == len(loader(web[0]))
    assert main(["verify", run, "--resume", "5:2"]) == 0
    assert "exactly once" in capsys.readouterr().out


@pytest.mark.parametrize("pad", ["longest", None])
def test_erased_documents_leave_all_others_in_their_batches(web, pad):
    folder, _ = web
    data = pf.parquet(folder, column="input_ids")
    file = f"{folder}/0.parquet"
    gone = [1, 2, 7, 400]
    erased = data.erase(rows={file: gone})
    settings: dict[str, Any] = {"batch_tokens": BUDGET, "padding": -1, "seed": 3}
    settings |= {"sequences": pf.Documents([], max_length=MOST, pad=pad)}
    whole, left = (
        pf.Loader(each, rank=0, world_size=1, **settings) for each in (data, erased)
    )
    for one, other in zip(whole, left, strict=True):
        expected = counted(one)
        for row in gone:
            expected.pop(row, None)
        assert counted(other) == expected
    result = pf.reports.verify(left)
    assert result.ok
    assert result.num_erased == len(gone)
    assert left.steps_of(file, 1) == whole.steps_of(file, 1)
    (slot,) = left.steps_of(file, 1)
    assert left.locate(slot.step, slot.row) == []
    traced = [
        segment.origin for row in pf.trace(left, slot.step) for segment in row.segments
    ]
    assert traced
    assert 1 not in {origin.row for origin in traced if origin.file == file}
