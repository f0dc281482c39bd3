"""Loaders that read a form of their own, which the data is converted to before."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from feeds import BATCH_SIZE, LENGTH, SEED, WORKERS, Candidate, Place, Resumable

__all__ = ["CONVERTED"]


def _rows(path: str) -> Iterator[np.ndarray[Any, np.dtype[np.uint16]]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(256, columns=["input_ids"]):
            tokens = batch.column(0).flatten().to_numpy().astype(np.uint16)
            yield from tokens.reshape(-1, LENGTH)


def _write_array_records(place: Place) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for number, path in enumerate(place.parquet):
        name = place.work / f"tokens-{number}.array_record"
        writer = ArrayRecordWriter(str(name), "group_size:1")
        for row in _rows(path):
            writer.write(row.tobytes())
        writer.close()


class _Grain:
    def __init__(self, place: Place) -> None:
        import grain
        import torch

        files = sorted(map(str, place.work.glob("*.array_record")))
        self._torch = torch
        self._iterator = iter(
            grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
            .seed(SEED)
            .shuffle()
            .map(_decoded)
            .to_iter_dataset()
            .batch(BATCH_SIZE, drop_remainder=True)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=WORKERS))
        )

    def batches(self) -> Iterator[Any]:
        for batch in self._iterator:
            yield self._torch.from_numpy(batch)

    def state(self) -> object:
        return self._iterator.get_state()

    def load(self, state: Any) -> None:  # noqa: ANN401 - bytes or a dict
        self._iterator.set_state(state)


def _decoded(record: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.frombuffer(record, dtype=np.uint16).astype(np.int64)


def _write_mds(place: Place) -> None:
    from streaming import MDSWriter

    columns = {"tokens": f"ndarray:uint16:{LENGTH}"}
    with MDSWriter(out=str(place.work / "mds"), columns=columns) as writer:
        for path in place.parquet:
            for row in _rows(path):
                writer.write({"tokens": row})


def _mosaic(place: Place) -> Resumable:
    from streaming import StreamingDataLoader, StreamingDataset

    class Tokens(StreamingDataset):  # type: ignore[misc]  # has no types
        def __getitem__(self, at: int) -> Any:  # noqa: ANN401 - a NumPy array
            return super().__getitem__(at)["tokens"].astype(np.int64)

    data = Tokens(
        local=str(place.work / "mds"),
        shuffle=True,
        shuffle_seed=SEED,
        batch_size=BATCH_SIZE,
    )
    loader = StreamingDataLoader(
        data, batch_size=BATCH_SIZE, num_workers=WORKERS, drop_last=True
    )
    return Resumable(loader)


def _tensors(path: str) -> Iterator[Any]:
    import torch

    for row in _rows(path):
        yield torch.from_numpy(row)


def _write_litdata(place: Place) -> None:
    from litdata import TokensLoader, optimize

    optimize(
        fn=_tensors,
        inputs=list(place.parquet),
        output_dir=str(place.work / "litdata"),
        chunk_size=LENGTH * 8192,
        item_loader=TokensLoader(),
        num_workers=WORKERS,
        verbose=False,
    )


def _litdata(place: Place) -> Resumable:
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

    data = StreamingDataset(
        str(place.work / "litdata"),
        item_loader=TokensLoader(block_size=LENGTH),
        shuffle=True,
        drop_last=True,
        seed=SEED,
    )
    loader = StreamingDataLoader(data, batch_size=BATCH_SIZE, num_workers=WORKERS)
    return Resumable(loader)


class _Memmap:
    """Samples of a flat file by a list of all their numbers, as Megatron does."""

    def __init__(self, place: Place) -> None:
        import torch

        class Samples(torch.utils.data.Dataset[Any]):
            def __init__(self) -> None:
                flat = np.memmap(place.flat, dtype=np.uint16, mode="r")
                self.samples = flat.reshape(-1, LENGTH)
                self.order = np.random.default_rng(SEED).permutation(len(self.samples))

            def __len__(self) -> int:
                return len(self.samples)

            def __getitem__(self, at: int) -> Any:  # noqa: ANN401 - a tensor
                sample = self.samples[self.order[at]].astype(np.int64)
                return torch.from_numpy(sample)

        self._data = Samples()
        self._torch = torch
        self._consumed = 0

    def batches(self) -> Iterator[Any]:
        begins = range(self._consumed, len(self._data) - BATCH_SIZE + 1, BATCH_SIZE)
        loader = self._torch.utils.data.DataLoader(
            self._data,
            batch_sampler=[list(range(at, at + BATCH_SIZE)) for at in begins],
            num_workers=WORKERS,
        )
        for batch in loader:
            self._consumed += BATCH_SIZE
            yield batch

    def state(self) -> object:
        return self._consumed

    def load(self, state: Any) -> None:  # noqa: ANN401 - a number
        self._consumed = state


CONVERTED = [
    Candidate(
        name="grain, ArrayRecord",
        open=_Grain,
        convert=_write_array_records,
        cannot="needs records of one sample each: another length of context is another "
        "conversion; a state is of one number of ranks",
    ),
    Candidate(
        name="MosaicML streaming, MDS",
        open=_mosaic,
        convert=_write_mds,
        cannot="needs samples cut beforehand; the order of all samples is made in "
        "memory at the start of every epoch",
    ),
    Candidate(
        name="litdata, tokens",
        open=_litdata,
        convert=_write_litdata,
        cannot="shuffles inside chunks of the files; a state is of one number of "
        "ranks and workers",
    ),
    Candidate(
        name="memmap, Megatron style",
        open=_Memmap,
        cannot="the orders of documents and samples are lists in memory, made anew for "
        "another length or seed",
    ),
]
