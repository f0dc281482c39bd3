"""The loops of a training under a policy, a framework each."""

import math
import os
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from job import LENGTH
from mixing_job import (
    EVERY,
    FOLDER,
    RESUME,
    SAVED_EVERY,
    STEPS,
    job,
    loader,
    logs,
    look,
    policy,
    saves,
)
from tiny_model import Model


class Watched(Model):
    """Labels at their tokens; what it sees is kept."""

    def forward(self, input_ids, labels, **_):
        logits = self.head(self.embedding(input_ids))
        losses = functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="none"
        )
        # As many as tokens: the first of each row has none.
        shown = functional.pad(losses.detach().reshape(len(labels), -1), (1, 0))
        counted = functional.pad(labels[:, 1:] != -100, (1, 0))
        look(input_ids, shown, counted)
        return {"loss": losses.sum() / counted.sum(), "logits": logits}


class Logits(Model):
    """Logits alone."""

    def forward(self, input_ids, labels=None):
        del labels
        return self.head(self.embedding(input_ids))


def average_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        torch.distributed.all_reduce(parameter.grad)


def by_transformers():
    from transformers import Trainer, TrainingArguments

    from pagefeed.integrations.transformers import attach

    arguments = TrainingArguments(
        output_dir=str(FOLDER),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=job.options.get("accumulated", 1),
        max_steps=STEPS,
        save_strategy="steps",
        save_steps=SAVED_EVERY,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        learning_rate=0.05,
        lr_scheduler_type="constant",
    )
    trainer = Trainer(model=Watched(), args=arguments)
    data = loader()
    attach(trainer, data, policy=policy(), every=EVERY)
    path = str(FOLDER / f"checkpoint-{RESUME}") if RESUME else None
    trainer.train(resume_from_checkpoint=path)
    history = [log for log in trainer.state.log_history if "loss" in log]
    logs.extend(history[RESUME:])
    return data


def by_accelerate():
    from accelerate import Accelerator

    from pagefeed.integrations.accelerate import prepare

    accelerator = Accelerator(cpu=True)
    model = Watched()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = accelerator.prepare(model, optimizer)
    data = loader()
    batches = prepare(accelerator, data, policy=policy(), every=EVERY)
    learner: Any = batches.learner
    if RESUME:
        accelerator.load_state(str(FOLDER / str(RESUME)))
    for number, batch in enumerate(batches, RESUME + 1):
        found = model(**batch)
        accelerator.backward(found["loss"])
        optimizer.step()
        optimizer.zero_grad()
        learner.add(batch["dataset_ids"], batch["labels"], logits=found["logits"])
        learner.step()
        logs.append(learner.means())
        if saves(number):
            accelerator.save_state(str(FOLDER / str(number)))
        if number == STEPS:
            break
    return data


