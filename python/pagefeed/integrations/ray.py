"""Ray: loaders in the workers of Ray Train.

Make the loader in the worker and iterate over it. Do not use ``prepare_data_loader``,
which fetches a batch ahead of the position. Ray Data reads in any order and cannot
resume: to look at sequences there, map the numbers of a :class:`pagefeed.SequenceView`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from pagefeed._removed import refuse_removed_of
from pagefeed.core._base import require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.run import Grown
from pagefeed.core.storage import Storage
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.integrations.checks import check_has, check_loader
from pagefeed.integrations.delivery import KEY
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import Ranks
from pagefeed.parsing import json_value
from pagefeed.remote import output_folder

require("ray", extra="ray", purpose=__name__)

warn_of_newer("ray")

__all__ = ["ranks", "restore", "save"]

FILE = f"{KEY}.json"


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


refuse_removed_of(__name__)
