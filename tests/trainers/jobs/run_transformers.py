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
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.transformers import attach
from pagefeed.torch import LoaderDataset, as_dataset
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


def make_trainer(name: str, *, dataset: LoaderDataset | None = None, **options):
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
    return Trainer(
        model=model,
        args=TrainingArguments(**settings | options),
        train_dataset=dataset,
        data_collator=None if dataset is None else first_of,
    )


def first_of(items):
    """The batch itself, as a dataset of whole batches would have it collated."""
    return items[0]


def train(name: str, resume: str | None = None, **options) -> None:
    trainer = make_trainer(name, **options)
    if "die_at" in job.options:
        trainer.add_callback(Die())
    loader = job.loader()
    attach(trainer, loader)
    seen = Seen(trainer.model)
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


def trap() -> None:
    """A dataset of whole batches instead of attach."""
    options = {"max_steps": 2, "per_device_train_batch_size": 1}
    if job.rank == 0:  # The others would wait for it.
        trainer = make_trainer("trap", dataset=as_dataset(job.loader()), **options)
        try:
            next(iter(trainer.get_train_dataloader()))
        except InvalidArgumentError as error:
            job.report("refused", str(error))


for name, resume in job.options["runs"].items():
    train(name, resume, **job.options.get("settings", {}))
if job.options.get("trap"):
    trap()
job.leave_group()
