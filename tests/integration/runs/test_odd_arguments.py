"""Whatever an argument is given, it is taken or refused by a typed error."""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.texts_made import make_tokenizer
from pagefeed.errors import InternalError, PagefeedError

ODD: list[Any] = [
    *(None, True, 3, -1, 0, 2.7, math.nan, math.inf, 10**400, object(), len),
    *("typo", "", "\0", "s3://typo/x", b"x", Path("typo")),
    *([], ["typo"], [None], {}, {"typo": 3}, {3: 4}, ("a", "b")),
    *(np.array([1, 2]), np.float64("nan")),
]
Call = Callable[..., object]
FILE = Path("a.parquet")


def given_to(known: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return what is given, and the rest."""
    return known | given


def data(**more: Any) -> Any:
    known: Any = {"paths": FILE, "column": "input_ids"}
    return pf.parquet(**(known | more))


def first_batch(dataset: Any) -> object:
    loader = pf.Loader(
        dataset, sequences=pf.Packed(8), batch_size=1, num_threads=1, shuffle=None
    )
    return next(iter(loader))


def aligned(**given: Any) -> object:
    return first_batch(data(aligned={"wide": pf.Aligned(**given)}))


def mixed(**given: Any) -> object:
    parts = {"a": (data(aligned={"wide": -1}), 1), "b": (data(), 1)}
    return first_batch(pf.mix(**given_to({"datasets": parts, "fill": ["wide"]}, given)))


def learning(policy: Any) -> object:
    parts = {"a": (data(), 1), "b": (data(), 1)}
    loader = pf.Loader(
        pf.mix(parts, max_steps=2),
        sequences=pf.Windows(8),
        batch_size=4,
        fields=("input_ids", "labels", "dataset_ids"),
    )
    learner = pf.mixing.Learner(loader, policy, every=1)
    batch = next(iter(loader))
    losses = np.ones(batch["labels"].shape)
    learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
    return learner.step()


tokenizer = functools.cache(make_tokenizer)


def tokenized(**given: Any) -> object:
    known: Any = {"column": "text", "tokenizer": tokenizer(), "output": "out"}
    return pf.tokenize(FILE, **(known | given))


SEVERAL: dict[str, tuple[Call, list[str]]] = {
    "parquet": (
        data,
        [
            *("paths", "column", "index", "cache_dir", "tokenizer", "aligned"),
            *("page_index", "metadata", "spans", "storage_cache", "storage_options"),
        ],
    ),
    "Aligned": (
        aligned,
        ["width", "padding", "count", "shifted", "first", "dtype", "scale", "of_next"],
    ),
    "tiers": (
        lambda **given: data().tiers(**given_to({"column": "n"}, given)),
        ["edges"],
    ),
    "tiers of": (
        lambda **given: data().tiers(
            **given_to({"column": "n", "quantiles": 3}, given)
        ),
        ["column", "quantiles"],
    ),
    "by_length": (lambda edges: data().by_length(edges), ["edges"]),
    "where": (lambda predicate: data().where(predicate), ["predicate"]),
    "mix": (mixed, ["datasets", "stages", "max_epochs", "temperature", "fill"]),
    "Stage": (
        lambda **given: mixed(
            stages=[pf.Stage(**given_to({"start_step": 2, "weights": {"a": 1}}, given))]
        ),
        ["start_step", "weights", "anneal"],
    ),
    "Learner": (learning, ["policy"]),
    "tokenize": (tokenized, ["keep", "column", "tokenizer", "shard_size", "output"]),
    "convert": (
        lambda **given: pf.convert(
            data(), **given_to({"to": "parquet", "output": "converted"}, given)
        ),
        ["column", "output", "storage_options", "shard_size", "eos"],
    ),
}
CASES = [(of, name) for of, (_, names) in SEVERAL.items() for name in names]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAGEFEED_CACHE_DIR", raising=False)
    rows = [list(range(row % 7)) for row in range(30)]
    wide = [[[token, token] for token in row] for row in rows]
    kind = pa.list_(pa.list_(pa.int32(), 2))
    table = {
        "input_ids": pa.array(rows, pa.list_(pa.int32())),
        "wide": pa.array(wide, kind),
        "n": list(range(30)),
        "text": ["some words"] * 30,
    }
    pq.write_table(pa.table(table), FILE)


@pytest.mark.filterwarnings("ignore::pagefeed.errors.PagefeedWarning")
@pytest.mark.filterwarnings("ignore::pagefeed.errors.CacheWarning")
@pytest.mark.parametrize(("of", "name"), CASES, ids=[".".join(each) for each in CASES])
def test_an_odd_value_is_taken_or_refused(of: str, name: str):
    call, _ = SEVERAL[of]
    refused = list[PagefeedError]()
    for number, odd in enumerate(ODD):
        is_place = name == "output" and isinstance(odd, str | Path)
        given = {name: odd}
        if of in {"tokenize", "convert"} and not is_place and name != "output":
            given["output"] = f"out-{number}"
        try:
            call(**given)
        except PagefeedError as error:
            refused.append(error)
    assert len(refused) > len(ODD) // 3
    for told in refused:
        assert not isinstance(told, InternalError)
        assert len(str(told)) > 30, "it says what to do"
