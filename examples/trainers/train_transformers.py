"""transformers' Trainer, fed from Parquet; stopped, and resumed at the exact sample.

torchrun --nproc-per-node 2 examples/trainers/train_transformers.py tokens/ run/
"""

import sys

from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import pagefeed as pf
from pagefeed.integrations.transformers import attach

LENGTH = 128


def train(tokens: str, run: str, max_steps: int, *, resume: bool) -> pf.Loader:
    """Train up to a step, saving every fifth."""
    config = LlamaConfig(
        vocab_size=65536,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
    )
    arguments = TrainingArguments(
        output_dir=run,
        per_device_train_batch_size=4,
        max_steps=max_steps,
        save_steps=5,
        logging_steps=5,
        report_to=[],
        use_cpu=True,
    )
    trainer = Trainer(model=LlamaForCausalLM(config), args=arguments)
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(LENGTH, eos=0),
        batch_size=4,
        seed=1,
        format="torch",
        # With positions documents do not see each other; see the guide.
        fields=("input_ids", "labels", "position_ids"),
    )
    attach(trainer, loader)
    trainer.train(resume_from_checkpoint=resume)
    return loader


if __name__ == "__main__":
    tokens, run = sys.argv[1:3]
    train(tokens, run, max_steps=10, resume=False)
    loader = train(tokens, run, max_steps=15, resume=True)
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")
    if distributed.is_initialized():
        distributed.destroy_process_group()
