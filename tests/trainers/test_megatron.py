"""Megatron: the external dataloader, as far as megatron-core has a say in it."""

from typing import Any

import pytest

pytest.importorskip("megatron.core", reason="make test-trainers ARGS=megatron")

import torch
from megatron.core.packed_seq_params import PackedSeqParams

import pagefeed as pf
from pagefeed.integrations.dialects import megatron as micro_batch
from pagefeed.integrations.megatron import (
    MicroBatches,
    dataset_provider,
    packed_sequences,
)
from trainers.running import LENGTH, make_loader, refuses_all, run_job


@pytest.fixture(scope="module")
def runs(folder):
    return run_job("megatron", folder, world_size=2)


def test_a_saved_state_goes_on(runs):
    for one in runs:
        assert one["saved"]["seen"] == one["last"]["seen"]


def test_tensor_parallel_ranks_share_batches(runs):
    assert [one["tensor ranks"] for one in runs] == [[0, 1], [0, 1]]
    assert runs[0]["peers"] == runs[1]["peers"]
    assert runs[0]["silent"] != runs[1]["silent"]
    for one in runs:
        assert "processes 0 and 1 need the same batches" in one["by RANK"]


def test_what_does_not_fit_is_refused(runs):
    assert "epochs=None" in runs[0]["finite"]
    assert "format='torch'" in runs[0]["numpy"]


@pytest.mark.parametrize("size", [1, 2])
def test_attention_by_thd_gets_the_borders_of_documents(folder, size):
    names = ("input_ids", "labels", "position_ids", "loss_mask")
    borders = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")
    fields = pf.Fields(names=(*names, *borders), shifted=True)
    options: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH, multiple_of=2 * size),
        "fields": fields,
    }
    whole = next(iter(make_loader(folder, **options)))
    for rank in range(size):
        part = pf.ContextParallel(rank, size)
        loader = make_loader(folder, context_parallel=part, **options)
        batch = micro_batch(next(iter(loader)))
        made = packed_sequences(batch)
        assert isinstance(made, PackedSeqParams)
        assert made.qkv_format == "thd"
        assert made.cu_seqlens_q_padded[-1] == batch["tokens"].numel() * size
        for kind in ("q", "kv"):
            found = getattr(made, f"cu_seqlens_{kind}")
            assert torch.equal(found, whole["cu_seqlens"])
            found = getattr(made, f"cu_seqlens_{kind}_padded")
            assert torch.equal(found, whole["cu_seqlens_padded"])
            assert getattr(made, f"max_seqlen_{kind}") == whole["max_seqlen"]
            assert found.dtype == torch.int32


def test_wrong_arguments_are_refused(folder):
    loader = make_loader(folder)
    provider: Any = dataset_provider
    batches: Any = MicroBatches
    wrong = {
        "train=": lambda: provider(loader),
        "valid='same'": lambda: provider(make_loader, "same"),
        "consumed_samples=64": lambda: provider(make_loader, consumed_samples=64),
        "not a pagefeed Loader": lambda: batches("tokens/"),
        "needs loss_mask, position_ids": lambda: batches(loader),
    }
    refuses_all(wrong)
