"""A memory map of all tokens and a list of sample numbers, as Megatron does it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaders.protocol import Adapter, Task

__all__ = ["ADAPTERS"]


class _Samples:
    """What torch's DataLoader takes for a dataset of map style."""

    def __init__(self, task: Task) -> None:
        flat = np.memmap(task.flat, dtype=np.uint16, mode="r")
        self.samples = flat.reshape(-1, task.length)
        self.order = np.random.default_rng(task.seed).permutation(len(self.samples))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, at: int) -> Any:
        import torch

        return torch.from_numpy(self.samples[self.order[at]].astype(np.int64))


class _Memmap:
    def __init__(self, task: Task) -> None:
        import torch

        self._torch = torch
        self._task = task
        self._data: Any = _Samples(task)
        self._consumed = 0

    def batches(self) -> Iterator[Any]:
        size = self._task.batch_size
        begins = range(self._consumed, len(self._data) - size + 1, size)
        loader = self._torch.utils.data.DataLoader(
            self._data,
            batch_sampler=[list(range(at, at + size)) for at in begins],
            num_workers=self._task.workers,
        )
        for batch in loader:
            self._consumed += size
            yield batch

    def state(self) -> object:
        return self._consumed

    def load(self, state: Any) -> None:
        self._consumed = state


ADAPTERS = [
    Adapter(
        name="memmap, Megatron style",
        open=_Memmap,
        needs=("torch",),
        limits="the orders of documents and samples are lists in memory, made again "
        "for another length or seed",
    )
]
