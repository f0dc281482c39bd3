"""Evaluations of held-out documents with few and many labels, beside an exact mean."""

import os
from collections import ChainMap
from typing import Any

import torch

import pagefeed as pf
from job import Job
from tiny_model import Model

job = Job()
LENGTH = 64
NAMES = ("many", "few")
FIELDS = ("input_ids", "labels")


class Judged(Model):
    """Its losses differ widely from token to token."""

    def __init__(self):
        super().__init__()
        self.double()
        with torch.no_grad():
            self.head.weight.mul_(40)

    def forward(self, input_ids, labels, **_):
        logits = self.head(self.embedding(input_ids))
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        )
        return {"loss": loss, "logits": logits}


def part(name):
    path = job.folder / "held-out" / f"{name}.parquet"
    return pf.parquet(path, column="input_ids", aligned=["labels"])


def loader(data, **options):
    settings: dict[str, Any] = {
        "sequences": pf.Packed(LENGTH, split="never"),
        "batch_size": 3,
        "seed": 1,
        "memory": "8MiB",
        "num_threads": 1,
        "format": "torch",
        "fields": ("input_ids", "labels", "position_ids"),
        "drop_last": False,
        "rank": job.rank,
        "world_size": job.world_size,
    }
    return pf.Loader(data, **settings | options)


def budget(**options):
    """Documents in batches of as many tokens: ranks have different numbers of rows."""
    cut = pf.Documents(max_length=LENGTH)
    settings = {"batch_size": None, "batch_tokens": 4 * LENGTH, **options}
    return loader(part("few"), sequences=cut, fields=FIELDS, **settings)


def rows_of_budget():
    alone = budget(batch_size=1, batch_tokens=None, rank=0, world_size=1)
    return [int(batch["input_ids"][0, 0]) for batch in alone]


def mixture():
    parts = {name: part(name) for name in NAMES}
    return pf.mix(parts, max_epochs=dict.fromkeys(NAMES, 1))


def exact():
    """The means over the tokens of each dataset and of both, row by row."""
    model, sums = Judged(), []
    for name in NAMES:
        total = count = 0.0
        for batch in loader(part(name), batch_size=1, rank=0, world_size=1):
            labels = int((batch["labels"][:, 1:] != -100).sum())
            if labels:
                total += model(**batch)["loss"].item() * labels
                count += labels
        sums.append((total, count))
    both = sum(total for total, _ in sums) / sum(count for _, count in sums)
    return {
        name: total / count for name, (total, count) in zip(NAMES, sums, strict=True)
    } | {"both": both}


def by_transformers(sets, mixed):
    from transformers import Trainer, TrainingArguments

    from pagefeed.integrations.transformers import attach
    from pagefeed.torch import as_dataset

    rows = []

    def count(predicted):
        rows.append(predicted.label_ids[:, 0].tolist())
        return {"rows": len(predicted.label_ids)}

    def trainer(metrics, *, include_for_metrics=(), **options):
        arguments = TrainingArguments(
            output_dir=str(job.folder / "evaluated"),
            per_device_train_batch_size=3,
            max_steps=2,
            save_strategy="no",
            eval_strategy="steps" if options else "no",
            eval_steps=2,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            learning_rate=0.0,
            include_for_metrics=[*include_for_metrics],
        )
        model = Judged()
        return Trainer(model=model, args=arguments, compute_metrics=metrics, **options)

    firsts = []

    def keep(predicted):
        firsts.append(predicted.inputs[:, 0].tolist())
        return {"rows": len(predicted.label_ids)}

    budgeted = trainer(keep, include_for_metrics=["inputs"])
    attach(budgeted, loader(part("many")), evaluation=budget())
    for _ in range(2):
        budgeted.evaluate()
    judge = trainer(None)
    attach(judge, loader(part("many")), evaluation={**sets, "mixed": mixed})
    found = judge.evaluate()
    again = judge.evaluate()
    counting = trainer(count, eval_dataset=as_dataset(loader(part("few"))))
    attach(counting, loader(part("many")))
    counting.train()  # Evaluates after its last step.
    [history] = [log for log in counting.state.log_history if "eval_loss" in log]
    return {
        "many": found["eval_many_loss"],
        "few": found["eval_few_loss"],
        "mixed": found["eval_mixed_loss"],
        "mixed many": found["eval_mixed_loss/many"],
        "mixed few": found["eval_mixed_loss/few"],
        "again": again["eval_few_loss"],
        "as dataset": history["eval_loss"],
        "rows": history["eval_rows"],
        "budget rows": firsts[0],
        "budget again": firsts[1],
        "rows of budget": rows_of_budget(),
    }


