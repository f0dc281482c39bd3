"""Trainings under a policy where the guide shows the loop: its code runs here."""

import json
import os
from typing import Any

import numpy as np

import pagefeed as pf
from job import LENGTH, VOCABULARY
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
from trainers.running import shown_block


class OverError(Exception):
    """Ends a loop that has no number of steps."""


def by_olmo():
    """The module that the guide shows, in OLMo-core's trainer."""
    import torch
    from olmo_core.config import DType
    from olmo_core.distributed.parallel import DataParallelType
    from olmo_core.nn.transformer import TransformerConfig
    from olmo_core.optim import AdamWConfig
    from olmo_core.train import (
        Duration,
        LoadStrategy,
        TrainerConfig,
        prepare_training_environment,
    )
    from olmo_core.train.callbacks import CheckpointerCallback
    from olmo_core.train.train_module import (
        TransformerDataParallelConfig,
        TransformerTrainModuleConfig,
    )
    from torch.nn import functional

    from pagefeed.integrations.olmo import PagefeedDataLoader

    prepare_training_environment(backend="gloo")
    made = loader("loss_mask", max_steps=2 * STEPS)
    shown = {"pf": pf, "loader": made, "policy": policy()}
    exec(shown_block("OLMo-core", EVERY), shown)
    watched: Any = shown["Watched"]

    class Module(watched):
        """Keeps what it sees, and what the trainer is told."""

        def model_forward(self, input_ids, labels=None, **options):
            found = super().model_forward(input_ids, labels=labels, **options)
            if "dataset_ids" in options:
                logits, targets = found.logits.detach().flatten(0, 1), labels.flatten()
                losses = functional.cross_entropy(logits, targets, reduction="none")
                look(input_ids, losses, targets != -100)
            return found

        def optim_step(self):
            logs.append({})
            super().optim_step()

        def record_metric(self, name, value, *args, **options):
            if name.startswith("loss/"):
                logs[-1][name] = value
            super().record_metric(name, value, *args, **options)

    torch.manual_seed(1)
    model = TransformerConfig.llama_like(
        d_model=8, vocab_size=VOCABULARY, n_layers=1, n_heads=1, dtype=DType.float32
    ).build(init_device="cpu")
    config = TransformerTrainModuleConfig(
        rank_microbatch_size=4 * LENGTH,
        max_sequence_length=LENGTH,
        optim=AdamWConfig(lr=0.05),
        dp_config=TransformerDataParallelConfig(name=DataParallelType.ddp),
    )
    fields = config.as_dict(exclude_none=True, recurse=False)
    module = Module(model=model, device=torch.device("cpu"), **fields)
    saving = CheckpointerCallback(
        save_interval=None, fixed_steps=[SAVED_EVERY, 2 * SAVED_EVERY], save_async=False
    )
    trainer = TrainerConfig(
        save_folder=str(FOLDER),
        save_overwrite=True,
        load_strategy=LoadStrategy.never,
        max_duration=Duration.steps(STEPS),
        callbacks={"checkpointer": saving},
    ).build(module, PagefeedDataLoader(made, work_dir=FOLDER / "work"))
    if RESUME:
        trainer.load_checkpoint(str(FOLDER / f"step{RESUME}"))
    trainer.fit()
    return made


def by_jax():
    """The loop that the guide shows; position and weights are kept by hand."""
    import jax
    import jax.numpy as jnp

    from pagefeed.launch import from_jax

    address = f"localhost:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, job.world_size, job.rank)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    ranks = from_jax(sharding, rows=4 * job.world_size)
    made = loader(format="numpy", **ranks._asdict())
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    start = jax.random.normal(jax.random.key(0), (2, VOCABULARY, 8))
    FOLDER.mkdir(exist_ok=True)
    if RESUME:
        start = np.load(FOLDER / f"{RESUME}-{job.rank}.npy")
        state = (FOLDER / f"{RESUME}-{job.rank}.json").read_text()
        made.load_state_dict(json.loads(state))

    def losses_of(model, batch):
        embedding, head = model
        scores = embedding[batch["input_ids"][:, :-1]] @ head.T / 4
        logits = jax.nn.log_softmax(scores)
        labels = batch["labels"][:, 1:, None]
        chosen = jnp.take_along_axis(logits, jnp.maximum(labels, 0), axis=2)[..., 0]
        each = jnp.pad(-chosen, ((0, 0), (1, 0)))
        return each[:, 1:].mean(), each

    slope = jax.jit(jax.value_and_grad(losses_of, has_aux=True))

    def train_step(model, batch):
        (_, losses), gradient = slope(model, batch)
        mine = shown["local_rows"](losses)
        counted = np.ones(mine.shape, bool)
        counted[:, 0] = False
        look(shown["local_rows"](batch["input_ids"]), mine, counted)
        shown["latest"] = model - gradient
        return shown["latest"], losses

    def log(means):
        logs.append(means)
        number = RESUME + len(logs)
        if saves(number):
            np.save(FOLDER / f"{number}-{job.rank}.npy", np.asarray(shown["latest"]))
            state = json.dumps(made.state_dict())
            (FOLDER / f"{number}-{job.rank}.json").write_text(state)
        if number == STEPS:
            raise OverError

    shown = {
        "pf": pf,
        "loader": made,
        "policy": policy(),
        "sharding": sharding,
        "model": jax.device_put(start, whole),
        "train_step": train_step,
        "log": log,
    }
    try:
        exec(shown_block("JAX", EVERY), shown)
    except OverError:
        return made
    raise AssertionError("the loop ended by itself")
