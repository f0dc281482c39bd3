"""What sequences cost is what their batches hold: sums of squared lengths."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.balance import SequenceCosts
from pagefeed.core.sequences import JoinedIndex
from pagefeed.errors import InvalidArgumentError

SETTINGS = [
    pf.Windows(32),
    pf.Windows(32, eos=1, tail="drop"),
    pf.Windows(40, bos=2, eos=1, overlap=7),
    pf.Windows(24, join="file"),
    pf.Packed(64, eos=1),
    pf.Packed(64, split="never", method="greedy"),
    pf.Packed(48, join="file"),
]


def write(folder, seed=0):
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for number in range(3):
        lengths = rng.lognormal(2.5, 1, 400).astype(int) * (rng.random(400) > 0.1)
        rows = [np.full(length, 7, np.int32) for length in lengths]
        table = pa.table({"input_ids": rows, "id": np.arange(400)})
        pq.write_table(
            table,
            folder / f"{number}.parquet",
            row_group_size=150,
            data_page_size=512,
            write_batch_size=8,
        )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return pf.parquet(
        write(tmp_path_factory.mktemp("costs") / "data"), column="input_ids"
    )


def kinds(data):
    return {
        "whole": data,
        "selected": data.where(f"id in {list(range(0, 400, 3))}"),
        "nothing in some pages": data.where("id < 80"),
    }


@pytest.mark.parametrize("sequences", SETTINGS, ids=repr)
@pytest.mark.parametrize("kind", ["whole", "selected", "nothing in some pages"])
def test_costs_are_those_of_the_documents_in_each_sequence(data, sequences, kind):
    loader = pf.Loader(
        kinds(data)[kind],
        sequences=sequences,
        batch_size=1,
        shuffle=None,
        rank=0,
        world_size=1,
    )
    run = loader.view().run
    index, own = run.index, run.indexes[0]
    costs = SequenceCosts(index)
    numbers = np.arange(index.num_sequences)
    told = costs.squares(numbers)
    for number in numbers.tolist():
        parts = own.parts(number)
        lengths: Counter[tuple[int, int]] = Counter()
        for page, row, count in zip(
            parts.page.tolist(),
            parts.row.tolist(),
            parts.num_tokens.tolist(),
            strict=True,
        ):
            lengths[page, row] += count
        assert told[number] == sum(n * n for n in lengths.values())
    assert costs.tokens(numbers).tolist() == [index.length] * len(numbers)


def test_documents_cost_their_tokens_as_they_are_cut(data):
    loader = pf.Loader(
        data,
        sequences=pf.Documents(columns=["id"], max_length=20),
        batch_size=8,
        shuffle=None,
        rank=0,
        world_size=1,
    )
    delivered = np.concatenate([batch["lengths"] for batch in loader])
    index = loader.view().run.index
    costs = SequenceCosts(index)
    numbers = np.arange(len(delivered))
    assert costs.tokens(numbers).tolist() == delivered.tolist()
    assert costs.squares(numbers).tolist() == (delivered**2).tolist()
    both = pf.Balance(tokens=4, attention=0.5).costs(index, [], pf.Packed(8))(numbers)
    # The larger of both costs is 1.
    assert both.tolist() == (delivered + delivered**2 / 8).tolist()


def test_costs_are_kept_in_four_bytes_and_found_again(tmp_path):
    folder, cache = write(tmp_path / "data"), tmp_path / "cache"
    for _ in range(2):
        data = pf.parquet(folder, column="input_ids", cache_dir=cache)
        index = JoinedIndex([pf.Packed(64).index(data.spans)])
        costs = SequenceCosts(index)
        (kept,) = cache.rglob("costs-*/numbers")
        assert kept.stat().st_size <= 4 * index.num_sequences + 16
    touched = kept.stat().st_mtime_ns
    SequenceCosts(index)
    assert kept.stat().st_mtime_ns == touched
    assert len(costs.squares(np.arange(index.num_sequences))) == index.num_sequences


def test_rows_without_tokens_have_no_costs(data):
    with pytest.raises(InvalidArgumentError, match="max_length"):
        pf.Loader(data, sequences=pf.Documents(), batch_size=4, balance="attention")
