"""The rank from the launcher, and a share of the processors and the memory."""

from __future__ import annotations

import os

from pagefeed.core._base import (
    check_positive,
    check_whole,
    format_bytes,
    num_processors,
    parse_bytes,
    warn_user,
)
from pagefeed.core.wiring import container_limits, rank_of_process
from pagefeed.errors import InvalidArgumentError, PagefeedWarning


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the data-parallel rank and the number of ranks.

    Arguments come first, then an initialised ``torch.distributed`` process group, then
    ``RANK`` and ``WORLD_SIZE`` as torchrun and others set them. Otherwise there is one
    rank, unless a launcher's variables say that there are more processes. With tensor
    or pipeline parallelism several processes share one data-parallel rank: then both
    arguments must be given.

    Raises:
        InvalidArgumentError: If only one is given, if the rank is not below the number
            of ranks, or if nothing says which of several processes this one is.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(
            f"rank={rank} and world_size={world_size}: give both or neither"
        )
    if rank is None or world_size is None:
        rank, world_size = rank_of_process()
    rank, world_size = check_whole(rank, "rank"), check_whole(world_size, "world_size")
    if world_size < 1 or not 0 <= rank < world_size:
        raise InvalidArgumentError(
            f"rank={rank} and world_size={world_size} do not fit: ranks are 0 to "
            "world_size - 1"
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
    return max(1, num_processors() // _local_ranks())


def resolve_memory(memory: int | str) -> int:
    """Return a number of bytes; warn if the container cannot hold them on all ranks.

    Raises:
        InvalidArgumentError: If it is not a number of bytes.
    """
    size, ranks = parse_bytes(memory, name="memory"), _local_ranks()
    _, limit = container_limits()
    if limit is not None and size * ranks > limit[0]:
        each = f" on each of {ranks} ranks" if ranks > 1 else ""
        warn_user(
            f"memory={memory!r}{each} is more than the {format_bytes(limit[0])} of "
            f"{limit[1]}: the system ends processes that use more; give a smaller "
            "memory=",
            PagefeedWarning,
        )
    return size


def _local_ranks() -> int:
    """Return the number of ranks of this node, as torchrun and others say it."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(local)) if local.isdecimal() else 1
