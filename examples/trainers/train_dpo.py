"""TRL's DPOTrainer on pairs of answers, rows of Parquet; stopped and resumed.

torchrun --nproc-per-node 2 examples/trainers/train_dpo.py data/ run/
"""

import sys
from copy import deepcopy

from datasets import Dataset
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

import pagefeed as pf
from pagefeed.integrations.transformers import attach


def train(data: str, run: str, max_steps: int, *, resume: bool) -> pf.Loader:
    """Train up to a step, saving every other."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    model = LlamaForCausalLM(config)
    trainer = DPOTrainer(
        model=model,
        ref_model=deepcopy(model),
        args=DPOConfig(
            output_dir=run,
            per_device_train_batch_size=4,
            max_steps=max_steps,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        # A trainer of TRL wants a dataset; what it trains on comes from the loader.
        train_dataset=Dataset.from_dict(
            {"prompt": ["1"], "chosen": ["2"], "rejected": ["3"]}
        ),
        processing_class=tokenizer,
    )
    loader = pf.Loader(
        pf.parquet(f"{data}/pairs.parquet", column="prompt_ids"),
        # Rows, as the trainer's own collator takes them.
        sequences=pf.Documents(columns=["prompt_ids", "chosen_ids", "rejected_ids"]),
        batch_size=4,
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
