"""Loaders that read the Parquet files as they are."""

from collections.abc import Iterator
from typing import Any

from feeds import (
    BATCH_SIZE,
    LENGTH,
    SEED,
    WORKERS,
    Candidate,
    Counted,
    Place,
    Resumable,
)

__all__ = ["FROM_PARQUET"]


def _pagefeed(place: Place, shuffle: Any) -> Resumable:  # noqa: ANN401
    import pagefeed as pf

    data = pf.parquet(place.parquet, column="input_ids", cache_dir=place.work)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(LENGTH),
        batch_size=BATCH_SIZE,
        shuffle=shuffle,
        seed=SEED,
        format="torch",
        rank=0,
        world_size=1,
    )
    return Resumable(loader, "input_ids")


def _datasets_map(place: Place) -> Resumable:
    from datasets import load_dataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = load_dataset(
        "parquet",
        data_files=list(place.parquet),
        split="train",
        cache_dir=str(place.work),
    ).with_format("torch")
    loader = StatefulDataLoader(
        data,
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=WORKERS,
        generator=_generator(),
        drop_last=True,
    )
    return Resumable(loader, "input_ids")


def _datasets_streaming(place: Place) -> Resumable:
    from datasets import load_dataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = load_dataset(
        "parquet", data_files=list(place.parquet), split="train", streaming=True
    )
    data = data.shuffle(seed=SEED, buffer_size=1000).with_format("torch")
    loader = StatefulDataLoader(
        data, batch_size=BATCH_SIZE, num_workers=WORKERS, drop_last=True
    )
    return Resumable(loader, "input_ids")


def _ray_data(place: Place) -> Counted:
    import numpy as np
    import ray
    import torch

    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_parquet(list(place.parquet), shuffle="files")

    def batches() -> Iterator[Any]:
        for batch in data.iter_batches(
            batch_size=BATCH_SIZE,
            batch_format="numpy",
            drop_last=True,
            local_shuffle_buffer_size=1000,
            local_shuffle_seed=SEED,
        ):
            rows = np.stack(list(batch["input_ids"]))
            yield torch.from_numpy(rows.astype(np.int64))

    return Counted(batches())


def _generator() -> Any:  # noqa: ANN401 - torch's
    import torch

    return torch.Generator().manual_seed(SEED)


FROM_PARQUET = [
    Candidate(
        name="pagefeed, rows",
        open=lambda place: _pagefeed(place, "row"),
    ),
    Candidate(
        name="pagefeed, pages",
        open=lambda place: _pagefeed(place, "page"),
    ),
    Candidate(
        name="datasets, map style",
        open=_datasets_map,
        cannot="writes the data to disk again (Arrow) before the first batch; the "
        "order of an epoch is a list in memory; resumes at the same number of ranks",
    ),
    Candidate(
        name="datasets, streaming",
        open=_datasets_streaming,
        cannot="shuffles a buffer of samples and the order of files; on a resume the "
        "buffer is filled anew: its samples are lost; other numbers of ranks or "
        "workers do not resume",
    ),
    Candidate(
        name="Ray Data",
        open=_ray_data,
        cannot="no position in an epoch: what was seen is read again and dropped, in "
        "an order that is not the same; shuffles a buffer, or all of it by an exchange "
        "over the cluster",
    ),
]
