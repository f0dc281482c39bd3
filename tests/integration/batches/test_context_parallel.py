"""Ranks of a context-parallel group get the parts that training frameworks define."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import pagefeed as pf
from made.numbered import write_numbered
from pagefeed.errors import InvalidArgumentError

FIELDS = ("input_ids", "labels", "position_ids", "loss_mask", "cu_seqlens")


def megatron_part(field, size, rank):
    """Megatron-Core's get_batch_on_this_cp_rank, from its definition.

    The sequence is seen as 2 * size chunks, and those of the rank are selected.
    """
    seen = field.view(field.shape[0], 2 * size, field.shape[1] // (2 * size))
    index = torch.tensor([rank, 2 * size - rank - 1])
    return seen.index_select(1, index).reshape(field.shape[0], -1)


def test_parts_are_those_of_megatron_in_many_cases():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        size = int(rng.integers(1, 17))
        length = 2 * size * int(rng.integers(1, 40))
        rank, rows = int(rng.integers(size)), int(rng.integers(1, 5))
        field = torch.from_numpy(rng.integers(0, 1000, (rows, length)))
        part = pf.ContextParallel(rank, size).part({"labels": field}, length)
        assert torch.equal(part["labels"], megatron_part(field, size, rank))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    write_numbered(folder)
    return pf.parquet(folder, column="input_ids")


def batches(data, part=None, **options):
    settings: dict[str, Any] = {"sequences": pf.Windows(64), "batch_size": 4}
    settings |= {"fields": FIELDS, "rank": 0, "world_size": 1, **options}
    return itertools.islice(pf.Loader(data, context_parallel=part, **settings), 20)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["zigzag", "contiguous"])
def test_ranks_of_a_group_have_each_token_once(data, layout, kind):
    parts = [pf.ContextParallel(rank, 4, layout) for rank in range(4)]
    groups = [batches(data, part, format=kind) for part in parts]
    for whole, *shares in zip(batches(data), *groups, strict=True):
        for name in FIELDS:
            if name == "cu_seqlens":
                for share in shares:
                    assert np.asarray(share[name]).tolist() == whole[name].tolist()
                continue
            joined = np.empty_like(whole[name])
            for part, share in zip(parts, shares, strict=True):
                assert share[name].shape == (4, 16)
                joined[:, part.columns(64)] = np.asarray(share[name])
            assert np.array_equal(joined, whole[name])


def test_a_part_holds_its_share_of_the_memory(data):
    (batch,) = itertools.islice(batches(data, pf.ContextParallel(1, 8)), 1)
    (whole,) = itertools.islice(batches(data), 1)
    tokens = batch["input_ids"]
    owner = tokens if tokens.base is None else tokens.base
    assert owner.nbytes == whole["input_ids"].nbytes // 8


def test_what_cannot_be_cut_is_refused(data):
    with pytest.raises(InvalidArgumentError, match="60 tokens"):
        batches(data, pf.ContextParallel(0, 3), sequences=pf.Windows(64))
    with pytest.raises(InvalidArgumentError, match="pad"):
        batches(
            data,
            pf.ContextParallel(0, 2),
            sequences=pf.Documents(max_length=64),
            fields=("input_ids",),
        )
    for settings in ((2, 2), (0, 0), (-1, 2), (0, 2, "rings")):
        with pytest.raises(InvalidArgumentError):
            pf.ContextParallel(*settings)
    with pytest.raises(InvalidArgumentError, match="ContextParallel"):
        batches(data, (0, 2))
