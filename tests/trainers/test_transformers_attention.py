"""Packed batches have the loss of their documents one by one, in every attention."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

transformers = pytest.importorskip(
    "transformers", reason="make test-trainers ARGS=transformers"
)

import torch  # noqa: E402 - comes with it
from transformers import (  # noqa: E402
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)
from transformers import modeling_flash_attention_utils as flash  # noqa: E402
from transformers.integrations import flex_attention as flex  # noqa: E402

import pagefeed as pf  # noqa: E402
from pagefeed.errors import InvalidArgumentError  # noqa: E402
from pagefeed.integrations.dialects import flattened, in_rows  # noqa: E402
from pagefeed.integrations.transformers import attach  # noqa: E402
from trainers.running import refuses_all  # noqa: E402

LENGTH = 64
NAMES = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")


def reference(query, key, value, *, causal, softmax_scale=None, **_):
    """Attention of FlashAttention's shapes, [batch, length, heads, width]."""
    assert causal
    out = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        is_causal=True,
        scale=softmax_scale,
    )
    return out.transpose(1, 2)


def reference_varlen(
    query,
    key,
    value,
    *,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q=None,
    max_seqlen_k=None,
    causal=False,
    softmax_scale=None,
):
    """FlashAttention over segments, as its documentation defines it."""
    assert torch.equal(cu_seqlens_q, cu_seqlens_k)
    assert int(cu_seqlens_q[-1]) == len(query)
    assert int(cu_seqlens_q.diff().max()) == max_seqlen_q == max_seqlen_k
    borders = cu_seqlens_q.tolist()
    parts = [
        reference(
            *(part[None, begin:end] for part in (query, key, value)),
            causal=causal,
            softmax_scale=softmax_scale,
        )[0]
        for begin, end in pairwise(borders)
        if end > begin
    ]
    return torch.cat(parts)


def uncompiled(query, key, value, training=False, **options):
    del training
    return torch.nn.attention.flex_attention.flex_attention(
        query, key, value, **options
    )


@pytest.fixture
def cpu_flash(monkeypatch):
    """transformers' own way to FlashAttention, with a kernel that the CPU has."""
    made = flash._lazy_define_process_function(reference_varlen)
    monkeypatch.setattr(flash, "_flash_fn", reference)
    monkeypatch.setattr(flash, "_flash_varlen_fn", reference_varlen)
    monkeypatch.setattr(flash, "_flash_with_kvcache_fn", None, raising=False)
    monkeypatch.setattr(flash, "_pad_fn", None, raising=False)
    monkeypatch.setattr(flash, "_unpad_fn", None, raising=False)
    monkeypatch.setattr(flash, "_process_flash_kwargs_fn", made)
    monkeypatch.setattr(flash, "_process_with_kvcache_kwargs_fn", dict, raising=False)
    monkeypatch.setattr(flash, "_loaded_implementation", "flash_attention_2")


def make_loader(folder, **options):
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH),
        "batch_size": 2,
        "format": "torch",
        "fields": NAMES,
        "num_threads": 1,
        "rank": 0,
        "world_size": 1,
    }
    data = pf.parquet(folder, column="input_ids")
    return pf.Loader(data, **settings | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents")
    rng = np.random.default_rng(2)
    rows = [rng.integers(1, 200, n).tolist() for n in rng.integers(3, 30, 80)]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, path / "a.parquet")
    return path


@pytest.fixture(scope="module")
def batch(folder):
    return next(iter(make_loader(folder)))


def make_model(attention):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).eval()
    config._attn_implementation = attention
    return model


@pytest.fixture(scope="module")
def one_by_one(batch):
    """The loss of the documents of the batch, each alone."""
    model = make_model("eager")
    ids, labels = batch["input_ids"].flatten(), batch["labels"].flatten()
    total = count = 0
    borders = batch["cu_seqlens"].tolist()
    for begin, end in pairwise(borders):
        alone = labels[None, begin:end]
        kept = int((alone[:, 1:] != -100).sum())
        if kept:
            with torch.no_grad():
                loss = model(input_ids=ids[None, begin:end], labels=alone).loss
            total, count = total + loss.item() * kept, count + kept
    assert count > 80
    return total / count


def loss_of(attention, inputs):
    with torch.no_grad():
        return make_model(attention)(**inputs).loss.item()


@pytest.mark.parametrize("dialect", [in_rows, flattened])
@pytest.mark.parametrize("attention", ["eager", "sdpa", "flex_attention"])
def test_masks_keep_documents_apart(batch, one_by_one, attention, dialect, monkeypatch):
    # Compiling it for a CPU takes long, and does not succeed for every shape.
    monkeypatch.setattr(flex, "compile_friendly_flex_attention", uncompiled)
    loss = loss_of(attention, dialect(batch))
    assert loss == pytest.approx(one_by_one, rel=1e-5)


