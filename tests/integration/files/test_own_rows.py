"""Rows of any sequence: each once, in an exact order, with errors that name the row."""

import gzip
import json
import pickle
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pagefeed as pf
from pagefeed.errors import (
    ColumnNotFoundError,
    DataError,
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedError,
)

TABLE = [{"n": n, "vector": np.arange(3) + n, "text": f"row {n}"} for n in range(120)]


def loader(data, batch_size=6, **options):
    settings: dict[str, Any] = {"sequences": pf.Documents(), "seed": 5}
    return pf.Loader(
        data, batch_size=batch_size, **settings | {"rank": 0, "world_size": 1} | options
    )


def numbers(batches) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


class Many:
    """A map-style dataset that gives many rows by one call."""

    def __init__(self, broken=None, num_rows=80):
        self.asked, self.broken, self.num_rows = [], broken, num_rows
        self.threads = set()

    def __len__(self):
        return self.num_rows

    def __getitem__(self, row):
        return self.__getitems__([row])[0]

    def __getitems__(self, rows):
        self.asked.append(rows)
        self.threads.add(threading.current_thread())
        if self.broken in rows:
            raise ValueError("this picture is broken")
        return [{"n": row} for row in rows]


def test_each_row_comes_once_and_resumes_on_other_ranks():
    steps = numbers(loader(pf.rows(TABLE)))
    assert sorted(n for step in steps for n in step) == [*range(120)]
    started = loader(pf.rows(TABLE))
    batches = iter(started)
    head = numbers(next(batches) for _ in range(7))
    state = json.loads(json.dumps(started.state_dict()))
    assert head + numbers(batches) == steps
    ranks = [loader(pf.rows(TABLE), 2, rank=rank, world_size=3) for rank in range(3)]
    for rank in ranks:
        rank.load_state_dict(state)
    both = [
        sorted(n for part in step for n in part)
        for step in zip(*map(numbers, ranks), strict=True)
    ]
    assert both == [*map(sorted, steps[7:])]
    located = [loader(pf.rows(TABLE)).locate(2, row)[0].row for row in range(6)]
    assert located == steps[2]
    with pytest.raises(StateMismatchError):
        loader(pf.rows(TABLE[:90])).load_state_dict(state)
    again = pickle.loads(pickle.dumps(loader(pf.rows(TABLE))))
    assert numbers(again) == steps


def test_columns_are_those_of_default_collate():
    batch = next(iter(loader(pf.rows(TABLE), format="torch")))
    torch = pytest.importorskip("torch")
    rows = [TABLE[n] for n in batch["n"].tolist()]
    want = torch.utils.data.default_collate(rows)
    assert torch.equal(batch["n"], want["n"])
    assert torch.equal(batch["vector"], want["vector"])
    assert batch["text"] == want["text"]
    inner = [{"meta": {"a": n, "t": str(n)}, "pair": (n, -n)} for n in range(9)]
    [nested] = loader(pf.rows(inner), 9, format="torch", shuffle=None)
    want = torch.utils.data.default_collate(inner)
    assert torch.equal(nested["meta"]["a"], want["meta"]["a"])
    assert nested["meta"]["t"] == want["meta"]["t"]
    assert all(map(torch.equal, nested["pair"], want["pair"]))
    pairs = torch.utils.data.TensorDataset(torch.arange(9), torch.ones(9, 2))
    assert sorted(next(iter(loader(pf.rows(pairs), 9)))["0"].tolist()) == [*range(9)]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"n": [*range(30)], "s": ["x"] * 30}),
        [(n, "x") for n in range(30)],
        np.arange(30),
    ],
    ids=["arrow table", "tuples", "array"],
)
def test_tables_tuples_and_arrays(rows):
    batches = [*loader(pf.rows(rows))]
    [first, *_] = batches[0]
    assert sorted(n for batch in batches for n in batch[first].tolist()) == [*range(30)]
    assert len(pf.rows(rows)) == 30


def test_a_batch_is_one_call_ordered_by_number():
    rows = Many()
    batches = numbers(loader(pf.rows(rows), 8))
    assert sorted(n for batch in batches for n in batch) == [*range(80)]
    calls = [asked for asked in rows.asked if len(asked) == 8]
    assert len(calls) == 10
    assert all(asked == sorted(asked) for asked in calls)
    assert sorted(map(sorted, batches)) == sorted(calls)
    assert threading.main_thread() not in rows.threads


