"""LitData: chunks of tokens, cut into samples as they are read."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from loaders.protocol import Adapter, Stateful, Task
from loaders.rows import read_rows

__all__ = ["ADAPTERS"]

ROWS_OF_CHUNK = 8192


def _tensors(length: int, path: str) -> Iterator[Any]:
    import torch

    for row in read_rows(path, length):
        yield torch.from_numpy(row)


def _convert(task: Task) -> None:
    from litdata import TokensLoader, optimize

    optimize(
        fn=partial(_tensors, task.length),
        inputs=list(task.parquet),
        output_dir=str(task.work / "litdata"),
        chunk_size=task.length * ROWS_OF_CHUNK,
        item_loader=TokensLoader(),
        num_workers=task.workers,
        verbose=False,
    )


def _open(task: Task) -> Stateful:
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

    data = StreamingDataset(
        str(task.work / "litdata"),
        item_loader=TokensLoader(block_size=task.length),
        shuffle=True,
        drop_last=True,
        seed=task.seed,
    )
    loader = StreamingDataLoader(
        data, batch_size=task.batch_size, num_workers=task.workers
    )
    return Stateful(loader)


ADAPTERS = [
    Adapter(
        name="litdata, tokens",
        open=_open,
        needs=("litdata", "torch"),
        convert=_convert,
        limits="shuffles inside chunks of the files; a state loads on other numbers of "
        "ranks and workers ([litdata 0.2.76, since 2026-08-14]"
        "(https://github.com/Lightning-AI/litData/pull/878)), except with "
        "CombinedStreamingDataset",
    )
]
