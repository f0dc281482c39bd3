"""Hugging Face datasets, map style: Arrow files that it makes of the Parquet files."""

from loaders.protocol import Adapter, Stateful, Task

__all__ = ["ADAPTERS"]


def _open(task: Task) -> Stateful:
    import torch
    from datasets import load_dataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = load_dataset(
        "parquet",
        data_files=list(task.parquet),
        split="train",
        cache_dir=str(task.work),
    ).with_format("torch")
    loader = StatefulDataLoader(
        data,
        batch_size=task.batch_size,
        shuffle=True,
        num_workers=task.workers,
        generator=torch.Generator().manual_seed(task.seed),
        drop_last=True,
    )
    return Stateful(loader, "input_ids")


ADAPTERS = [
    Adapter(
        name="datasets, map style",
        open=_open,
        needs=("datasets", "torchdata", "torch"),
        limits="writes the data to disk again (Arrow) before the first batch; the "
        "order of an epoch is a list in memory; resumes at the same number of ranks",
    )
]