def test_an_error_names_row_and_step_and_is_passed_over():
    started, seen = loader(pf.rows(Many(broken=37)), 4), list[int]()
    batches = iter(started)
    with pytest.raises(DataError, match="row 37: ValueError: this picture") as raised:
        seen.extend(n for batch in batches for n in batch["n"].tolist())
    assert raised.value.steps == (len(seen) // 4,)
    started.skip(raised.value.steps)
    seen += [n for batch in batches for n in batch["n"].tolist()]
    assert len(set(seen)) == len(seen) == 76
    assert 37 not in seen


def test_collate_and_chosen_columns():
    data = pf.rows(TABLE, collate=lambda rows: {"sum": np.array([len(rows)])})
    assert [batch["sum"].tolist() for batch in loader(data, 60)] == [[60], [60]]
    batch = next(iter(loader(pf.rows(TABLE), sequences=pf.Documents(columns=["text"]))))
    assert [*batch] == ["text"]
    with pytest.raises(ColumnNotFoundError, match="'words'"):
        next(iter(loader(pf.rows(TABLE), sequences=pf.Documents(columns=["words"]))))
    ragged = pf.rows([{"x": np.zeros(n), "n": n} for n in range(6)])
    chosen = loader(ragged, sequences=pf.Documents(columns=["n"]))
    assert sorted(next(iter(chosen))["n"].tolist()) == [*range(6)]
    with pytest.raises(DataError, match=r"collate="):
        next(iter(loader(ragged)))
    partly = loader(pf.rows(TABLE), 50, drop_last=False, fields=("dataset_ids",))
    assert [len(batch["n"]) for batch in partly] == [50, 50, 20]


def tokens(count=60):
    return [[*range(9 * n, 9 * n + n % 9)] for n in range(count)]


@pytest.mark.parametrize("given", [True, False], ids=["lengths", "counted"])
def test_tokens_are_cut_packed_and_mixed(given):
    rows = [{"ids": np.array(row, np.uint16)} for row in tokens()]
    lengths = [len(row) for row in tokens()] if given else None
    data = pf.rows(rows, column="ids", lengths=lengths)
    cut = loader(data, sequences=pf.Windows(8, "drop"), shuffle=None, drop_last=False)
    flat = [token for row in tokens() for token in row]
    got = np.concatenate([batch["input_ids"] for batch in cut])[: cut.num_sequences]
    assert got.reshape(-1).tolist() == flat[: len(flat) // 8 * 8]
    other = pf.rows(rows, column="ids")
    mixture = pf.mix({"a": (data, 1), "b": (other, 1)}, max_steps=9)
    batch = next(iter(loader(mixture, sequences=pf.Packed(32))))
    assert batch["input_ids"].shape == (6, 32)
    documents = loader(data, sequences=pf.Documents(max_length=9))
    assert sum(batch["lengths"].sum() for batch in documents) == len(flat)


def test_wrong_lengths_and_tokens_are_named():
    rows = [{"ids": row} for row in tokens()]
    off = pf.rows(rows, column="ids", lengths=[len(row) + 1 for row in tokens()])
    with pytest.raises(DataError, match="lengths= says"):
        list(loader(off, sequences=pf.Windows(8), shuffle=None))
    bad = pf.rows([{"ids": [1]}, {"ids": ["a"]}], column="ids", lengths=[1, 1])
    with pytest.raises(DataError, match="row 1"):
        list(loader(bad, 1, sequences=pf.Windows(1), shuffle=None))
    with pytest.raises(ColumnNotFoundError, match="'words'"):
        _ = pf.rows(TABLE, column="words").index
    with pytest.raises(UnsupportedError, match="column"):
        loader(pf.rows(TABLE), sequences=pf.Windows(8))


def test_arguments_are_checked():
    class Negative:
        def __len__(self):
            return -1  # noqa: PLE0303

        def __getitem__(self, row):
            return row

    wrong: Any
    for wrong in (7, {"a": 1}, iter([]), Negative()):
        with pytest.raises(InvalidArgumentError):
            pf.rows(wrong)
    for options in (
        {"lengths": [1]},
        {"column": "n", "lengths": [1, 2]},
        {"column": "n", "lengths": [-1] * 120},
        {"column": "n", "lengths": ["a"] * 120},
        {"collate": 3},
        {"name": ""},
        {"metadata": ["text"]},
    ):
        with pytest.raises(InvalidArgumentError, match=next(reversed(options))):
            pf.rows(TABLE, **options)
    growing = [*TABLE]
    started = loader(pf.rows(growing))
    growing.append(TABLE[0])
    with pytest.raises(DataError, match="had 120 rows"):
        list(started)
    with pytest.raises(InvalidArgumentError, match="decode"):
        list(loader(pf.rows(TABLE), decode={"text": len}))


def test_reports_know_rows_of_any_kind():
    rows = [{"ids": [1, 2, 3], "n": n} for n in range(50)]
    made = loader(pf.rows(rows), 5)
    assert pf.verify(made).ok
    assert [traced.row for traced in pf.trace(made, step=0)] == [*range(5)]
    assert pf.inspect(pf.rows(rows)).rows == pf.forecast(made).rows == 50


def test_json_lines_are_documents(tmp_path):
    lines = [{"text": f"line {n}", "n": n} for n in range(50)]
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "a.jsonl").write_text(text.replace("\n", "\n\n", 3) + "\r\n")
    (tmp_path / "b.jsonl").write_text(text)
    data = pf.rows(tmp_path, cache_dir=tmp_path / "cache")
    assert [data[n] for n in range(100)] == lines * 2
    whole = loader(data, 10)
    assert sorted(n for batch in numbers(whole) for n in batch) == sorted(
        [*range(50)] * 2
    )
    names = [path.name for path in (tmp_path / "cache").iterdir()]
    assert any(name.startswith("lines-") for name in names)
    texts = pf.rows(tmp_path / "a.jsonl", column="text").tokenize(
        pf.Tokenizer(lambda text: [*text.encode()], vocab_size=256)
    )
    cut = loader(texts, sequences=pf.Windows(16, "drop"), shuffle=None)
    first = np.concatenate([batch["input_ids"].reshape(-1) for batch in cut]).tolist()
    assert bytes(first[:12]) == b"line 0line 1"


def test_json_lines_that_are_wrong_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": \n')
    with pytest.raises(DataError, match=r"line at byte 9 is not JSON"):
        list(loader(pf.rows(tmp_path / "a.jsonl"), 2))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as out:
        out.write('{"n": 1}\n')
    with pytest.raises(UnsupportedError, match="pagefeed tokenize"):
        pf.rows(tmp_path / "b.jsonl.gz")
