"""transformers' Trainer: two epochs in one go, and again from its checkpoints."""

import copy

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from job import LENGTH, VOCABULARY, Job
from pagefeed.integrations.transformers import attach
from tiny_model import Seen

job = Job()
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    max_position_embeddings=LENGTH,
)


class Die(TrainerCallback):
    """Ends the process at a step, after its checkpoint."""

    def on_save(self, args, state, control, **_):
        del args, control
        if state.global_step == job.options["die_at"]:
            job.die()


def train(name: str, resume: str | None = None, **options) -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(copy.deepcopy(CONFIG))
    settings = {
        "output_dir": str(job.folder / name),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 3,
        "num_train_epochs": 2,
        "learning_rate": 0.01,
        "save_strategy": "steps",
        "save_steps": 1,
        "logging_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "include_num_input_tokens_seen": "all",
    }
    trainer = Trainer(model=model, args=TrainingArguments(**settings | options))
    if "die_at" in job.options:
        trainer.add_callback(Die())
    loader = job.loader()
    attach(trainer, loader)
    seen = Seen(model)
    trainer.train(resume_from_checkpoint=resume and str(job.folder / resume))
    state = trainer.state
    job.report(
        name,
        {
            "seen": seen.take(),
            "losses": [log["loss"] for log in state.log_history if "loss" in log],
            "epochs": [log["epoch"] for log in state.log_history if "loss" in log],
            "tokens": state.num_input_tokens_seen,
            "steps": state.global_step,
            "state": loader.state_dict(),
            "logged": sorted(k for log in state.log_history[:1] for k in log),
        },
    )


for name, resume in job.options["runs"].items():
    train(name, resume, **job.options.get("settings", {}))
