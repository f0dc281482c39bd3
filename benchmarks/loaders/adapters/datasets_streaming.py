"""Hugging Face datasets, streaming: Parquet in its order, through a buffer."""

from loaders.protocol import Adapter, Stateful, Task

__all__ = ["ADAPTERS"]

BUFFER_ROWS = 1000


def _open(task: Task) -> Stateful:
    from datasets import load_dataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = load_dataset(
        "parquet", data_files=list(task.parquet), split="train", streaming=True
    )
    data = data.shuffle(seed=task.seed, buffer_size=BUFFER_ROWS).with_format("torch")
    loader = StatefulDataLoader(
        data, batch_size=task.batch_size, num_workers=task.workers, drop_last=True
    )
    return Stateful(loader, "input_ids")


ADAPTERS = [
    Adapter(
        name="datasets, streaming",
        open=_open,
        needs=("datasets", "torchdata", "torch"),
        limits="shuffles a buffer of samples and the order of files; a resume loses "
        "the samples of the buffer; other numbers of ranks or workers do not "
        "resume",
    )
]