def test_flash_attention_of_one_row_keeps_documents_apart(batch, one_by_one, cpu_flash):
    assert cpu_flash is None
    loss = loss_of("flash_attention_2", flattened(batch))
    assert loss == pytest.approx(one_by_one, rel=1e-5)
    names = ("input_ids", "labels", "position_ids")
    by_positions = {name: flattened(batch)[name] for name in names}
    loss = loss_of("flash_attention_2", by_positions)
    assert loss == pytest.approx(one_by_one, rel=1e-5)


def test_flash_attention_of_rows_would_leak(batch, one_by_one, cpu_flash):
    """The trap: several rows, and nothing says that documents see each other."""
    assert cpu_flash is None
    loss = loss_of("flash_attention_2", in_rows(batch))
    assert loss != pytest.approx(one_by_one, rel=1e-5)


def test_a_mask_beside_positions_would_leak(folder, batch, one_by_one):
    ones = torch.ones_like(batch["input_ids"])
    loss = loss_of("sdpa", {**in_rows(batch), "attention_mask": ones})
    assert loss != pytest.approx(one_by_one, rel=1e-5)
    loader = make_loader(folder, fields=(*NAMES, "attention_mask"))
    with pytest.raises(InvalidArgumentError, match="attend across documents"):
        attach(make_trainer("sdpa", folder), loader)


def test_a_cache_beside_positions_would_leak(batch, one_by_one):
    for attention in ("eager", "sdpa"):
        loss = loss_of(attention, {**in_rows(batch), "use_cache": True})
        assert loss != pytest.approx(one_by_one, rel=1e-5)


def make_trainer(attention, folder, **options):
    settings = {"per_device_train_batch_size": 2, "report_to": [], "use_cpu": True}
    arguments = TrainingArguments(output_dir=str(folder / "out"), **settings | options)
    return Trainer(model=make_model(attention), args=arguments)


@pytest.mark.parametrize(
    ("attention", "rows"), [("flash_attention_2", 1), ("sdpa", 2), ("eager", 2)]
)
def test_attach_gives_the_attention_what_it_keeps_apart(folder, attention, rows):
    trainer = make_trainer(attention, folder)
    attach(trainer, make_loader(folder))
    inputs = next(iter(trainer.get_train_dataloader()))
    assert inputs["input_ids"].shape == (rows, LENGTH * 2 // rows)
    assert ("cu_seq_lens_q" in inputs) == (rows == 1)


@pytest.mark.parametrize(
    ("trainer", "loader", "match"),
    [
        ({}, {"format": "numpy"}, "format='torch'"),
        ({}, {"fields": ("input_ids",)}, "needs labels"),
        ({}, {"batch_size": 3}, "per_device_train_batch_size is 2"),
        ({}, {"rank": 1, "world_size": 2}, "rank 0 of 1, the loader feeds rank 1"),
        ({"ignore_data_skip": True}, {}, "leave ignore_data_skip"),
        ({}, {"fields": NAMES[:3]}, "needs cu_seqlens, max_seqlen"),
    ],
)
def test_what_does_not_fit_is_refused(folder, trainer, loader, match):
    made = make_trainer("flash_attention_2", folder, **trainer)
    with pytest.raises(InvalidArgumentError, match=match):
        attach(made, make_loader(folder, **loader))


def test_wrong_arguments_are_refused(folder):
    trainer, loader = make_trainer("sdpa", folder), make_loader(folder)
    call: Any = attach
    wrong = {
        "a transformers.Trainer": lambda: call(loader, trainer),
        "not a pagefeed Loader": lambda: call(trainer, "tokens/"),
        "flatten='yes'": lambda: call(trainer, loader, flatten="yes"),
    }
    refuses_all(wrong)


def test_sft_trainer_trains_and_resumes(folder, tmp_path):
    """TRL's trainer, made with a dataset that is never read."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    def train(resume=None):
        model = make_model("sdpa").train()
        seen = []
        model.register_forward_pre_hook(
            lambda _, __, inputs: seen.append(inputs["input_ids"].tolist()),
            with_kwargs=True,
        )
        arguments = SFTConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            max_steps=6,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"input_ids": [[1]], "labels": [[1]]}),
            processing_class=make_tokenizer(),
        )
        attach(trainer, make_loader(folder))
        trainer.train(resume_from_checkpoint=resume)
        logs = [log for log in trainer.state.log_history if "loss" in log]
        return seen, [log["loss"] for log in logs], [log["num_tokens"] for log in logs]

    seen, losses, tokens = train()
    assert [len(row) for step in seen for row in step] == [2 * LENGTH] * 6
    assert tokens == [2 * LENGTH * step for step in range(1, 7)]
    again, relosses, _ = train(str(tmp_path / "checkpoint-4"))
    assert again == seen[4:]
    assert relosses == pytest.approx(losses, rel=1e-4)


def make_tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {"[PAD]": 0, "[EOS]": 1, "a": 2}
    made = Tokenizer(WordLevel(words, unk_token="a"))
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]"
    )
