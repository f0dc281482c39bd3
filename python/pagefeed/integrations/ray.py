"""Ray: loaders in the workers of Ray Train, and datasets for Ray Data.

Make the loader in the worker and iterate over it. Do not use ``prepare_data_loader``,
which fetches a batch ahead of the position. Ray Data reads in any order and cannot
resume: use it to look at and transform sequences, not to train on them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pagefeed.core._base import check_positive, require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.dataset import Dataset
from pagefeed.core.run import Grown
from pagefeed.core.sequences import Cut
from pagefeed.core.storage import Storage
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.integrations.checks import check_has, check_loader
from pagefeed.integrations.delivery import KEY
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import Ranks
from pagefeed.parsing import json_value
from pagefeed.remote import output_folder
from pagefeed.view import SequenceView

_Datasource: Any = require("ray.data", extra="ray", purpose=__name__).Datasource

warn_of_newer("ray")

__all__ = ["PagefeedDatasource", "ranks", "restore", "save"]

FILE = f"{KEY}.json"
ROWS_PER_BLOCK = 256
"""Sequences read at a time."""


def _train() -> Any:
    return require("ray.train", extra="ray", purpose=__name__)


def ranks() -> Ranks:
    """Return the rank of this worker of Ray Train.

    Example:
        >>> def train_loop():  # doctest: +SKIP
        ...     loader = pf.Loader(..., **ranks()._asdict())
    """
    context = _train().get_context()
    return Ranks(context.get_world_rank(), context.get_world_size())


def save(loader: AnyLoader, folder: str | os.PathLike[str]) -> None:
    """Write the position into a folder that becomes a checkpoint; rank 0 writes.

    Ray merges the files of all workers, which have the same position.
    """
    check_loader(loader, "save")
    out = output_folder(folder, None, "folder", buckets=False)
    if loader.rank == 0:
        out.write(FILE, json.dumps(loader.state_dict()).encode())


def restore(
    loader: AnyLoader, checkpoint: Any = None, *, grown: Grown | None = None
) -> bool:
    """Continue at the position of a checkpoint, at any world size.

    Args:
        loader: The loader of this worker.
        checkpoint: A checkpoint of another run to begin with. If this run has one,
            ``ray.train.get_checkpoint()``, that one is used instead.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.

    Returns:
        Whether there was a checkpoint.

    Raises:
        InvalidArgumentError: If the checkpoint has no position.
    """
    check_loader(loader, "restore")
    checkpoint = _train().get_checkpoint() or checkpoint
    if checkpoint is None:
        return False
    check_has(checkpoint, ["as_directory"], "a ray.train.Checkpoint")
    with checkpoint.as_directory() as folder:
        path = os.path.join(folder, FILE)
        try:
            state = json_value(Storage().read_all(path), path)
        except MissingFileError:
            raise InvalidArgumentError(
                f"the checkpoint {checkpoint.path} has no {FILE}: write it with "
                "pagefeed.integrations.ray.save(loader, folder) on rank 0"
            ) from None
    settings: Any = {} if grown is None else {"grown": grown}
    loader.load_state_dict(state, **settings)
    return True


class PagefeedDatasource(_Datasource):
    """The sequences of a dataset, as rows of a ``ray.data.Dataset``.

    Args:
        dataset: The dataset that :func:`pagefeed.parquet` returned.
        sequences: How to cut it, such as ``Windows(2048)``.
        options: Those of :class:`pagefeed.SequenceView`, such as ``padding``.

    Example:
        >>> source = PagefeedDatasource(dataset, Windows(2048))  # doctest: +SKIP
        >>> ray.data.read_datasource(source)  # doctest: +SKIP
    """

    def __init__(self, dataset: Dataset, sequences: Cut, **options: Any) -> None:
        super().__init__()
        self._view = SequenceView(dataset, sequences, num_threads=1, **options)

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes of all sequences."""
        return len(self._view) * _row_bytes(self._view)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[Any]:
        """Return tasks that each read neighbouring sequences."""
        del data_context
        data = require("ray.data.datasource", extra="ray", purpose="reading")
        blocks = require("ray.data.block", extra="ray", purpose="reading")
        total = len(self._view)
        count = min(check_positive(parallelism, "parallelism"), total)
        borders = [total * task // count for task in range(count + 1)]
        tasks = []
        for first, stop in pairwise(borders):
            metadata = blocks.BlockMetadata(
                num_rows=stop - first,
                size_bytes=(stop - first) * _row_bytes(self._view),
                exec_stats=None,
                input_files=None,
            )
            tasks.append(
                data.ReadTask(
                    partial(_read, self._view, first, stop),
                    metadata,
                    per_task_row_limit=per_task_row_limit,
                )
            )
        return tasks


def _row_bytes(view: SequenceView) -> int:
    return int(view[0]["input_ids"].nbytes)


def _read(view: SequenceView, first: int, stop: int) -> Iterator[Any]:
    """Yield a range of sequences as tables. Runs in a worker process."""
    pyarrow = require("pyarrow", extra="ray", purpose="Ray Data")
    for begin in range(first, stop, ROWS_PER_BLOCK):
        numbers = range(begin, min(stop, begin + ROWS_PER_BLOCK))
        rows = [row["input_ids"] for row in view.__getitems__(numbers)]
        flat = pyarrow.array(np.concatenate(rows))
        column = pyarrow.FixedSizeListArray.from_arrays(flat, len(rows[0]))
        yield pyarrow.table({"input_ids": column})
