"""A loop of one's own beside an Accelerator: stopped anywhere, saved by save_state."""

import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader

from job import Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.accelerate import prepare
from pagefeed.torch import as_dataset
from tiny_model import Model, Seen

job = Job()
EPOCHS = 2


def train(name: str, resume: str | None = None, *, skip: bool = False) -> None:
    """Two epochs, of batches accumulated by three; a checkpoint at every step."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    model = Model()
    seen = Seen(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = job.loader()
    model, optimizer = accelerator.prepare(model, optimizer)
    prepared = prepare(accelerator, loader)
    assert accelerator.prepare(prepared) is prepared
    updates, losses = 0, []
    if resume is not None:
        accelerator.load_state(str(job.folder / resume))
    for epoch in range(loader.epoch, EPOCHS):
        batches = prepared
        if skip:  # As Accelerate's guide for checkpoints has it.
            batches, skip = skip_first_batches(prepared, loader.step), False
        prepared.set_epoch(epoch)
        for batch in batches:
            with accelerator.accumulate(model):
                loss = model(batch["input_ids"], batch["labels"])
                accelerator.backward(loss)
                updates += accelerator.sync_gradients
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
            state = loader.state_dict()
            place = f"{state['epoch']}-{state['step']}"
            if place in job.options.get("save", []) and resume is None:
                accelerator.save_state(str(job.folder / name / place))
            if job.options.get("die_at") == place:
                job.die()
    job.report(
        name,
        {
            "seen": seen.take(),
            "losses": losses,
            "updates": updates,
            "state": loader.state_dict(),
        },
    )


def wrapped(dispatch: bool | None) -> list[list[int]]:
    """What a rank is fed if its DataLoader is prepared, as frameworks advise."""
    accelerator = Accelerator(cpu=True)
    if dispatch is not None:
        accelerator.dataloader_config.dispatch_batches = dispatch
    dataset = as_dataset(job.loader())
    batches = accelerator.prepare(DataLoader(dataset, batch_size=None))
    return [batch["input_ids"][:, 0].tolist() for batch in batches]


def trap() -> None:
    """What goes wrong without a word, and what is refused."""
    with job.unguarded():
        job.report("silent", wrapped(None))
    if job.rank == 0:  # The others would wait for it.
        try:
            wrapped(None)
        except InvalidArgumentError as error:
            job.report("refused", str(error))
    loader = job.loader()
    loader.seek(6)
    batches = skip_first_batches(DataLoader(as_dataset(loader), batch_size=None), 6)
    seen = [batch["input_ids"][:, 0].tolist() for batch in batches]
    job.report("skipped twice", {"seen": seen})
    try:
        prepare(Accelerator(cpu=True), job.loader(rank=0, world_size=1))
    except InvalidArgumentError as error:
        job.report("wrong rank", str(error))


for run, settings in job.options["runs"].items():
    train(run, **settings)
if job.options.get("trap"):
    trap()
job.leave_group()
