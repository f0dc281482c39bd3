"""TRL's GRPOTrainer on prompts and answers, rows of Parquet; stopped and resumed.

torchrun --nproc-per-node 2 examples/trainers/train_grpo.py data/ run/
"""

import sys

from datasets import Dataset
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import pagefeed as pf
from pagefeed.integrations.transformers import attach

GENERATIONS = 4
"""Answers to each prompt, of which those are learned that are better than the rest."""


def reward(completions: list[str], answer: list[str], **_: object) -> list[int]:
    """Score generated texts by their length; columns of the file come beside them."""
    pairs = zip(completions, answer, strict=True)
    return [-abs(len(text) - len(right)) for text, right in pairs]


def train(data: str, run: str, max_steps: int, *, resume: bool) -> pf.Loader:
    """Train up to a step, saving every other."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    trainer = GRPOTrainer(
        model=LlamaForCausalLM(config),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=run,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_generations=GENERATIONS,
            max_completion_length=8,
            max_steps=max_steps,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        # A trainer of TRL wants a dataset; what it trains on comes from the loader.
        train_dataset=Dataset.from_dict({"prompt": ["1"], "answer": ["1"]}),
        processing_class=tokenizer,
    )
    loader = pf.Loader(
        pf.parquet(f"{data}/prompts.parquet", column="prompt"),
        sequences=pf.Documents(columns=["prompt", "answer"]),
        # Prompts of this rank for an update: 4 rows x 2 / 4 answers.
        batch_size=4 * 2 // GENERATIONS,
        seed=1,
        format="torch",
    )
    attach(trainer, loader)
    trainer.train(resume_from_checkpoint=resume)
    return loader


if __name__ == "__main__":
    data, run = sys.argv[1:3]
    train(data, run, max_steps=4, resume=False)
    loader = train(data, run, max_steps=6, resume=True)
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")
    if distributed.is_initialized():
        distributed.destroy_process_group()
