"""GRPOTrainer on a queue of prompts: killed between checkpoints, then resumed."""

import json
import os
import signal
from pathlib import Path

import torch
from datasets import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer

import pagefeed as pf
from job import Job
from pagefeed.integrations.transformers import attach

torch.set_num_threads(1)
job = Job()
data = job.folder / "rows"
tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
GENERATIONS = 2


class Kill(TrainerCallback):  # type: ignore[misc]
    """Kills the process after a step."""

    def on_step_end(self, *given, **_):
        if given[1].global_step == job.options.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)


def reward(completions, id, ticket, **_):  # noqa: A002 - a column
    """Write down what was answered; the score is a constant of the prompt."""
    scores = [number % 4 / 3 for number in id]
    callback.score(ticket, scores)
    seen[:] = list(zip(id, [t.key for t in ticket], strict=True))
    return [-float(len(text)) for text in completions]


class Note(TrainerCallback):  # type: ignore[misc]
    """Writes the prompts of each step of this rank."""

    def on_step_end(self, *given, **_):
        line = json.dumps([given[1].global_step, sorted({n for n, _ in seen})])
        with Path(job.folder / f"steps-{job.rank}.jsonl").open("a") as file:
            file.write(line + "\n")


config = LlamaConfig(
    vocab_size=len(tokenizer),
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id,
)
seen: list = []
trainer = GRPOTrainer(
    LlamaForCausalLM(config),
    reward_funcs=reward,
    args=GRPOConfig(
        str(job.folder / "prompts"),
        max_steps=job.options["steps"],
        save_steps=3,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=GENERATIONS,
        max_completion_length=3,
    ),
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"prompt": ["1"]}),
)
queue = pf.PromptQueue(
    pf.parquet(data / "prompts.parquet", column="prompt"),
    columns=["prompt", "answer", "id"],
    seed=2,
    epochs=1,
    max_in_flight=64,
    curriculum=pf.Curriculum([0.5], [1.0, 1.0]),
)
callback = attach(trainer, queue)
trainer.add_callback(Note())
trainer.add_callback(Kill())
trainer.train(resume_from_checkpoint=job.options["resume"])
job.report("counts", queue.counts)
job.report("tiers", queue.tiers())
job.report("done", queue.done)
