"""MosaicML Streaming: MDS shards of samples."""

from typing import Any

import numpy as np

from loaders.protocol import Adapter, Stateful, Task
from loaders.rows import read_rows

__all__ = ["ADAPTERS"]


def _convert(task: Task) -> None:
    from streaming import MDSWriter

    columns = {"tokens": f"ndarray:uint16:{task.length}"}
    with MDSWriter(out=str(task.work / "mds"), columns=columns) as writer:
        for path in task.parquet:
            for row in read_rows(path, task.length):
                writer.write({"tokens": row})


def _open(task: Task) -> Stateful:
    from streaming import StreamingDataLoader, StreamingDataset

    class Tokens(StreamingDataset):  # type: ignore[misc]  # has no types
        def __getitem__(self, at: int) -> Any:
            return super().__getitem__(at)["tokens"].astype(np.int64)

    data = Tokens(
        local=str(task.work / "mds"),
        shuffle=True,
        shuffle_seed=task.seed,
        batch_size=task.batch_size,
    )
    loader = StreamingDataLoader(
        data, batch_size=task.batch_size, num_workers=task.workers, drop_last=True
    )
    return Stateful(loader)


ADAPTERS = [
    Adapter(
        name="MosaicML streaming, MDS",
        open=_open,
        needs=("streaming", "torch"),
        convert=_convert,
        limits="needs samples cut beforehand; the order of all samples is made in "
        "memory at the start of every epoch",
    )
]
