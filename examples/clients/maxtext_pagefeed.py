"""MaxText on pagefeed: its train iterator over Parquet, in place of its Grain pipeline.

import maxtext_pagefeed
from maxtext.trainers.pre_train import train

maxtext_pagefeed.install("corpus/web", column="input_ids", eos=2)
train.main(["", "config.yml", "dataset_type=grain"])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orbax.checkpoint as ocp

import pagefeed as pf
from pagefeed.integrations.jax import global_batches

NO_LOSS = -100
FIELDS = pf.Fields(
    names=("input_ids", "labels", "position_ids", "document_ids"),
    shifted=True,
    dtypes={"labels": "int32", "position_ids": "int32"},
    ignore_index=NO_LOSS,
)


def named(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch under MaxText's names, int32 [rows, length] each.

    Segments count from 1 in each row, 0 is padding. A target that carries no loss has
    segment 0, which MaxText's loss leaves out.
    """
    inputs, documents = batch["input_ids"], batch["document_ids"]
    segments = np.where(documents < 0, 0, documents - documents[:, :1] + 1)
    has_loss = batch["labels"] != NO_LOSS
    return {
        "inputs": inputs,
        "inputs_position": batch["position_ids"],
        "inputs_segmentation": segments.astype(np.int32),
        "targets": np.where(has_loss, batch["labels"], 0),
        "targets_position": batch["position_ids"],
        "targets_segmentation": np.where(has_loss, segments, 0).astype(np.int32),
    }


class TrainIterator:
    """Global batches as MaxText's train loop takes them, without an end.

    Args:
        data: The dataset.
        sharding: Sharding of [rows, length] over the processes.
        rows: Rows of a global batch.
        length: Tokens of a row.
        eos: Token that ends a document; it separates documents in a row.
        seed: Seed of the order.
    """

    def __init__(
        self, data: Any, sharding: Any, *, rows: int, length: int, eos: int, seed: int
    ) -> None:
        rank, world_size = pf.launch.from_jax(sharding, rows=rows)
        self.loader = pf.Loader(
            data,
            sequences=pf.Packed(length, eos=eos),
            batch_size=rows // world_size,
            seed=seed,
            epochs=None,
            fields=FIELDS,
            dtype="int32",
            rank=rank,
            world_size=world_size,
            transform=named,
        )
        self._sharding = sharding
        self._batches = self._begin()

    def _begin(self) -> Any:
        return iter(global_batches(self.loader, self._sharding, start="here"))

    def __iter__(self) -> TrainIterator:
        return self

    def __next__(self) -> dict[str, Any]:
        return next(self._batches)

    def reset(self) -> None:
        """Begin at the first step again."""
        self.loader.seek(0)
        self._batches = self._begin()

    def save(self, manager: ocp.CheckpointManager, step: int) -> None:
        """Save the position, which is the same on all processes, as JSON."""
        manager.save(step, args=ocp.args.JsonSave(self.loader.state_dict()))

    def restore(self, manager: ocp.CheckpointManager, step: int | None = None) -> None:
        """Continue from a saved position, on any number of processes."""
        step = manager.latest_step() if step is None else step
        state = manager.restore(step, args=ocp.args.JsonRestore())
        self.loader.load_state_dict(state)
        self._batches = self._begin()


def install(paths: Any, *, column: str, eos: int, seed: int = 1) -> None:
    """Let MaxText train on Parquet: replace the function that makes its iterators."""
    from maxtext.input_pipeline import input_pipeline_interface as interface
    from maxtext.utils.sharding import get_input_data_sharding

    def create_data_iterator(config: Any, mesh: Any) -> tuple[TrainIterator, None]:
        data = pf.parquet(paths, column=column)
        iterator = TrainIterator(
            data,
            get_input_data_sharding(config, mesh),
            rows=config.global_batch_size_to_load,
            length=config.max_target_length,
            eos=eos,
            seed=seed,
        )
        return iterator, None

    interface.create_data_iterator = create_data_iterator
