"""Runs of each adapter on loaders that are new, peeked into, used, placed, resumed."""

import contextlib
import itertools
import logging
import os

import torch

from job import BATCH_SIZE, Job
from tiny_model import Model, Seen

EPOCHS = 2
STEPS_TO_THE_STOP = 5
job = Job()
FOLDER = job.folder / "matrix"


class StopError(Exception):
    """Ends a run as Ctrl-C does."""


class Stopping(Model):
    """Leaves the run in a step."""

    stop_at = 0

    def forward(self, input_ids, labels, **_):
        self.stop_at -= 1
        if self.stop_at == 0:
            raise StopError
        return {"loss": super().forward(input_ids, labels)}


class Plain:
    """A loop without any framework, in each rank by itself."""

    def __init__(self, loader, start="epoch"):
        self.loader = loader
        assert start == "epoch"

    def train(self, stop_at=0, save_at=(), resume=None):
        model = Stopping()
        model.stop_at = stop_at
        seen = Seen(model)
        with contextlib.suppress(StopError):
            self.run(model, save_at, resume)
        return seen.take()

    def run(self, model, save_at, resume):
        states = FOLDER / "plain"
        if resume:
            self.loader.load_state_dict(torch.load(states / f"{resume}.pt"))
        number = int(resume or 0)
        for _ in range(self.loader.epoch, self.loader.epoch + EPOCHS - number // 14):
            for batch in self.loader:
                model(**batch)
                number += 1
                if number in save_at and job.rank == 0:
                    states.mkdir(parents=True, exist_ok=True)
                    torch.save(self.loader.state_dict(), states / f"{number}.pt")


class Accelerate(Plain):
    """A loop beside an Accelerator."""

    def __init__(self, loader, start="epoch"):
        from accelerate import Accelerator

        from pagefeed.integrations.accelerate import prepare

        self.loader = loader
        self.accelerator = Accelerator(cpu=True)
        self.batches = prepare(self.accelerator, loader, start=start)

    def run(self, model, save_at, resume):
        accelerator, loader = self.accelerator, self.loader
        prepared = accelerator.prepare(model)
        if resume:
            accelerator.load_state(str(FOLDER / "accelerate" / resume))
        number = int(resume or 0)
        for _ in range(loader.epoch, loader.epoch + EPOCHS - number // 14):
            for batch in self.batches:
                accelerator.backward(prepared(**batch)["loss"])
                number += 1
                if number in save_at:
                    accelerator.save_state(str(FOLDER / "accelerate" / str(number)))
        accelerator._models.clear()


class Transformers(Plain):
    """transformers' Trainer."""

    def __init__(self, loader, start="epoch"):
        from transformers import Trainer, TrainingArguments

        from pagefeed.integrations.transformers import attach

        arguments = TrainingArguments(
            output_dir=str(FOLDER / "transformers"),
            per_device_train_batch_size=BATCH_SIZE,
            num_train_epochs=EPOCHS,
            max_steps=job.options.get("max_steps", -1),
            save_strategy="steps",
            save_steps=2,
            logging_steps=7,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        self.trainer = Trainer(model=Stopping(), args=arguments)
        attach(self.trainer, loader, start=start)

    def train(self, stop_at=0, save_at=(), resume=None):
        model = self.trainer.model
        model.stop_at = stop_at
        seen = Seen(model)
        self.trainer.args.save_strategy = "steps" if save_at else "no"
        with contextlib.suppress(StopError):
            path = resume and str(FOLDER / "transformers" / f"checkpoint-{resume}")
            self.trainer.train(resume_from_checkpoint=path)
            history = [log for log in self.trainer.state.log_history if "loss" in log]
            assert all("data/tokens_total" in log for log in history)
        return seen.take()


class Lightning(Plain):
    """Lightning's Trainer: another for every run."""

    def __init__(self, loader, start="epoch"):
        from pagefeed.integrations.lightning import LoaderDataModule

        os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="job")
        self.data = LoaderDataModule(train=loader, start=start)

    def run(self, model, save_at, resume):
        import lightning
        from lightning.pytorch.callbacks import ModelCheckpoint

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = model

            def training_step(self, batch, _):
                return self.model(**batch)["loss"]

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        saving = ModelCheckpoint(
            dirpath=FOLDER / "lightning",
            filename="{step}",
            every_n_train_steps=2,
            save_top_k=-1,
        )
        max_steps = job.options.get("max_steps", -1)
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=job.world_size,
            strategy="ddp" if job.world_size > 1 else "auto",
            max_epochs=-1 if max_steps > 0 else EPOCHS,
            max_steps=max_steps,
            callbacks=[saving] if save_at else [],
            enable_checkpointing=bool(save_at),
            default_root_dir=FOLDER,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        path = resume and FOLDER / "lightning" / f"step={resume}.ckpt"
        trainer.fit(Module(), datamodule=self.data, ckpt_path=path)


ADAPTERS = {each.__name__.lower(): each for each in Plain.__subclasses__()}


class Lines(logging.Handler):
    """What adapters log."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        if " begins at " in record.getMessage():
            self.texts.append(record.getMessage())


def cases(make):
    """Yield the name of each case, and what the model saw."""
    loader = job.loader()
    adapter = make(loader)
    yield "fresh", adapter.train(save_at=(6, 14))
    yield "second", adapter.train()
    yield "another", make(loader).train()
    loader = job.loader()
    next(iter(loader))
    yield "peeked", make(loader).train()
    adapter = make(job.loader())
    yield "interrupted", adapter.train(stop_at=STEPS_TO_THE_STOP)
    yield "after it", adapter.train()
    loader = job.loader()
    other = job.loader()
    for _ in itertools.islice(other, 6):
        pass
    loader.load_state_dict(other.state_dict())
    yield "loaded", make(loader).train()
    for _ in itertools.islice(loader, 3):
        pass
    yield "here", make(loader, start="here").train()
    yield "middle", make(job.loader()).train(resume="6")
    yield "end", make(job.loader()).train(resume="14")


lines = Lines()
logger = logging.getLogger("pagefeed")
logger.addHandler(lines)
logger.setLevel(logging.INFO)
make = ADAPTERS[job.options["adapter"]]
if "resume" in job.options:
    job.report("alone", make(job.loader()).train(resume=job.options["resume"]))
else:
    for name, seen in cases(make):
        told, lines.texts = lines.texts, []
        job.report(name, {"seen": seen, "told": told})
job.leave_group()
