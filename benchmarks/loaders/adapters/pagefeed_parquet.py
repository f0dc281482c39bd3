"""pagefeed: Parquet as it is, by rows and by pages, and pages without compression."""

from functools import partial
from typing import Literal

from loaders.protocol import Adapter, Stateful, Task

__all__ = ["ADAPTERS"]

OWN = "uncompressed"
"""Folder of the same rows as `convert` writes them, and as `tokenize` does."""


def _open(
    shuffle: Literal["row", "page"], task: Task, *, own: bool = False
) -> Stateful:
    import pagefeed as pf

    files = task.work / OWN if own else task.parquet
    data = pf.parquet(files, column="input_ids", cache_dir=task.work)
    loader = pf.Loader(
        data,
        sequences=pf.Windows(task.length),
        fields=("input_ids",),
        batch_size=task.batch_size,
        shuffle=shuffle,
        seed=task.seed,
        format="torch",
        rank=0,
        world_size=1,
    )
    return Stateful(loader, "input_ids")


def _convert(task: Task) -> None:
    import pagefeed as pf

    pf.convert(
        pf.parquet(task.parquet, column="input_ids"),
        task.work / OWN,
        to="parquet",
        dtype="uint16",
        compression="none",
    )


ADAPTERS = [
    Adapter(
        name="pagefeed, rows in memory",
        open=partial(_open, "row"),
        needs=("pagefeed", "torch"),
        limits="reads pages several times where they do not fit into memory",
    ),
    Adapter(
        name="pagefeed, pages",
        open=partial(_open, "page"),
        needs=("pagefeed", "torch"),
        limits="mixes pages in a window of some thousand samples",
    ),
    Adapter(
        name="pagefeed, pages without compression",
        open=partial(_open, "page", own=True),
        needs=("pagefeed", "torch"),
        convert=_convert,
        limits="takes two bytes a token, as the memory maps do",
    ),
]
