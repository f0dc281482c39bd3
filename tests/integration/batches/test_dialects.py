"""Batches by the names of frameworks: values, shapes and types."""

from itertools import pairwise

import pytest

import pagefeed as pf
from made.numbered import numbered_loader, write_numbered
from pagefeed.errors import InvalidArgumentError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from pagefeed.integrations import dialects  # noqa: E402

LENGTH = 96
NAMES = (
    *("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen"),
    *("loss_mask", "document_ids", "doc_lens", "max_doc_lens"),
)


@pytest.fixture(params=[False, True], ids=["as they are", "shifted"])
def batch(tmp_path, request):
    return first_batch(tmp_path, pf.Fields(names=NAMES, shifted=request.param))


def first_batch(folder, fields):
    write_numbered(folder)
    loader = numbered_loader(
        folder, sequences=pf.Packed(LENGTH), padding=0, format="torch", fields=fields
    )
    return next(iter(loader))


def test_one_row_has_the_borders_of_its_documents(batch, tmp_path):
    made = dialects.flattened(batch)
    size = batch["input_ids"].numel()
    for name in ("input_ids", "labels", "position_ids"):
        assert made[name].shape == (1, size)
        assert torch.equal(made[name][0], batch[name].flatten())
    borders = made["cu_seq_lens_q"]
    assert borders.dtype == torch.int32
    assert (int(borders[0]), int(borders[-1])) == (0, size)
    starts = (made["position_ids"][0] == 0).nonzero()[:, 0]
    assert torch.equal(starts.int(), borders[:-1])
    assert made["max_length_q"] == made["max_length_k"] == int(borders.diff().max())
    assert isinstance(made["max_length_q"], int)
    assert set(made) - {"use_cache"} == {
        *("input_ids", "labels", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k"),
        *("max_length_q", "max_length_k", "seq_idx"),
    }
    numbers = made["seq_idx"]
    assert (numbers.dtype, numbers.shape) == (torch.int32, (1, size))
    assert torch.equal(numbers[0].bincount(), borders.diff().long())
    fields = pf.Fields(names=("input_ids", "cu_seqlens", "max_seqlen", "seq_idx"))
    joined = dialects.flattened(first_batch(tmp_path, fields))
    assert torch.equal(joined["seq_idx"], numbers)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (4, 2)])
def test_values_of_tokens_keep_their_shape_in_one_row(batch, shape):
    rows, length = batch["input_ids"].shape
    values = torch.arange(rows * length)[:, None] + torch.zeros((1, *shape)).reshape(
        1, -1
    )
    teacher = values.reshape(rows, length, *shape)
    made = dialects.flattened({**batch, "teacher_ids": teacher})["teacher_ids"]
    assert made.shape == (1, rows * length, *shape)
    firsts = made.reshape(1, rows * length, -1)[0, :, 0]
    assert torch.equal(firsts, torch.arange(rows * length).float())


def test_rows_lose_what_models_do_not_take(batch):
    made = dialects.in_rows(batch)
    assert set(made) == {"input_ids", "labels", "position_ids", "use_cache"}
    assert made["use_cache"] is False
    assert dialects.in_rows({"input_ids": 1, "document_ids": 2}) == {"input_ids": 1}


def test_megatron_masks_what_carries_no_loss(batch):
    labels, mask = batch["labels"].clone(), batch["loss_mask"].clone()
    made = dialects.megatron(batch)
    assert made["loss_mask"].dtype == torch.float32
    assert torch.equal(made["loss_mask"], mask.float())
    assert torch.equal(made["labels"], labels)
    assert (labels == -100).sum() == (mask == 0).sum() > 0


def test_megatron_takes_a_mask_of_floats_as_it_is(tmp_path):
    fields = pf.Fields(names=NAMES, shifted=True, dtypes={"loss_mask": torch.float32})
    batch = first_batch(tmp_path, fields)
    made = dialects.megatron(batch)
    assert made["loss_mask"] is batch["loss_mask"]
    assert torch.equal(made["loss_mask"], (batch["labels"] != -100).float())


def test_a_mask_of_ones_own_gives_megatron_no_loss_where_there_is_no_label(batch):
    labels = batch["labels"].clone()
    batch["loss_mask"] = torch.ones(labels.shape, dtype=torch.uint8)
    batch["loss_mask"][:, ::2] = 0
    made = dialects.megatron(batch, mask_is_given=True)
    expected = (labels >= 0) & (torch.arange(LENGTH) % 2 == 1)
    assert torch.equal(made["loss_mask"], expected.float())
    assert torch.equal(made["labels"], labels)


def test_olmo_has_the_lengths_of_documents(batch):
    made = dialects.olmo(batch)
    rows = batch["cu_seqlens"].tolist()
    for row, lengths in enumerate(made["doc_lens"].tolist()):
        begin, end = row * LENGTH, (row + 1) * LENGTH
        inside = [border for border in rows if begin <= border <= end]
        expected = [b - a for a, b in pairwise(inside)]
        assert lengths[: len(expected)] == expected
        assert not any(lengths[len(expected) :])
        assert made["max_doc_lens"][row] == max(expected)
    assert made["doc_lens"] is batch["doc_lens"]
    assert made["doc_lens"].dtype == torch.int32
    assert torch.equal(made["label_mask"], batch["loss_mask"])


@pytest.mark.parametrize("rows", [True, False])
def test_torchtitan_gets_a_pair(batch, rows):
    inputs, labels = dialects.shifted_pair(batch, rows=rows)
    shape = (4, LENGTH) if rows else (4 * LENGTH,)
    assert {name: value.shape for name, value in inputs.items()} == {
        "input": shape,
        "positions": shape,
    }
    assert labels.shape == shape


PAIR = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")


def test_packed_sequences_have_borders_of_documents_and_places(tmp_path):
    write_numbered(tmp_path)
    fields = pf.Fields(
        names=("input_ids", "labels", "position_ids", "loss_mask", *PAIR), shifted=True
    )
    parts = []
    for rank in range(2):
        loader = numbered_loader(
            tmp_path,
            sequences=pf.Packed(LENGTH, multiple_of=4),
            padding=0,
            format="torch",
            fields=fields,
            context_parallel=pf.ContextParallel(rank, 2),
        )
        parts.append(dialects.megatron(next(iter(loader))))
    for part in parts:
        made = dialects.packed_parameters(part)
        assert made["qkv_format"] == "thd"
        padded = made["cu_seqlens_kv_padded"]
        assert padded[-1] == 2 * part["tokens"].numel()
        assert made["max_seqlen_q"] == padded.diff().max()
        assert (made["cu_seqlens_q"].diff() <= padded.diff()).all()
        assert padded.dtype == made["cu_seqlens_q"].dtype == torch.int32
    with pytest.raises(InvalidArgumentError, match="cu_seqlens_padded"):
        dialects.flattened({**parts[0], "input_ids": parts[0]["tokens"]})


def test_documents_one_behind_another_are_flat_already(tmp_path):
    write_numbered(tmp_path)
    documents = pf.Documents([], max_length=LENGTH, pad=None)
    loader = numbered_loader(
        tmp_path,
        sequences=documents,
        batch_size=None,
        batch_tokens=512,
        padding=0,
        format="torch",
        fields=("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen"),
    )
    batch = next(iter(loader))
    made = dialects.flattened(batch)
    assert torch.equal(made["input_ids"], batch["input_ids"])
    lengths = batch["lengths"][batch["lengths"] > 0]
    assert made["cu_seq_lens_q"].diff().tolist() == lengths.tolist()
    assert made["max_length_q"] == lengths.max()
