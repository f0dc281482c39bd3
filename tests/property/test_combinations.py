"""Any source, selection, cut, order and tool together: it works, or is refused by name.

Each feature has tests of its own. Here they meet those that nobody thought of.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import settings as settings_of
from hypothesis import strategies as st

import pagefeed as pf
from made import flat_files
from made.shuffles import SHUFFLES
from pagefeed.errors import (
    ColumnNotFoundError,
    EmptySelectionError,
    InvalidArgumentError,
    UnsupportedError,
)
from scaled import scaled

REFUSED = (
    *(ColumnNotFoundError, EmptySelectionError),
    *(InvalidArgumentError, UnsupportedError),
)
DOCUMENTS = flat_files.some_documents(90, seed=5, longest=300)
MOST = 200
"""Batches of a run at most: mixtures may be long."""

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::pagefeed.errors.{name}")
    for name in ("BalanceWarning", "LabelWarning", "ReloadWarning")
]


def write_parquet(folder: Path, tokens: pa.Array) -> Path:
    count = len(tokens)
    others = {
        "quality": [n % 10 / 10 for n in range(count)],
        "lang": [("en", "de", None)[n % 3] for n in range(count)],
    }
    table = pa.table({"input_ids": tokens, **others})
    for number, begin in enumerate(range(0, count, 40)):
        pq.write_table(
            table.slice(begin, 40),
            folder / f"{number}.parquet",
            row_group_size=15,
            data_page_size=500,
            write_batch_size=4,
        )
    return folder


def parquet(folder: Path, tokens: pa.Array, **options: Any) -> Any:
    return pf.parquet(write_parquet(folder, tokens), column="input_ids", **options)


def flat(kind: str, folder: Path) -> Any:
    return flat_files.KINDS[kind](folder, DOCUMENTS)


LISTS = pa.array(DOCUMENTS, pa.list_(pa.int32()))
FIXED = pa.array([[n] * 8 for n in range(3, 90)], pa.list_(pa.int32(), 8))
SCALARS = pa.array(range(3, 500), pa.int32())
SOURCES: dict[str, Callable[[Path], Any]] = {
    "lists": lambda folder: parquet(folder, LISTS),
    "metadata": lambda folder: parquet(folder, LISTS, metadata=["quality", "lang"]),
    "fixed": lambda folder: parquet(folder, FIXED),
    "scalars": lambda folder: parquet(folder, SCALARS),
    **{kind: partial(flat, kind) for kind in flat_files.KINDS},
}
MARKERS = pf.Infill(prefix=60_001, middle=60_002, suffix=60_003)
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "split": lambda data: data.split(a=0.6, b=0.4, seed=1)["a"],
    "rest": lambda data: data.split(a=0.6, b=0.4, seed=2)["b"],
    "take": lambda data: data.take(share=0.3, seed=3),
    "tokens": lambda data: data.take(tokens=700, seed=4),
    "short": lambda data: next(iter(data.by_length([60]).values())),
    "long": lambda data: [*data.by_length([60]).values()][-1],
    "where": lambda data: data.where("quality > 0.3 or lang is null"),
    "erase": lambda data: data.erase(rows={data.files[0]: [0, 2, 5]}),
    "infill": lambda data: data.infill(MARKERS),
}
SEQUENCES = [
    *(pf.Windows(8), pf.Windows(64), pf.Windows(300, "drop")),
    *(pf.Packed(64), pf.Packed(512, split="never"), pf.Packed(128, method="greedy")),
    *(pf.Packed(128, method="first_fit", eos=1, bos=2), pf.Packed(96, multiple_of=8)),
    *(pf.Documents(max_length=40), pf.Documents(max_length=500), pf.Documents()),
]
FIELDS = ["labels", "position_ids", "document_ids", "cu_seqlens", "loss_mask"]
FIELDS += ["attention_mask", "dataset_ids", "metadata"]


def looked_at(loader: pf.Loader) -> None:
    repr(loader)
    loader.metrics()
    data = loader.dataset
    for each in getattr(data, "datasets", {"": data}).values():
        assert len([*each]) == len(each)
        pf.inspect(each)


def viewed(loader: pf.Loader) -> None:
    if not isinstance(loader.dataset, pf.Mixture):
        view = pf.SequenceView(loader.dataset, loader.sequences)
        assert len([view[n] for n in range(len(view))]) > 0


TOOLS: dict[str, Callable[[pf.Loader], object]] = {
    "locate": lambda loader: loader.locate(step=0, row=0),
    "trace": lambda loader: pf.trace(loader, step=0),
    "forecast": pf.forecast,
    "report": pf.report,
    "verify": lambda loader: pf.verify(loader).ok or pytest.fail("not verified"),
    "costs": pf.reports.step_costs,
    "view": viewed,
    "seek": lambda loader: loader.seek(1),
    "skip": lambda loader: loader.skip([0]),
    "look": looked_at,
}
"""Further ones than those that every run is asked for."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Any]:
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in SOURCES.items()}


