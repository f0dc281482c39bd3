"""Orders of whatever a loader can do keep what is promised: any two settings meet."""

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from order_statistics import order_statistics

LONGEST = 48
DOCUMENTS = pf.Documents([], max_length=LONGEST)
FLAT = pf.Documents([], max_length=LONGEST, pad=None)
MARKERS = pf.Infill(prefix=9_001, middle=9_002, suffix=9_003)
SETTINGS: dict[str, dict[str, Any]] = {
    "cut": {
        "packed": {"sequences": pf.Packed(64), "batch_size": 2},
        "never split": {"sequences": pf.Packed(64, split="never"), "batch_size": 2},
        "windows": {"sequences": pf.Windows(40), "batch_size": 4},
        "documents": {"sequences": DOCUMENTS, "batch_size": 4},
        "padded budget": {"sequences": DOCUMENTS, "batch_tokens": 192},
        "flat budget": {"sequences": FLAT, "batch_tokens": 192},
    },
    "shuffle": {
        "page": {"shuffle": "page"},
        "row group": {"shuffle": "row_group"},
        "row": {"shuffle": "row"},
        "auto": {"shuffle": "auto"},
        "passes": {"shuffle": pf.Shuffle(passes=2)},
        "short window": {"shuffle": pf.Shuffle(window="64KiB")},
    },
    "balance": {
        "none": {},
        "attention": {"balance": pf.Balance(attention=1, stretch=64)},
        "exact": {"balance": pf.Balance(attention=1, exact=True)},
        "buckets": {"balance": pf.Balance(tokens=1, bucket=16, stretch=128)},
    },
    "source": {name: {} for name in ("all", "take", "short", "infilled", "mixture")},
    "ranks": {name: {"world_size": int(name)} for name in ("1", "2", "8")},
    "size": {name: {} for name in ("100", "400", "4000")},
}


def fits(case: dict[str, str]) -> bool:
    """Whether a loader takes these settings together; the others it refuses by name."""
    is_budget = case["cut"].endswith("budget")
    is_buckets = case["balance"] == "buckets"
    is_short = case["source"] == "short"
    is_small = case["size"] == "100" and case["ranks"] == "8"
    few = case["size"] == "400" and case["ranks"] == "8" and is_short and is_budget
    return not (
        (is_small and (case["cut"] != "documents" or is_short))
        or few
        or (is_buckets and case["cut"] != "documents")
        or (is_budget and case["source"] == "infilled")
    )


def drawn() -> list[dict[str, str]]:
    """Choose cases so that any two settings of two kinds stand in one of them."""
    rng, cases = np.random.default_rng(39), list[dict[str, str]]()
    left = {
        frozenset([(a, one), (b, other)])
        for a, b in combinations(SETTINGS, 2)
        for one in SETTINGS[a]
        for other in SETTINGS[b]
    }

    def pairs(case: dict[str, str]) -> set[frozenset[tuple[str, str]]]:
        return {frozenset(pair) for pair in combinations(case.items(), 2)} & left

    for _ in range(200):
        tried = [
            {kind: str(rng.choice([*names])) for kind, names in SETTINGS.items()}
            for _ in range(60)
        ]
        best = max(filter(fits, tried), key=lambda case: len(pairs(case)))
        if new := pairs(best):
            cases.append(best)
            left -= new
    return cases


CASES = drawn()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Datasets by size: files of documents of unlike lengths, pages of a few."""
    found, rng = {}, np.random.default_rng(5)
    for size in (*SETTINGS["size"], "other"):
        count = 150 if size == "other" else int(size)
        lengths = (rng.lognormal(2.5, 0.7, count).astype(int) + 1).clip(1, LONGEST)
        folder = tmp_path_factory.mktemp(size)
        for number, part in enumerate(np.array_split(lengths, 5)):
            rows = pa.array([[7] * n for n in part.tolist()], pa.list_(pa.int32()))
            pq.write_table(
                pa.table({"input_ids": rows}),
                folder / f"{number}.parquet",
                use_dictionary=False,
                row_group_size=200,
                data_page_size=400,
                write_batch_size=16,
            )
        found[size] = pf.parquet(
            folder, column="input_ids", cache_dir=tmp_path_factory.mktemp("cache")
        )
    return found


def source_of(name: str, data: Any, other: Any) -> Any:
    match name:
        case "take":
            return data.take(share=0.7, seed=1)
        case "short":
            return next(iter(data.by_length([12]).values()))
        case "infilled":
            return data.infill(MARKERS)
        case "mixture":
            parts = {"one": (data, 0.6), "other": (other, 0.4)}
            return pf.mix(parts, unit="sequences", max_steps=60)
    return data


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.values()))
def test_every_order_keeps_what_is_promised(made, case):
    options: dict[str, Any] = {"rank": 0}
    for kind, names in SETTINGS.items():
        options |= names[case[kind]]
    source = source_of(case["source"], made[case["size"]], made["other"])
    found = order_statistics(pf.Loader(source, **options), seeds=24)
    assert found.problems == []


def test_any_two_settings_that_fit_meet():
    met = {pair for case in CASES for pair in combinations(case.items(), 2)}
    for (a, ones), (b, others) in combinations(SETTINGS.items(), 2):
        for one in ones:
            for other in others:
                is_met = ((a, one), (b, other)) in met
                usual = {name: next(iter(of)) for name, of in SETTINGS.items()}
                usual |= {"cut": "documents", "size": "400"}
                assert is_met == fits(usual | {a: one, b: other}), (one, other)
