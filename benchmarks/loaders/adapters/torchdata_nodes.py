"""torchdata.nodes: batches of a memory map, gathered by threads."""

from typing import Any

import numpy as np

from loaders.protocol import Adapter, Stateful, Task

__all__ = ["ADAPTERS"]


def _open(task: Task) -> Stateful:
    import torch
    from torchdata import nodes

    flat = np.memmap(task.flat, dtype=np.uint16, mode="r").reshape(-1, task.length)

    def gathered(numbers: list[int]) -> Any:
        return torch.from_numpy(flat[numbers].astype(np.int64))

    generator = torch.Generator().manual_seed(task.seed)
    sampler = torch.utils.data.RandomSampler(range(len(flat)), generator=generator)
    numbers: Any = nodes.SamplerWrapper(sampler)
    batches = nodes.Batcher(numbers, task.batch_size, drop_last=True)
    loader = nodes.Loader(
        nodes.ParallelMapper(batches, gathered, num_workers=task.workers)
    )
    return Stateful(loader)


ADAPTERS = [
    Adapter(
        name="torchdata nodes, memmap",
        open=_open,
        needs=("torchdata.nodes", "torch"),
        limits="reads no Parquet itself; a resume draws all numbers of the epoch "
        "again and skips those seen",
    )
]