def by_lightning():
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import Logger

    from pagefeed.integrations.lightning import LoaderDataModule

    os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="job")
    data = LoaderDataModule(train=loader(), policy=policy(), every=EVERY)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Watched()

        def training_step(self, batch, _):
            found = self.model(**batch)
            data.log_training(self, batch, found["logits"])
            return found["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

    class Logs(Logger):
        name = version = None

        def log_metrics(self, metrics, **_):
            logs.append({k: v for k, v in metrics.items() if not math.isnan(v)})

        def log_hyperparams(self, *_):
            """There are none."""

    saving = ModelCheckpoint(
        dirpath=FOLDER,
        filename="{step}",
        every_n_train_steps=SAVED_EVERY,
        save_top_k=-1,
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=job.world_size,
        strategy="ddp",
        max_epochs=-1,
        max_steps=STEPS,
        log_every_n_steps=1,
        callbacks=[saving],
        logger=Logs(),
        default_root_dir=FOLDER,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    path = FOLDER / f"step={RESUME}.ckpt" if RESUME else None
    trainer.fit(Module(), datamodule=data, ckpt_path=path)
    return data.loader


def by_deepspeed():
    import deepspeed

    from pagefeed.integrations.deepspeed import attach

    deepspeed.init_distributed(dist_backend="gloo")
    model, made = Watched(), loader()
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        config={"train_micro_batch_size_per_gpu": made.batch_size},
    )
    data = attach(engine, made, policy=policy(), every=EVERY)
    learner: Any = data.learner
    if RESUME:
        data.load_checkpoint(str(FOLDER), str(RESUME))
    for number, batch in enumerate(data, RESUME + 1):
        found = engine(**batch)
        engine.backward(found["loss"])
        engine.step()
        learner.add(batch["dataset_ids"], batch["labels"], logits=found["logits"])
        learner.step()
        logs.append(learner.means())
        if saves(number):
            data.save_checkpoint(str(FOLDER), str(number))
        if number == STEPS:
            break
    return made


def by_megatron():
    from megatron.core import parallel_state
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

    from pagefeed.integrations.megatron import dataset_provider

    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    made = loader("loss_mask", "position_ids", shifted=True)
    provide = dataset_provider(
        lambda *_: made, consumed_samples=lambda: 0, policy=policy(), every=EVERY
    )
    batches = RerunDataIterator(provide([1, 1, 1])[0])
    learner = batches.iterable.learner
    model = Logits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    FOLDER.mkdir(exist_ok=True)
    if RESUME:
        saved = torch.load(FOLDER / f"{RESUME}-{job.rank}.pt")
        model.load_state_dict(saved["model"])
        batches.iterable.restore_state(saved["data"])
    for number in range(RESUME + 1, STEPS + 1):
        batch = next(batches)
        logits = model(batch["tokens"]).transpose(0, 1).contiguous()
        losses = vocab_parallel_cross_entropy(logits, batch["labels"].T.contiguous()).T
        counted = batch["loss_mask"].flatten() > 0
        look(batch["tokens"], losses.detach(), counted)
        learner.add(batch["dataset_ids"], batch["labels"], losses=losses)
        optimizer.zero_grad()
        ((losses * batch["loss_mask"]).sum() / counted.sum()).backward()
        average_gradients(model)
        optimizer.step()
        learner.step()
        logs.append(learner.means())
        if saves(number):
            both = {"model": model.state_dict(), "data": batches.iterable.save_state()}
            torch.save(both, FOLDER / f"{number}-{job.rank}.pt")
    return made


def by_torchtitan():
    from pagefeed.integrations.torchtitan import PagefeedDataLoader
    from titan_loop import batches_of, manager_of, ranks_of

    def loss_fn(logits, labels, global_valid_tokens):
        losses = functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none"
        )
        look(ids, losses.detach(), labels.flatten() != -100)
        return losses.sum() / global_valid_tokens, None

    rank, world_size = ranks_of(job.world_size)
    config = PagefeedDataLoader.Config(
        make=lambda *_: loader("position_ids", shifted=True),
        policy=policy(),
        every=EVERY,
    )
    data = config.build(
        dp_rank=rank, dp_world_size=world_size, local_batch_size=4, seq_len=LENGTH
    )
    model = Logits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    trainer = SimpleNamespace(
        loss_fn=loss_fn,
        optimizers=SimpleNamespace(step=optimizer.step),
        metrics_processor=SimpleNamespace(
            log=lambda _, *, extra_metrics: logs.append(extra_metrics)
        ),
    )
    data.learn(trainer)
    manager = manager_of(data, model, FOLDER, STEPS)
    if RESUME:
        assert manager.load(step=RESUME)
    batches = batches_of(data)
    for number in range(RESUME, STEPS):
        inputs, labels = next(batches)
        ids = inputs["input"]
        tokens = (labels != -100).sum().double() * world_size
        loss, _ = trainer.loss_fn(model(ids), labels, tokens)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        trainer.optimizers.step()
        trainer.metrics_processor.log(number, extra_metrics={})
        optimizer.zero_grad()  # With gradients the manager's own has no state.
        if saves(number + 1):
            manager.save(number + 1)
    return data.loader
