"""A mixture whose weights follow its losses, in a trainer of two ranks."""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

import pagefeed as pf
from job import LENGTH, Job
from tiny_model import Model

job = Job()
ADAPTER, STEPS = job.options["adapter"], job.options.get("steps", 12)
DIE_AT, RESUME = job.options.get("die_at", 0), job.options.get("resume", 0)
FOLDER = job.folder / f"mixing-{job.options['run']}"
NAMES, APART = ("code", "web"), 2000
EVERY, SAVED_EVERY = 3, 4
seen: list[list[int]] = []
exact: list[list[list[float]]] = []


def policy() -> pf.mixing.Policy:
    return pf.mixing.ExcessLoss(dict.fromkeys(NAMES, 8.0), rate=3.0, smoothing=0.05)


def loader(*fields: str, shifted: bool = False) -> pf.Loader:
    parts = {
        name: pf.parquet(job.folder / "mixed" / name, column="input_ids")
        for name in NAMES
    }
    names = ("input_ids", "labels", "dataset_ids", *fields)
    return job.loader(
        pf.mix({name: (part, 1.0) for name, part in parts.items()}),
        epochs=None,
        fields=pf.Fields(names=names, shifted=shifted),
    )


def look(ids: torch.Tensor, losses: torch.Tensor, counted: torch.Tensor) -> None:
    """Keep first tokens, and sums of losses by the ids that tell datasets apart."""
    ids = ids.reshape(-1, LENGTH)
    seen.append(ids[:, 0].tolist())
    is_web = (ids[:, :1] >= APART).expand(ids.shape).reshape(-1)[: len(losses)]
    sums = []
    for which in (~is_web, is_web):
        kept = which & counted
        sums.append([float(losses.double()[kept].sum()), float(kept.sum())])
    exact.append(sums)
    if len(seen) == DIE_AT:
        job.report("killed", seen)
        job.die()


def by_transformers() -> tuple[list[dict[str, Any]], pf.Loader]:
    from transformers import Trainer, TrainingArguments

    from pagefeed.integrations.transformers import attach

    class Watched(Model):
        def forward(self, input_ids, labels, **_):
            logits = self.head(self.embedding(input_ids))
            losses = functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="none"
            )
            # As many as tokens: the first of each row has none.
            shown = functional.pad(losses.detach().reshape(len(labels), -1), (1, 0))
            counted = functional.pad(labels[:, 1:] != -100, (1, 0))
            look(input_ids, shown.flatten(), counted.flatten())
            return {"loss": losses.sum() / counted.sum(), "logits": logits}

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
    torch.manual_seed(1)
    trainer = Trainer(model=Watched(), args=arguments)
    data = loader()
    attach(trainer, data, policy=policy(), every=EVERY)
    path = str(FOLDER / f"checkpoint-{RESUME}") if RESUME else None
    trainer.train(resume_from_checkpoint=path)
    history = [log for log in trainer.state.log_history if "loss" in log]
    return history[RESUME:], data


def by_torchtitan() -> tuple[list[dict[str, Any]], pf.Loader]:
    from torch import distributed

    from pagefeed.integrations.torchtitan import PagefeedDataLoader
    from titan_loop import batches_of, manager_of, ranks_of

    class Watched(Model):
        def forward(self, input_ids, labels=None):
            del labels
            return self.head(self.embedding(input_ids))

    def loss_fn(logits, labels, global_valid_tokens):
        losses = functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none"
        )
        look(ids, losses.detach(), labels.flatten() != -100)
        return losses.sum() / global_valid_tokens, None

    torch.manual_seed(1)
    rank, world_size = ranks_of(job.world_size)
    config = PagefeedDataLoader.Config(
        make=lambda *_: loader("position_ids", shifted=True),
        policy=policy(),
        every=EVERY,
    )
    data = config.build(
        dp_rank=rank, dp_world_size=world_size, local_batch_size=4, seq_len=LENGTH
    )
    model, logs = Watched(), list[dict[str, Any]]()
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
        for gradient in (each.grad for each in model.parameters()):
            assert gradient is not None
            distributed.all_reduce(gradient)
        trainer.optimizers.step()
        trainer.metrics_processor.log(number, extra_metrics={})
        optimizer.zero_grad()  # With gradients the manager's own has no state.
        if (number + 1) % SAVED_EVERY == 0:
            manager.save(number + 1)
    return logs, data.loader


if job.options.get("replay"):
    repeated = loader("position_ids")
    repeated.load_state_dict(job.options["replay"], replay=True)
    batches = iter(repeated)
    rows = [next(batches)["input_ids"][:, 0].tolist() for _ in range(STEPS)]
    job.report("seen", rows)
else:
    run = {"transformers": by_transformers, "torchtitan": by_torchtitan}[ADAPTER]
    logs, trained = run()
    job.report("seen", seen)
    job.report("exact", exact)
    names = [f"loss/{name}" for name in NAMES]
    job.report("logged", [[log.get(name) for name in names] for log in logs])
    job.report("state", trained.state_dict())
    job.leave_group()
