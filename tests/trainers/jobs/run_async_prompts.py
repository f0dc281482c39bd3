"""AsyncGRPOTrainer on a queue of prompts: killed between checkpoints, then resumed."""

import json
import os
import random
import signal
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    AttentionInterface,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    TrainerCallback,
)
from trl.experimental.async_grpo import (
    AsyncGRPOConfig,
    AsyncGRPOTrainer,
    async_grpo_trainer,
)
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample
from trl.experimental.async_grpo.packing import TREE_ATTENTION

import pagefeed as pf
from job import Job
from pagefeed.integrations.rollouts import PromptRollouts
from pagefeed.integrations.transformers import attach

torch.set_num_threads(1)
# The trainer asks for a GPU's speed, and for a server that nothing here uses.
torch.cuda.get_device_name = lambda *_: "none"
async_grpo_trainer.VLLMClient = lambda *_: None
job = Job()
data = job.folder / "rows"
tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
GENERATIONS = 2
dice = random.Random(job.options["steps"])


class NoServer:
    """Weights go nowhere: answers are made by the worker here."""

    def init_weight_transfer(self):
        pass

    pause = resume = destroy = init_weight_transfer

    def send_weights(self, iterator):
        for _ in iterator:
            pass


def plain(_, query, key, value, __, *, tree_kv_index, tree_cu_seqlens_q, **rest):
    """The attention of TRL's kernel, which needs a GPU: paths of a tree, by torch."""
    borders, ends = tree_cu_seqlens_q.tolist(), rest["tree_cu_seqlens_k"].tolist()
    parts = []
    for n, (first, last) in enumerate(pairwise(borders)):
        path = tree_kv_index[ends[n] : ends[n + 1]]
        size = last - first
        allowed = torch.ones(size, len(path)).tril(len(path) - size).bool()
        parts.append(
            torch.nn.functional.scaled_dot_product_attention(
                query[:, :, first:last],
                key[:, :, path],
                value[:, :, path],
                attn_mask=allowed,
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2), None


def rollout(row, ticket):
    """Two answers of chance, after a time of chance."""
    time.sleep(0.02 * dice.random())
    prompt = tokenizer(row["prompt"])["input_ids"]
    samples = []
    for reward in (0.0, 1.0):
        answer = [dice.randrange(len(tokenizer)) for _ in range(3)]
        odds = [-3 - ticket.row / 1000] * len(answer)
        samples.append(
            RolloutSample(
                prompt=[],
                completion=[],
                input_ids=np.array(prompt + answer),
                completion_mask=np.array([0] * len(prompt) + [1] * len(answer)),
                old_log_probs=np.array([0.0] * len(prompt) + odds),
                advantage=reward - 0.5,
                model_version=0,
                group_id=0,
                metrics={"reward": reward},
            )
        )
    return samples


class Note(TrainerCallback):  # type: ignore[misc]
    """Writes which prompts are finished after each step, and kills."""

    def on_step_end(self, args, state, control, **_):
        del args, control
        with Path(job.folder / "steps.jsonl").open("a") as file:
            line = [state.global_step, [t.row for t in committed]]
            file.write(json.dumps(line) + "\n")
        # What is collated ahead was not seen yet.
        assert {ticket.row for ticket in committed} <= seen
        committed.clear()
        if state.global_step == job.options.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)


model = job.folder / "model"
if not model.exists():
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    LlamaForCausalLM(config).save_pretrained(model)
queue = pf.PromptQueue(
    pf.parquet(data / "prompts.parquet", column="prompt"),
    columns=["prompt", "id"],
    seed=2,
    epochs=1,
    max_in_flight=16,
)
committed: list = []
commit = queue.commit


def noted(tickets, scores=None):
    """Commit, and remember what for the report."""
    tickets = list(tickets)
    commit(tickets, scores)
    committed.extend(tickets)


queue.commit = noted  # type: ignore[method-assign]
trainer = AsyncGRPOTrainer(
    str(model),
    args=AsyncGRPOConfig(
        str(job.folder / "async"),
        max_steps=job.options["steps"],
        save_steps=3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=GENERATIONS,
        token_budget=0,
        max_staleness=100,
    ),
    train_dataset=Dataset.from_dict({"prompt": ["1"]}),
    processing_class=tokenizer,
    rollout_worker=PromptRollouts(queue, rollout, num_threads=3),
    weight_transfer=NoServer(),
)
AttentionInterface.register(TREE_ATTENTION, plain)
attach(trainer, queue)
seen: set = set()


compute = trainer.compute_loss


def look(model, inputs, *given, **named):
    """Note the rows that are trained on, by the log-probabilities of their answers."""
    odds = inputs["old_log_probs"].flatten().tolist()
    seen.update(round(-1000 * (each + 3)) for each in odds if each < -2)
    return compute(model, inputs, *given, **named)


trainer.compute_loss = look
trainer.add_callback(Note())
trainer.train(resume_from_checkpoint=job.options["resume"])
job.report("counts", queue.counts)
