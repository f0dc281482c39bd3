"""Each framework's own loop around its adapter: what the cells of the matrix run."""

import contextlib
import itertools
import json
import os
import zlib
from argparse import Namespace
from typing import Any, ClassVar

import numpy as np

import pagefeed as pf
from job import BATCH_SIZE, LENGTH, Job
from pagefeed.errors import InvalidArgumentError

EPOCHS, STEPS = 2, 14
"""Of a run, and of an epoch on two ranks."""
job = Job()
FOLDER = job.folder / "matrix"


class StopError(Exception):
    """Ends a run as Ctrl-C does."""


class Eyes:
    """Keeps the first tokens of the batches, and stops a run in a step."""

    def __init__(self, stop_at):
        self.seen, self.left = [], stop_at

    def look(self, ids, **columns):
        self.left -= 1
        if self.left == 0:
            raise StopError
        if job.options.get("whole_batches"):
            self.seen.append(digest_of(ids, **columns))
            return
        if len(ids.shape) > 1 or len(ids) > LENGTH:  # First tokens tell sequences.
            ids = ids.reshape(-1, LENGTH)[:, 0]
        self.seen.append([int(row) for row in ids])
        if len(self.seen) == job.options.get("die_at"):
            job.report("killed", self.seen)
            job.die()


def digest_of(ids, **columns):
    """What tells the tokens of a step, and the columns beside them."""
    arrays = [ids, *(columns[name] for name in sorted(columns))]
    # JAX has no int64 unless asked.
    parts = [np.asarray(each).astype(np.int64).tobytes() for each in arrays]
    return zlib.crc32(b"".join(parts))


