"""The rank from the launcher, and a share of the processors."""

from __future__ import annotations

import os
import sys

from pagefeed.core._base import check_positive, check_whole, num_processors
from pagefeed.errors import InvalidArgumentError

__all__ = ["check_share", "resolve_rank", "resolve_threads"]


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the data-parallel rank and the number of ranks.

    Arguments come first, then an initialised ``torch.distributed`` process group, then
    ``RANK`` and ``WORLD_SIZE`` as torchrun and others set them; otherwise there is one
    rank. With tensor or pipeline parallelism several processes share one data-parallel
    rank: then both arguments must be given.

    Raises:
        InvalidArgumentError: If only one is given, or the rank is not below the number
            of ranks.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(
            f"rank={rank} and world_size={world_size}: give both or neither"
        )
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_environment()
    rank, world_size = check_whole(rank, "rank"), check_whole(world_size, "world_size")
    if world_size < 1 or not 0 <= rank < world_size:
        raise InvalidArgumentError(
            f"rank={rank} and world_size={world_size} do not fit: ranks are counted "
            "from 0 and lie below world_size"
        )
    return rank, world_size


def check_share(worker: int, num_workers: int) -> None:
    """Refuse a worker number that is not below ``num_workers``.

    Raises:
        InvalidArgumentError: If worker is not below num_workers.
    """
    most = check_positive(num_workers, "num_workers") - 1
    check_whole(worker, "worker", least=0, most=most)


def resolve_threads(num_threads: int | None) -> int:
    """Return the number of threads: as given, or this rank's share of the processors.

    Raises:
        InvalidArgumentError: If it is not a whole number, at least 1.
    """
    if num_threads is not None:
        return check_positive(num_threads, "num_threads")
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    local_ranks = int(local) if local.isdecimal() else 1
    return max(1, num_processors() // max(1, local_ranks))


def _from_torch() -> tuple[int, int] | None:
    # Never imported for this: without torch loaded there is no process group.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment() -> tuple[int, int]:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if not rank or not world_size:
        return 0, 1
    try:
        return int(rank), int(world_size)
    except ValueError:
        raise InvalidArgumentError(
            f"the environment has RANK={rank!r} and WORLD_SIZE={world_size!r}: "
            "both must be whole numbers"
        ) from None
