"""Rows as trainers take them, and functions that decode them ahead of the consumer."""

import operator
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.optional import as_dataset, torch
from pagefeed.errors import DataError, InvalidArgumentError

COUNT = 30


def write(folder: Path) -> pf.dataset.ParquetDataset:
    rows = range(COUNT)
    table = {
        "input_ids": [[n] * (n % 3) for n in rows],
        "text": pa.array([None if n == 4 else f"t{n}" for n in rows]),
        "image": [None if n == 5 else bytes([n]) * n for n in rows],
        "n": pa.array(rows, pa.int16()),
        "half": pa.array([np.float16(n) for n in rows], pa.float16()),
        "maybe": [None if n == 6 else n for n in rows],
        "flag": [n % 2 == 0 for n in rows],
        "day": pa.array(rows, pa.date32()),
    }
    pq.write_table(pa.table(table), folder / "a.parquet", row_group_size=8)
    return pf.parquet(folder, column="input_ids")


COLUMNS = ["text", "image", "n", "half", "maybe", "flag", "day", "input_ids"]


def loader(data: Any, columns: list[str] | None = None, **options: Any) -> pf.Loader:
    documents = pf.Documents(columns=columns or COLUMNS)
    settings = {"batch_size": 8, "shuffle": None, "num_threads": 2} | options
    return pf.Loader(data, sequences=documents, **settings)


@pytest.mark.parametrize("format_name", ["numpy", "torch"])
def test_each_column_comes_by_its_type(tmp_path: Path, format_name: Any):
    feed = loader(write(tmp_path), format=format_name, drop_last=False)
    first, *_, last = feed
    kind = torch.Tensor if format_name == "torch" else np.ndarray
    for name, dtype in [
        ("n", "int16"),
        ("half", "float16"),
        ("flag", "bool"),
    ]:
        assert isinstance(first[name], kind)
        assert str(first[name].dtype).removeprefix("torch.") == dtype
    assert first["n"].tolist() == [*range(8)]
    assert first["flag"].tolist() == [True, False] * 4
    # No integer says that there is none.
    assert first["maybe"].to_pylist()[5:] == [5, None, 7]
    assert first["text"] == [None if n == 4 else f"t{n}" for n in range(8)]
    assert first["image"][5] is None
    assert isinstance(first["image"][3], memoryview)
    assert bytes(first["image"][3]) == b"\3\3\3"
    assert first["image"][3].readonly
    assert first["input_ids"].to_pylist()[5] == first["input_ids"][5] == [5, 5]
    assert str(first["day"][1]) == "1970-01-02"
    # Nor that a row only fills up the batch; of floats NaN does.
    assert last["n"].to_pylist() == [24, 25, 26, 27, 28, 29, None, None]
    assert np.isnan(np.asarray(last["half"], np.float64)).tolist()[5:] == [
        False,
        True,
        True,
    ]
    assert last["text"][5:] == ["t29", None, None]


def fail_at_9(image: Any) -> int:
    if len(image) == 9:
        raise ValueError("no image")
    return len(image)


@pytest.mark.parametrize("processes", [False, True])
def test_rows_are_decoded_in_order(tmp_path: Path, processes: bool):
    # A function that spawned processes can import.
    functions = {"image": operator.methodcaller("hex")}
    decode = pf.Decode(functions, workers=2, processes=processes)
    feed = loader(write(tmp_path), ["image", "n"], decode=decode, shuffle="row")
    seen: list[int] = []
    for batch in feed:
        numbers = batch["n"].tolist()
        expected = [None if n == 5 else (bytes([n]) * n).hex() for n in numbers]
        assert batch["image"] == expected
        seen += numbers
    assert len(set(seen)) == 24


def test_it_is_ahead_of_the_consumer_and_resumes_where_that_is(tmp_path: Path):
    called = threading.Event()

    def slow(text: str) -> str:
        if text == "t9":
            called.set()
        return text.upper()

    data = write(tmp_path)
    feed = loader(data, ["text"], decode={"text": slow})
    batches = iter(feed)
    assert next(batches)["text"][0] == "T0"
    assert called.wait(20)
    state = feed.state_dict()
    again = loader(data, ["text"], decode={"text": slow})
    again.load_state_dict(state)
    assert (
        next(iter(again))["text"]
        == next(batches)["text"]
        == [f"T{n}" for n in range(8, 16)]
    )
    feed.seek(0)
    assert next(batches)["text"][1] == "T1"
    assert feed.stats()["batches"] >= 2


def test_what_a_function_raises_is_told_with_its_row(tmp_path: Path):
    feed = loader(write(tmp_path), ["image"], decode={"image": fail_at_9})
    batches = iter(feed)
    assert next(batches)["image"][:3] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(DataError, match="'image' failed in row 1") as found:
            next(batches)
        assert isinstance(found.value.__cause__, ValueError)
        assert "row 9 of the file" in str(found.value)
        assert found.value.steps == (1,)
    feed.skip(found.value.steps)
    assert next(batches)["image"] == [*range(16, 24)]


def test_workers_of_torch_hand_bytes_over(tmp_path: Path):
    feed = loader(write(tmp_path), ["image", "n", "text"])
    batches = [
        *torch.utils.data.DataLoader(as_dataset(feed), batch_size=None, num_workers=1)
    ]
    assert [bytes(one) for one in batches[1]["image"]] == [
        bytes([n]) * n for n in range(8, 16)
    ]
    assert batches[0]["text"][:2] == ["t0", "t1"]


def test_what_cannot_be_decoded_is_refused(tmp_path: Path):
    data = write(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"'nothing'.*'text'"):
        loader(data, ["text"], decode={"nothing": len})
    for wrong in ({}, {"text": 3}, [len], {3: len}):
        with pytest.raises(InvalidArgumentError, match="a function for each"):
            loader(data, decode=wrong)
    with pytest.raises(InvalidArgumentError, match="Documents"):
        pf.Loader(data, sequences=pf.Windows(8), batch_size=1, decode={"text": len})
    with pytest.raises(InvalidArgumentError, match="workers"):
        pf.Decode({"text": len}, workers=0)


def test_many_rows_take_turns(tmp_path: Path):
    running, most, lock = 0, 0, threading.Lock()

    def counted(text: str) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return text

    decode = pf.Decode({"text": counted}, workers=3)
    assert len([*loader(write(tmp_path), ["text"], decode=decode)]) == 3
    assert 1 <= most <= 3