def by_accelerate(sets, mixed):
    from accelerate import Accelerator

    from pagefeed.integrations.accelerate import evaluate, prepare

    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(Judged())
    found = evaluate(accelerator, model, {**sets, "mixed": mixed})
    again = evaluate(accelerator, model, sets["few"])
    assert model.training
    rows, objects = [], []
    for batch in prepare(accelerator, loader(part("few"))):
        first = batch["input_ids"][:, 0]
        gathered = accelerator.gather_for_metrics({"ids": first})["ids"]
        rows += gathered.tolist()
        objects += accelerator.gather_for_metrics(
            first.tolist(), use_gather_object=True
        )
    assert sorted(objects) == sorted(rows)
    budgets: list[list[int]] = []
    for _ in range(2):
        budgets.append([])
        for batch in prepare(accelerator, budget(seed=3)):
            first, whole = batch["input_ids"][:, 0], torch.ones(3)
            found_rows, one = accelerator.gather_for_metrics((first, whole))
            assert one.tolist() == [1.0] * 3 * job.world_size
            listed = accelerator.gather_for_metrics(first.tolist(), True)
            assert listed == found_rows.tolist()
            budgets[-1] += listed
    alone = loader(part("few"), batch_size=1, rank=0, world_size=1)
    assert sorted(rows) == sorted(batch["input_ids"][0, 0].item() for batch in alone)
    return {
        "many": found["many_loss"],
        "few": found["few_loss"],
        "mixed": found["mixed_loss"],
        "mixed many": found["mixed_loss/many"],
        "mixed few": found["mixed_loss/few"],
        "again": again["loss"],
        "rows": len(rows),
        "budget rows": budgets[0],
        "budget again": budgets[1],
        "rows of budget": rows_of_budget(),
    }


def by_lightning(sets, mixed):
    import lightning

    from pagefeed.integrations.lightning import LoaderDataModule

    os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="job")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Judged()

        def validation_step(self, batch, _, dataloader_idx=0):
            found = self.model(**batch)
            data.log_losses(
                self,
                batch,
                found["loss"],
                logits=found["logits"],
                dataloader_idx=dataloader_idx,
            )

    data = LoaderDataModule(
        train=loader(part("many")), evaluation={**sets, "mixed": mixed}
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=job.world_size,
        strategy="ddp" if job.world_size > 1 else "auto",
        precision="64-true",
        default_root_dir=job.folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Module()
    found, again = (
        dict(ChainMap(*trainer.validate(module, datamodule=data, verbose=False)))
        for _ in range(2)
    )
    return {
        "many": found["val_many_loss"],
        "few": found["val_few_loss"],
        "mixed": found["val_mixed_loss"],
        "mixed many": found["val_mixed_loss/many"],
        "mixed few": found["val_mixed_loss/few"],
        "again": again["val_few_loss"],
    }


evaluated = {
    "transformers": by_transformers,
    "accelerate": by_accelerate,
    "lightning": by_lightning,
}[job.options["adapter"]]
alone = loader(part("few"), batch_size=1, rank=0, world_size=1)
job.report("exact", exact() | {"rows": len(alone)})
sets = {name: loader(part(name)) for name in NAMES}
job.report("found", evaluated(sets, loader(mixture())))
job.leave_group()
