"""Ray Data: Parquet by tasks of a cluster, here of this machine."""

from collections.abc import Iterator
from typing import Any

from loaders.protocol import Adapter, Replayed, Task

__all__ = ["ADAPTERS"]

BUFFER_ROWS = 1000


def _open(task: Task) -> Replayed:
    import numpy as np
    import ray
    import torch

    ray.init(
        address="local",  # Not a cluster that others run on this machine.
        num_cpus=task.workers,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        ignore_reinit_error=True,  # Orders are of one process under many seeds.
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_parquet(list(task.parquet), shuffle="files")

    def batches() -> Iterator[Any]:
        for batch in data.iter_batches(
            batch_size=task.batch_size,
            batch_format="numpy",
            drop_last=True,
            local_shuffle_buffer_size=BUFFER_ROWS,
            local_shuffle_seed=task.seed,
        ):
            rows = np.stack(list(batch["input_ids"]))
            yield torch.from_numpy(rows.astype(np.int64))

    return Replayed(batches())


ADAPTERS = [
    Adapter(
        name="Ray Data",
        open=_open,
        needs=("ray", "torch"),
        limits="no position in an epoch: samples seen are read again and dropped, in "
        "another order; shuffles a buffer, or all data by an exchange over "
        "the cluster",
    )
]