@st.composite
def datasets(draw: st.DrawFn, made: dict[str, Any]) -> Any:
    name = draw(st.sampled_from(sorted(SOURCES)))
    data, chosen = (
        made[name],
        draw(st.lists(st.sampled_from([*SELECTIONS]), max_size=2)),
    )
    note(f"{name} {chosen}")
    for selection in chosen:
        if selection != "where" or hasattr(data, "where"):
            data = SELECTIONS[selection](data)
    return data


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    sequences = draw(st.sampled_from(SEQUENCES))
    found: dict[str, Any] = {
        "sequences": sequences,
        "shuffle": draw(st.sampled_from(["auto", *SHUFFLES])),
        "balance": draw(st.sampled_from([None, None, None, "tokens", "attention"])),
        "drop_last": draw(st.booleans()),
        "epochs": draw(st.sampled_from([1, 2])),
        "memory": draw(st.sampled_from(["1MiB", "64MiB"])),
    }
    if isinstance(sequences, pf.Documents) and draw(st.booleans()):
        found["batch_tokens"] = 900
    else:
        found["batch_size"] = draw(st.integers(1, 3))
    others = draw(st.lists(st.sampled_from(FIELDS), max_size=2, unique=True))
    return found | {"fields": ("input_ids", *others)}


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        # In text a NaN is like another.
        name: str(value.tolist() if isinstance(value, np.ndarray) else value)
        for name, value in batch.items()
    }


def check_runs(source: Any, options: dict[str, Any], data: st.DataObject) -> None:
    """A run is the same again, and the same from a state on."""

    def batches(loader: pf.Loader, count: int = MOST) -> list[dict[str, Any]]:
        return [plain(batch) for batch in islice(loader, count)]

    loader, cut = pf.Loader(source, **options), data.draw(st.integers(1, 6))
    iterator = iter(loader)
    before = [plain(batch) for batch in islice(iterator, cut)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [plain(batch) for batch in islice(iterator, MOST)]
    assert batches(pf.Loader(source, **options), cut + MOST) == before + rest
    if rest:
        resumed = pf.Loader(source, **options)
        resumed.load_state_dict(state)
        assert batches(resumed) == rest
    is_whole = not isinstance(source, pf.Mixture) and source.infilling is None
    if is_whole and isinstance(options["sequences"], pf.Packed):
        check_nothing_is_lost(source, options)


def check_nothing_is_lost(source: Any, options: dict[str, Any]) -> None:
    whole = options | {"drop_last": False, "epochs": 1, "fields": ("input_ids",)}
    found = Counter[int]()
    for batch in pf.Loader(source, **whole):
        found.update(batch["input_ids"].ravel().tolist())
    rows = Counter[int]()
    for row in source:
        tokens = row[source.column]
        rows.update([tokens] if isinstance(tokens, int) else tokens or [])
    for separator in (0, 1, 2):  # And padding.
        del found[separator], rows[separator]
    assert not found - rows
    if options["sequences"].split != "never":
        assert found == rows


@pytest.mark.hypothesis
def test_it_works_or_is_refused_by_name(made):
    worked = 0

    @settings_of(max_examples=scaled(50))
    @given(st.data())
    def check(data):
        nonlocal worked
        try:
            count = data.draw(st.sampled_from([1, 1, 1, 2, 3]))
            parts = {str(n): data.draw(datasets(made)) for n in range(count)}
            options = data.draw(settings()) | {"seed": 3, "rank": 0, "world_size": 1}
            source = parts["0"]
            if len(parts) > 1:
                stop = data.draw(st.sampled_from(["first_exhausted", "all_exhausted"]))
                weights = {name: (part, 1.0) for name, part in parts.items()}
                source, options["epochs"] = pf.mix(weights, stop=stop), 1
            note(f"{options}")
            check_runs(source, options, data)
            tool = data.draw(st.sampled_from([*TOOLS]))
            loader = pf.Loader(source, **options)
            TOOLS[tool](loader)
            next(iter(loader), None)
            worked += 1
        except REFUSED as error:
            note(str(error))

    check()
    assert worked > scaled(50) // 10  # Most are refused by name.
