"""TRL's SFTTrainer on packed chats; proves that no chat sees its neighbours.

torchrun --nproc-per-node 2 examples/trainers/train_sft.py data/ run/
"""

import sys

import torch
from datasets import Dataset
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import pagefeed as pf
from pagefeed.integrations.transformers import attach

LENGTH = 128


def train(data: str, run: str, max_steps: int, *, resume: bool) -> SFTTrainer:
    """Train on what the assistant says, saving every other step."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    trainer = SFTTrainer(
        model=LlamaForCausalLM(config),
        args=SFTConfig(
            output_dir=run,
            per_device_train_batch_size=1,
            max_steps=max_steps,
            max_length=LENGTH,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        # A trainer of TRL wants a dataset; what it trains on comes from the loader.
        train_dataset=Dataset.from_dict({"input_ids": [[1, 2]], "labels": [[1, 2]]}),
        processing_class=tokenizer,
    )
    chats = pf.parquet(f"{data}/chats.parquet", column="messages")
    loader = pf.Loader(
        # The tokenizer's template: labels are -100 but in the assistant's answers.
        chats.tokenize(pf.Tokenizer(f"{data}/tokenizer.json"), messages="messages"),
        sequences=pf.Packed(LENGTH, split="never"),
        batch_size=1,
        seed=1,
        format="torch",
        fields=("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen"),
    )
    attach(trainer, loader)
    trainer.train(resume_from_checkpoint=resume)
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")
    return trainer


def neighbours_seen(trainer: SFTTrainer) -> tuple[float, float]:
    """Change the first chat of a batch: return how much its own outputs and others' do.

    The first batch of the trainer's own, through its own model.
    """
    batch = dict(next(iter(trainer.get_train_dataloader())))
    del batch["labels"]
    first, second = batch["cu_seq_lens_q"][:2].tolist()
    changed = batch["input_ids"].clone()
    changed[0, first : second - 1] = changed[0, first : second - 1].flip(0)
    model = trainer.model.eval()
    with torch.no_grad():
        before = model(**batch).logits[0]
        after = model(**batch | {"input_ids": changed}).logits[0]
    difference = (before - after).abs().amax(dim=-1)
    return float(difference[first:second].max()), float(difference[second:].max())


if __name__ == "__main__":
    data, run = sys.argv[1:3]
    train(data, run, max_steps=4, resume=False)
    trainer = train(data, run, max_steps=6, resume=True)
    own, others = neighbours_seen(trainer)
    print(f"a changed chat changes its own outputs by {own:.3g}, others' by {others}")
    if distributed.is_initialized():
        distributed.destroy_process_group()
