"""pagefeed: Parquet as it is, shuffled by rows and by pages."""

from functools import partial
from typing import Literal

from loaders.protocol import Adapter, Stateful, Task

__all__ = ["ADAPTERS"]


def _open(shuffle: Literal["row", "page"], task: Task) -> Stateful:
    import pagefeed as pf

    data = pf.parquet(task.parquet, column="input_ids", cache_dir=task.work)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(task.length),
        batch_size=task.batch_size,
        shuffle=shuffle,
        seed=task.seed,
        format="torch",
        rank=0,
        world_size=1,
    )
    return Stateful(loader, "input_ids")


ADAPTERS = [
    Adapter(
        name="pagefeed, rows in memory",
        open=partial(_open, "row"),
        needs=("pagefeed", "torch"),
        limits="reads a page for few samples of it: pages are read several times where "
        "they do not fit into memory",
    ),
    Adapter(
        name="pagefeed, pages",
        open=partial(_open, "page"),
        needs=("pagefeed", "torch"),
        limits="mixes pages in a window: samples of a page come within some thousand "
        "samples of each other",
    ),
]
