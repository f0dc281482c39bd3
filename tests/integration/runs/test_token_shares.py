"""Weights and ends in tokens count tokens as they are delivered."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import LENGTH
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import forecast

APART = 10**6


def write(folder: Path, lengths: list[int], *, first: int, num_files: int = 1) -> None:
    """Rows of these lengths, all of whose tokens are at least ``first``."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.array(lengths), num_files)):
        rows = [[first + place for place in range(length)] for length in part.tolist()]
        table = pa.table(
            {
                "input_ids": pa.array(rows, pa.list_(pa.int32())),
                "text": [f"row {row}" for row in range(len(rows))],
            }
        )
        path = folder / f"part-{number:03}.parquet"
        pq.write_table(table, path, data_page_size=512, write_batch_size=4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("shares")
    rng = np.random.default_rng(4)
    write(root / "long", rng.integers(200, 400, 300).tolist(), first=APART)
    write(root / "short", rng.integers(1, 40, 900).tolist(), first=2 * APART)
    write(root / "tiny", [10] * 60, first=3 * APART, num_files=60)
    return root


def halves(folders: Path, names=("long", "short"), **options: Any) -> pf.Mixture:
    column = options.pop("column", "input_ids")
    parts = {name: pf.parquet(folders / name, column=column) for name in names}
    return pf.mix({name: (part, 0.5) for name, part in parts.items()}, **options)


def make(mixed: pf.Mixture, sequences: Any, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {"batch_size": 4, "rank": 0, "world_size": 1}
    fields: Final = ("input_ids", "attention_mask")
    return pf.Loader(mixed, sequences=sequences, fields=fields, **settings | options)


def delivered(loader: pf.Loader) -> dict[str, int]:
    """Tokens by dataset, as they are in the batches."""
    counts = np.zeros(4, dtype=np.int64)
    for batch in loader:
        tokens = batch["input_ids"][batch["attention_mask"]]
        counts += np.bincount(tokens // APART, minlength=4)
    names = ("separators", "long", "short", "tiny")
    return {name: int(n) for name, n in zip(names, counts, strict=True) if n}


@pytest.mark.parametrize("cache_dir", [True, False])
def test_cut_documents_have_their_share(folders, tmp_path, monkeypatch, cache_dir):
    if cache_dir:
        monkeypatch.setenv("PAGEFEED_CACHE_DIR", str(tmp_path))
    mixed = halves(folders, max_tokens=20_000)
    loader = make(mixed, pf.Documents(max_length=16))
    found = delivered(loader)
    total = sum(found.values())
    assert abs(total - 20_000) < 600
    assert abs(found["long"] / total - 0.5) < 0.03
    for name, count in found.items():
        assert abs(loader.stats()[f"{name}/tokens"] - count) < 0.05 * count
    assert len(list(tmp_path.glob("costs-*"))) == (2 if cache_dir else 0)


def test_selected_documents_are_counted_by_their_own_lengths(folders):
    long = pf.parquet(folders / "long", column="input_ids")
    parts = long.by_length([300])
    mixed = pf.mix({"under": parts["tokens < 300"], "over": parts["tokens >= 300"]})
    documents = pf.Documents(max_length=310)
    loader = make(mixed, documents)
    for name, dataset in mixed.datasets.items():
        lengths = np.concatenate(
            [dataset.index.row_offsets(page) for page in range(len(dataset.index))]
        )
        lengths = np.diff(lengths)[np.diff(lengths) >= 0]
        mine = lengths[(lengths < 300) == (name == "under")]
        assert documents.index(dataset.spans).num_delivered_tokens == sum(
            np.minimum(mine, 310)
        )
        assert loader.num_sequences == 300


def test_repeated_tokens_of_windows_count(folders):
    windows = pf.Windows(LENGTH, overlap=LENGTH // 2)
    loader = make(halves(folders, max_tokens=20_000), windows)
    total = sum(delivered(loader).values())
    assert abs(total - 20_000) <= 4 * LENGTH
    stats = loader.stats()
    assert stats["long/tokens"] + stats["short/tokens"] == pytest.approx(total, abs=64)


@pytest.mark.parametrize("join", ["dataset", "file"])
@pytest.mark.parametrize("eos", [None, 1])
def test_small_files_without_tails_have_their_share(folders, join, eos):
    # Of a file of 10 tokens and an eos, a window of 6 leaves more than it holds.
    windows = pf.Windows(6, "drop", eos=eos, join=join)
    mixed = halves(folders, ("long", "tiny"), max_tokens=6_000)
    found = delivered(make(mixed, windows))
    tokens = {name: found[name] for name in ("long", "tiny")}
    assert sum(found.values()) == pytest.approx(6_000, abs=30)
    assert tokens["tiny"] / sum(tokens.values()) == pytest.approx(0.5, abs=0.06)


def test_samples_are_counted_without_reading(folders, monkeypatch):
    def refuse(*_: Any) -> None:
        raise AssertionError("lengths are read")

    monkeypatch.setattr("pagefeed.documents.document_index.document_lengths", refuse)
    mixed = halves(folders, unit="sequences", max_steps=50)
    loader = make(mixed, pf.Documents(max_length=16))
    rows = [int(row) // APART for batch in loader for row in batch["input_ids"][:, 0]]
    assert abs(rows.count(1) - 100) <= 4
    stats = loader.stats()
    assert stats["long/sequences"] + stats["short/sequences"] == 200
    assert "long/tokens" not in stats
    plan = forecast(loader)
    assert plan.datasets["long"].delivered_tokens == 0
    assert plan.stages[0].shares["long"] == pytest.approx(0.5, abs=0.02)


def test_a_resume_may_begin_to_count_tokens(folders):
    documents = pf.Documents(max_length=16)
    begun = make(halves(folders, unit="sequences", max_steps=50), documents)
    next(iter(begun))
    counting = make(halves(folders, max_tokens=2_000), documents)
    counting.load_state_dict(begun.state_dict())
    assert sum(delivered(counting).values()) > 1_500
    assert counting.stats()["long/tokens"] > 0
    begun.load_state_dict(counting.state_dict())


def test_columns_without_tokens_are_counted_by_rows_or_refused(folders):
    texts = halves(folders, column="text", max_steps=25)
    documents = pf.Documents(columns=["text"])
    loader = pf.Loader(texts, sequences=documents, batch_size=8, rank=0, world_size=1)
    assert len(list(loader)) == 25
    assert abs(loader.stats()["long/sequences"] - 100) <= 4
    assert "long/tokens" not in loader.stats()
    both = {
        "long": (pf.parquet(folders / "long", column="input_ids"), 0.5),
        "short": (pf.parquet(folders / "short", column="text"), 0.5),
    }
    for wrong, match in (
        (halves(folders, column="text", max_tokens=50), "max_steps"),
        (pf.mix(both), "unit='sequences'"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            pf.Loader(wrong, sequences=documents, batch_size=8, rank=0, world_size=1)


def test_rows_without_a_token_have_no_share_of_tokens(tmp_path):
    write(tmp_path / "long", [5, 9], first=APART)
    write(tmp_path / "short", [0, 0], first=APART)
    with pytest.raises(InvalidArgumentError, match="no token in any row"):
        make(halves(tmp_path), pf.Documents(max_length=4))
