"""grain: records of one sample each, in ArrayRecord files."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaders.protocol import Adapter, Task
from loaders.rows import read_rows

__all__ = ["ADAPTERS"]


def _convert(task: Task) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for number, path in enumerate(task.parquet):
        name = task.work / f"tokens-{number}.array_record"
        writer = ArrayRecordWriter(str(name), "group_size:1")
        for row in read_rows(path, task.length):
            writer.write(row.tobytes())
        writer.close()


def _decoded(record: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.frombuffer(record, dtype=np.uint16).astype(np.int64)


class _Grain:
    def __init__(self, task: Task) -> None:
        import grain
        import torch

        files = sorted(map(str, task.work.glob("*.array_record")))
        self._torch = torch
        self._iterator = iter(
            grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
            .seed(task.seed)
            .shuffle()
            .map(_decoded)
            .to_iter_dataset()
            .batch(task.batch_size, drop_remainder=True)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=task.workers))
        )

    def batches(self) -> Iterator[Any]:
        for batch in self._iterator:
            yield self._torch.from_numpy(batch)

    def state(self) -> object:
        return self._iterator.get_state()

    def load(self, state: Any) -> None:
        self._iterator.set_state(state)


ADAPTERS = [
    Adapter(
        name="grain, ArrayRecord",
        open=_Grain,
        needs=("grain", "array_record", "torch"),
        convert=_convert,
        limits="needs records of one sample each: another length of context is another "
        "conversion; a state is of one number of ranks, except with ElasticIterator "
        "([grain 0.2.18, read on 2026-11-30](https://github.com/google/grain/blob/main/"
        "grain/_src/python/dataset/elastic_iterator.py))",
    )
]
