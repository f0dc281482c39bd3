"""The documents behind a loss: each label's loss is that of its document."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.reports import losses_by_row

EOS = 1
NOISE = 13
"""The row whose tokens are lost on."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("losses")
    rows = [[100 + n] * (3 + n % 7) for n in range(40)]
    pq.write_table(pa.table({"input_ids": rows}), path / "a.parquet", row_group_size=9)
    return path


def loader_of(
    folder: Path, *, shifted: bool, rank: int = 0, world_size: int = 1
) -> pf.Loader:
    return pf.Loader(
        pf.parquet(folder, column="input_ids"),
        sequences=pf.Packed(16, eos=EOS),
        batch_size=2,
        seed=1,
        drop_last=False,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=shifted),
        rank=rank,
        world_size=world_size,
    )


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("shifted", [False, True])
def test_the_planted_row_is_first(folder: Path, shifted: bool, world_size: int):
    tokens: Any = defaultdict(int)
    found = 0
    for rank in range(world_size):
        loader = loader_of(folder, shifted=shifted, rank=rank, world_size=world_size)
        for batch in loader:
            labels = batch["labels"]
            losses = np.where(labels == 100 + NOISE, 9.0, 1.0)
            table = losses_by_row(loader, batch, losses)
            assert table == losses_by_row(
                loader, {"labels": labels.reshape(1, -1)}, losses.reshape(1, -1)
            )
            for each in table:
                tokens[each.file_row] += each.tokens
            if not table:
                continue  # Padding alone.
            assert sum(each.share for each in table) == pytest.approx(1)
            assert sum(e.tokens for e in table) == (labels != -100).sum()
            if (labels == 100 + NOISE).any():
                found += 1
                worst = max(table, key=lambda each: each.surprise)
                assert (worst.file_row, table[0].file_row) == (NOISE, NOISE)
                assert worst.loss > 5
                assert table[0].step == loader.step - 1
    assert found
    # Each token but the first of a document, and its separator, has one loss.
    whole = {n: 3 + n % 7 for n in range(40)}
    assert all(0 <= whole[n] - count <= 1 for n, count in tokens.items())


def test_losses_of_other_shapes_are_refused(folder: Path):
    loader = loader_of(folder, shifted=False)
    batch = next(iter(loader))
    with pytest.raises(pf.errors.InvalidArgumentError, match="one for each label"):
        losses_by_row(loader, batch, np.zeros((2, 15)))