class Adapter:
    """A loader, and what it is given to; ``run`` is one training."""

    options: ClassVar[dict[str, Any]] = {}
    """Of the loader."""
    is_killed = True
    """Whether it is tried here; of others it is in a test of their own."""
    takes_columns = True
    """Whether columns beside the tokens reach the model."""

    def __init__(self, loader, **start):
        self.loader, self.start = loader, start
        run = "killed" if "die_at" in job.options else "whole"
        self.folder = FOLDER / job.options.get("run", run)

    def train(self, stop_at=0, save_at=(), resume=None):
        eyes = Eyes(stop_at)
        with contextlib.suppress(StopError):
            self.run(eyes, save_at, resume and int(resume))
        return eyes.seen

    def run(self, eyes, save_at, resume):
        raise NotImplementedError

    def epochs_left(self, resume):
        """Of a loop of one's own, which counts them itself."""
        return range(EPOCHS - (resume or 0) // STEPS)

    def steps(self, resume):
        """Those that are left to a trainer that counts them."""
        return range(resume or 0, job.options.get("max_steps", EPOCHS * STEPS))


def model_of(eyes):
    """A tiny model that shows what it sees while training."""
    from tiny_model import Model

    class Watched(Model):
        def forward(self, input_ids=None, labels=None, **columns):
            if input_ids is None:  # Rows of columns, as they are.
                eyes.look(columns["id"])
                prompts = [f"prompt {number}" for number in columns["id"].tolist()]
                assert list(columns["prompt"]) == prompts
                return {"loss": sum(each.sum() for each in self.parameters())}
            beside = {k: v for k, v in columns.items() if k.startswith("teacher")}
            eyes.look(input_ids, **beside)
            logits = self.logits(input_ids)
            return {"loss": self.loss(logits, labels), "logits": logits}

    return Watched()


def learn(learner):
    """End a step of a loop of one's own; its policy asks for no losses."""
    if learner is not None:
        learner.step()


class Accelerate(Adapter):
    """A loop beside an Accelerator."""

    is_killed = False

    def __init__(self, loader, **start):
        from accelerate import Accelerator

        from pagefeed.integrations.accelerate import prepare

        super().__init__(loader)
        self.accelerator = Accelerator(cpu=True)
        self.batches = prepare(self.accelerator, loader, **start)

    def run(self, eyes, save_at, resume):
        accelerator = self.accelerator
        prepared = accelerator.prepare(model_of(eyes))
        if resume:
            accelerator.load_state(str(self.folder / str(resume)))
        number = resume or 0
        for _ in self.epochs_left(resume):
            for batch in self.batches:
                accelerator.backward(prepared(**batch)["loss"])
                learn(self.batches.learner)
                number += 1
                if number in save_at:
                    accelerator.save_state(str(self.folder / str(number)))
        accelerator._models.clear()


class Transformers(Adapter):
    """transformers' Trainer."""

    is_killed = False

    def __init__(self, loader, **start):
        from transformers import Trainer, TrainingArguments

        from pagefeed.integrations.transformers import attach

        super().__init__(loader)
        arguments = TrainingArguments(
            output_dir=str(self.folder),
            per_device_train_batch_size=loader.batch_size,
            num_train_epochs=EPOCHS,
            max_steps=job.options.get("max_steps", -1),
            save_strategy="steps",
            save_steps=2,
            logging_steps=7,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        self.eyes = Eyes(0)
        self.trainer = Trainer(model=model_of(self), args=arguments)
        attach(self.trainer, loader, **start)

    def look(self, ids, **columns):
        self.eyes.look(ids, **columns)

    def run(self, eyes, save_at, resume):
        self.eyes = eyes
        self.trainer.args.save_strategy = "steps" if save_at else "no"
        path = resume and str(self.folder / f"checkpoint-{resume}")
        self.trainer.train(resume_from_checkpoint=path)
        history = [log for log in self.trainer.state.log_history if "loss" in log]
        assert all("data/tokens_total" in log for log in history)


class Lightning(Adapter):
    """Lightning's Trainer: another for every run."""

    is_killed = False

    def __init__(self, loader, **start):
        from pagefeed.integrations.lightning import LoaderDataModule

        super().__init__(loader)
        os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="job")
        self.data = LoaderDataModule(train=loader, **start)

    def run(self, eyes, save_at, resume):
        import lightning
        import torch
        from lightning.pytorch.callbacks import ModelCheckpoint

        data = self.data

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = model_of(eyes)

            def training_step(self, batch, _):
                found = self.model(**batch)
                if "dataset_ids" in batch:
                    data.log_training(self, batch, found["logits"])
                return found["loss"]

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        saving = ModelCheckpoint(
            dirpath=self.folder,
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
        path = resume and self.folder / f"step={resume}.ckpt"
        trainer.fit(Module(), datamodule=self.data, ckpt_path=path)


class DeepSpeed(Adapter):
    """A loop of one's own around an engine."""

    def run(self, eyes, save_at, resume):
        import deepspeed
        import torch

        from pagefeed.integrations.deepspeed import attach

        if not torch.distributed.is_initialized():
            deepspeed.init_distributed(dist_backend="gloo")
        model = model_of(eyes)
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            config={"train_micro_batch_size_per_gpu": self.loader.batch_size},
        )
        data = attach(engine, self.loader, **self.start)
        if resume:
            data.load_checkpoint(str(self.folder), str(resume))
        number = resume or 0
        for _ in self.epochs_left(resume):
            for batch in data:
                engine.backward(engine(**batch)["loss"])
                engine.step()
                learn(data.learner)
                number += 1
                if number in save_at:
                    data.save_checkpoint(str(self.folder), str(number))


class Jax(Adapter):
    """Global arrays of both processes' rows; the position is kept as JSON."""

    is_killed = False
    options: ClassVar = {"format": "numpy", "fields": ("input_ids",)}

    def run(self, eyes, save_at, resume):
        import jax

        from pagefeed.integrations.jax import global_batches

        if job.world_size > 1 and not jax.distributed.is_initialized():
            address = f"localhost:{os.environ['MASTER_PORT']}"
            jax.distributed.initialize(address, job.world_size, job.rank)
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
        spec = jax.sharding.PartitionSpec("data")
        sharding = jax.sharding.NamedSharding(mesh, spec)
        if resume:
            state = json.loads(self.path(resume).read_text())
            self.loader.load_state_dict(state, grown=self.start.get("grown"))
        start = {key: self.start[key] for key in self.start if key != "grown"}
        batches = global_batches(self.loader, sharding, **start)
        number = resume or 0
        for _ in self.epochs_left(resume):
            for batch in batches:
                eyes.look(
                    **{
                        name.removeprefix("input_"): np.concatenate(
                            [np.asarray(each.data) for each in array.addressable_shards]
                        )
                        for name, array in batch.items()
                    }
                )
                number += 1
                if number in save_at:
                    self.write(number)

    def write(self, step):
        """Save by rank 0; no rank goes on, and reads it, before it is there."""
        from jax.experimental.multihost_utils import sync_global_devices

        if job.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.path(step).write_text(json.dumps(self.loader.state_dict()))
        sync_global_devices(f"saved {step}")

    def path(self, step):
        return self.folder / f"{step}.json"


class Megatron(Adapter):
    """Micro-batches by the samples that Megatron says were consumed."""

    takes_columns = False
    options: ClassVar = {
        "fields": pf.Fields(
            names=("input_ids", "labels", "loss_mask", "position_ids"),
            shifted=True,
            dtypes={"loss_mask": "float32"},
        ),
        "epochs": None,
    }

    def run(self, eyes, save_at, resume):
        from megatron.core import parallel_state
        from megatron.core.rerun_state_machine import RerunDataIterator
        from megatron.core.safe_globals import register_safe_globals
        from torch import distributed

        from pagefeed.integrations.megatron import dataset_provider

        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
            parallel_state.initialize_model_parallel()
            register_safe_globals()
        consumed = self.read(resume) if resume else 0
        provide = dataset_provider(
            lambda *_: self.loader, consumed_samples=lambda: consumed
        )
        batches = RerunDataIterator(provide([1, 1, 1], vp_stage=0)[0])
        for number in self.steps(resume):
            eyes.look(next(batches)["tokens"])
            if number + 1 in save_at:
                self.write(number + 1, (number + 1) * BATCH_SIZE * job.world_size)

    def write(self, step, samples):
        """Save what a checkpoint has besides tensors, which need a GPU.

        As Megatron does: rank 0 writes, and no rank goes on before it has.
        """
        from megatron.core.dist_checkpointing.strategies import common
        from torch import distributed

        folder = self.folder / str(step)
        state = {"args": Namespace(consumed_train_samples=samples), "iteration": step}
        if job.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            common.TorchCommonSaveStrategy("torch", 1).save_common(state, folder)
        distributed.barrier()

    def read(self, step):
        from megatron.core.dist_checkpointing.strategies import common

        loaded = common.TorchCommonLoadStrategy().load_common(self.folder / str(step))
        return loaded["args"].consumed_train_samples


class Olmo(Adapter):
    """OLMo-core's trainer: another for every run, around one data loader."""

    takes_columns = False
    options: ClassVar = {
        "fields": ("input_ids", "loss_mask", "doc_lens", "max_doc_lens")
    }

    def __init__(self, loader, **start):
        from olmo_core.train import prepare_training_environment
        from torch import distributed

        from pagefeed.integrations.olmo import PagefeedDataLoader

        super().__init__(loader)
        if job.world_size > 1 and not distributed.is_initialized():
            prepare_training_environment(backend="gloo")
        self.data = PagefeedDataLoader(loader, work_dir=job.folder / "work", **start)

    def run(self, eyes, save_at, resume):
        from olmo_core.train import Duration, LoadStrategy, TrainerConfig
        from olmo_core.train.callbacks import CheckpointerCallback

        from olmo_module import Module

        steps = job.options.get("max_steps")
        saving = CheckpointerCallback(
            save_interval=None,
            fixed_steps=list(save_at),
            save_async=False,
            enabled=bool(save_at),
        )
        trainer = TrainerConfig(
            save_folder=str(self.folder),
            save_overwrite=True,
            load_strategy=LoadStrategy.never,
            max_duration=Duration.steps(steps) if steps else Duration.epochs(EPOCHS),
            metrics_collect_interval=100,
            callbacks={"checkpointer": saving},
        ).build(Module(model_of(eyes)), self.data)
        if resume:
            trainer.load_checkpoint(str(self.folder / f"step{resume}"))
        trainer.fit()


class Torchtitan(Adapter):
    """torchtitan's own generator of batches and its manager of checkpoints."""

    takes_columns = False
    options: ClassVar = {
        "fields": pf.Fields(
            names=("input_ids", "labels", "position_ids"), shifted=True
        ),
        "epochs": None,
    }

    def run(self, eyes, save_at, resume):
        from pagefeed.integrations.torchtitan import PagefeedDataLoader
        from titan_loop import batches_of, manager_of, ranks_of

        config = PagefeedDataLoader.Config(make=lambda *_: self.loader, **self.start)
        rank, world_size = ranks_of(job.world_size)
        data = config.build(
            dp_rank=rank,
            dp_world_size=world_size,
            tokenizer=None,
            snapshot_every_n_steps=6,
            local_batch_size=self.loader.batch_size,
            seq_len=LENGTH,
        )
        steps = self.steps(resume)
        manager = manager_of(data, model_of(eyes), self.folder, steps.stop)
        if resume:
            assert manager.load(step=resume)
        batches = batches_of(data)
        for number in steps:
            inputs, _ = next(batches)
            eyes.look(inputs["input"])
            if number + 1 in save_at:
                manager.save(number + 1)


ADAPTERS = {each.__name__.lower(): each for each in Adapter.__subclasses__()}


def cases(make):
    """Yield the name of each cell, and what each step of its run saw."""

    def new():
        return job.loader(**make.options)

    loader = new()
    adapter = make(loader)
    yield "fresh", adapter.train(save_at=(6, 14))
    yield "second", adapter.train()
    yield "another", make(loader).train()
    loader = new()
    next(iter(loader))
    yield "peeked", make(loader).train()
    adapter = make(new())
    yield "interrupted", adapter.train(stop_at=5)
    yield "after it", adapter.train()
    loader, other = new(), new()
    for _ in itertools.islice(other, 6):
        pass
    state = other.state_dict()
    loader.load_state_dict(state)
    yield from placed(make, loader)
    yield "middle", make(new()).train(resume="6")
    yield "end", make(new()).train(resume="14")
    if make.is_killed:
        adapter = make(new())
        adapter.folder = FOLDER / "killed"
        yield "after death", adapter.train(resume="20")

    if make in (Accelerate, Lightning):
        rows = {
            "data": pf.parquet(job.folder / "rows", column="id"),
            "sequences": pf.Documents(columns=["id", "prompt"]),
            "fields": ("input_ids",),
        }
        for name, settings in (
            ("rows", {"save_at": (4,)}),
            ("rows resumed", {"resume": "4"}),
        ):
            adapter = make(job.loader(**rows))
            adapter.folder = FOLDER / "rows"
            yield name, adapter.train(**settings)
    try:
        make(job.loader(**make.options | {"epochs": 2})).train()
    except InvalidArgumentError as error:
        yield "two epochs", str(error)


def placed(make, loader):
    """Yield runs of a loader that a state has placed, and from where one was left."""
    for case, start in (("loaded", {}), ("here", {"start": "here"})):
        if start and make is Megatron:
            continue
        if start:
            for _ in itertools.islice(loader, 3):
                pass
        if make in (Transformers, Lightning):
            try:
                make(loader, **start).train()
            except InvalidArgumentError as error:
                yield f"{case} for epochs", str(error)
            job.options["max_steps"] = EPOCHS * STEPS
        yield case, make(loader, **start).train()
        job.options.pop("max_steps", None)


def of_other_sizes(make):
    """Yield how a checkpoint goes on where a step has fewer sequences, or is refused.

    Trainers that count are told of enough steps, and then of none.
    """
    for size in (BATCH_SIZE, BATCH_SIZE // 2):
        loader = job.loader(**make.options, batch_size=size)
        yield f"batches of {size}", make(loader).train(resume="6")
    job.options.pop("max_steps")
    try:
        make(job.loader(**make.options)).train(resume="6")
    except InvalidArgumentError as error:
        yield "refused", str(error)
