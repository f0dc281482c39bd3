"""TRL's trainers on rows of columns: an epoch in one go, and from a checkpoint."""

import copy
import re
from functools import partial

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers import LlamaForSequenceClassification as Scoring
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
)
from trl.trainer.reward_trainer import DataCollatorForPreference

import pagefeed as pf
from job import Job
from pagefeed.integrations.transformers import attach

torch.set_num_threads(1)
job = Job()
data = job.folder / "rows"
tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
CONFIG = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)
SETTINGS = {
    "num_train_epochs": 1,
    "save_steps": 3,
    "logging_steps": 1,
    "report_to": [],
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
    "per_device_train_batch_size": 4,
}
PAIR = Dataset.from_dict({"prompt": ["1"], "chosen": ["2"], "rejected": ["3"]})


def whole_chats(rows):
    """A collator of one's own: what a reward model reads is prompt and answer."""
    collate = DataCollatorForPreference(pad_token_id=tokenizer.pad_token_id)
    return collate(
        [
            {
                name: row["prompt_ids"] + row[name]
                for name in row
                if name != "prompt_ids"
            }
            for row in rows
        ]
    )


def score(completions, **columns):
    """The columns of a row come beside each of its answers."""
    assert len(columns["id"]) == len(completions)
    return [-len(text) for text in completions]


def dpo(output_dir):
    model = LlamaForCausalLM(copy.deepcopy(CONFIG))
    return partial(DPOTrainer, ref_model=copy.deepcopy(model), train_dataset=PAIR)(
        model, args=DPOConfig(output_dir, **SETTINGS), processing_class=tokenizer
    )


def reward(output_dir):
    return RewardTrainer(
        Scoring(LlamaConfig(**CONFIG.to_dict() | {"num_labels": 1})),
        args=RewardConfig(output_dir, **SETTINGS),
        processing_class=tokenizer,
        train_dataset=PAIR.remove_columns("prompt"),
        data_collator=whole_chats,
    )


def grpo(output_dir):
    args = GRPOConfig(
        output_dir,
        **SETTINGS,
        gradient_accumulation_steps=2,
        num_generations=4,
        max_completion_length=4,
    )
    return GRPOTrainer(
        LlamaForCausalLM(copy.deepcopy(CONFIG)),
        reward_funcs=score,
        args=args,
        processing_class=tokenizer,
        train_dataset=PAIR,
    )


def numbers_in(ids):
    """The rows of a batch that a model saw, by the numbers in their prompts."""
    texts = tokenizer.batch_decode(ids)
    return [int(re.findall(r"user: (\d+) \+", text)[0]) for text in texts]


MAKE = {"dpo": dpo, "reward": reward, "grpo": grpo}
COLUMNS = {
    "dpo": ["prompt_ids", "chosen_ids", "rejected_ids"],
    "reward": ["prompt_ids", "chosen_ids", "rejected_ids"],
    "grpo": ["prompt", "answer", "id"],
}


def rows_of(cut, dataset):
    return job.loader(data=dataset, sequences=cut, fields=("input_ids",))


def train(kind, name, resume=None):
    torch.manual_seed(0)
    trainer = MAKE[kind](str(job.folder / f"{kind}-{name}"))
    columns = COLUMNS[kind]
    loader = job.loader(
        data=pf.parquet(
            data / ("prompts.parquet" if kind == "grpo" else "pairs.parquet"),
            column=columns[0],
        ),
        sequences=pf.Documents(columns=columns),
        fields=("input_ids",),
        batch_size=2 if kind == "grpo" else 4,
    )
    if kind == "dpo":
        texts = pf.Documents(columns=["prompt_ids"])
        try:
            attach(trainer, rows_of(texts, loader.dataset))
        except pf.errors.InvalidArgumentError as error:
            job.report("refused", str(error))
    attach(trainer, loader)
    seen = []

    def look(model, _, kwargs):
        if model.training and torch.is_grad_enabled():
            seen.append(numbers_in(kwargs["input_ids"]))

    hook = trainer.model.register_forward_pre_hook(look, with_kwargs=True)
    resume = resume and str(job.folder / f"{kind}-{resume}")
    trainer.train(resume_from_checkpoint=resume)
    hook.remove()
    job.report(name, {"seen": seen, "steps": trainer.state.global_step})


train(job.options["kind"], "whole")
train(job.options["kind"], "resumed", "whole/checkpoint-3")
job.leave_group()
