"""WebDataset: tar files of samples, read in their order, through a buffer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from loaders.protocol import Adapter, Replayed, Task
from loaders.rows import read_rows

__all__ = ["ADAPTERS"]

BUFFER_ROWS = 1000


def _convert(task: Task) -> None:
    import webdataset as wds

    for number, path in enumerate(task.parquet):
        with wds.TarWriter(str(task.work / f"tokens-{number}.tar")) as writer:
            for at, row in enumerate(read_rows(path, task.length)):
                writer.write({"__key__": f"{number}-{at:08d}", "bin": row.tobytes()})


def _decoded(sample: dict[str, bytes]) -> Any:
    return np.frombuffer(sample["bin"], dtype=np.uint16).astype(np.int64)


def _open(task: Task) -> Replayed:
    import torch
    import webdataset as wds

    shards: list[Path] = sorted(task.work.glob("*.tar"))
    data = (
        wds.WebDataset(list(map(str, shards)), shardshuffle=len(shards), seed=task.seed)
        .shuffle(BUFFER_ROWS)
        .map(_decoded)
        .batched(task.batch_size, collation_fn=np.stack, partial=False)
    )
    loader = wds.WebLoader(data, batch_size=None, num_workers=task.workers)

    def batches() -> Iterator[Any]:
        for batch in loader:
            yield torch.as_tensor(batch)

    return Replayed(batches())


ADAPTERS = [
    Adapter(
        name="WebDataset, tar",
        open=_open,
        needs=("webdataset", "torch"),
        convert=_convert,
        limits="no position in an epoch: samples seen are read again and dropped; "
        "shuffles a buffer and the order of files; each worker drops its last "
        "batch",
    )
]
