"""Lightning's Trainer and Fabric: epochs in one go, and again from checkpoints."""

import os

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from job import Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.lightning import LoaderDataModule, setup_loader
from tiny_model import Model, Seen

job = Job()
# What torchrun sets besides; Lightning then starts no processes of its own.
os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="job")


class Module(lightning.LightningModule):
    """Trains the model, and keeps its losses."""

    def __init__(self, *, estimated: bool) -> None:
        super().__init__()
        self.model = Model()
        self.losses: list[float] = []
        self.validated: list[list[int]] = []
        self.estimated = estimated

    def training_step(self, batch, _):
        loss = self.model(batch["input_ids"], batch["labels"])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self.validated.append(batch["input_ids"][:, 0].tolist())

    def configure_optimizers(self):
        if self.estimated:  # As those do who decay the learning rate over a run.
            assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Die(Callback):
    """Ends the process at a step."""

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == job.options["die_at"]:
            job.die()


def train(
    name,
    resume=None,
    *,
    bare=False,
    validate=False,
    estimated=False,
    loader=None,
    **options,
):
    """Fit; ``bare`` gives Lightning the loader itself, without the data module."""
    module = Module(estimated=estimated)
    seen = Seen(module.model)
    saving = ModelCheckpoint(
        dirpath=job.folder / name,
        filename="{step}",
        every_n_train_steps=3,
        save_top_k=-1,
    )
    ending = ModelCheckpoint(
        dirpath=job.folder / name,
        filename="end-{epoch}",
        save_top_k=-1,
        save_on_train_epoch_end=True,
    )
    settings = {"max_epochs": 2} | options
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=job.world_size,
        strategy="ddp" if job.world_size > 1 else "auto",
        callbacks=[saving, ending] + ([Die()] if "die_at" in job.options else []),
        default_root_dir=job.folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **settings,
    )
    made = []

    def make(rank, world_size):
        made.append(
            job.loader(**{"rank": rank, "world_size": world_size} | (loader or {}))
        )
        return made[-1]

    path = resume and job.folder / resume
    if bare:
        trainer.fit(module, make(job.rank, job.world_size), ckpt_path=path)
    else:
        data = LoaderDataModule(train=make, evaluation=make if validate else None)
        trainer.fit(module, datamodule=data, ckpt_path=path)
    job.report(
        name,
        {
            "seen": seen.take(),
            "losses": module.losses,
            "validated": module.validated,
            "state": made[0].state_dict(),
        },
    )


def fabric_run(name, resume=None):
    """A loop of one's own with Fabric; saved after 6 steps."""
    fabric = lightning.Fabric(
        accelerator="cpu",
        devices=job.world_size,
        strategy="ddp" if job.world_size > 1 else "auto",
    )
    fabric.launch()
    model = Model()
    seen = Seen(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = fabric.setup(model, optimizer)
    loader = setup_loader(fabric, job.loader())
    state = {"model": model, "optimizer": optimizer, "data": loader}
    if resume is not None:
        fabric.load(job.folder / resume, state)
    losses = []
    for batch in loader:
        loss = model(batch["input_ids"], batch["labels"])
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) == 6 and resume is None:
            fabric.save(job.folder / name / "six.ckpt", state)
    job.report(name, {"seen": seen.take(), "losses": losses})


for name, options in job.options["runs"].items():
    train(name, **options)
if job.options.get("fabric"):
    fabric_run("fabric")
    fabric_run("fabric resumed", "fabric/six.ckpt")
if job.options.get("refused"):
    try:
        wrong = {"rank": 0, "world_size": 1}
        train("wrong", loader=wrong)
    except InvalidArgumentError as error:
        job.report("wrong rank", str(error))
job.leave_group()
