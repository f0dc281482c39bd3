"""The rank from the launcher, and a share of the processors and the memory."""

from __future__ import annotations

import os
import sys

from pagefeed.core._base import (
    check_positive,
    check_whole,
    format_bytes,
    num_processors,
    parse_bytes,
    warn_user,
)
from pagefeed.core.wiring import container_limits
from pagefeed.errors import InvalidArgumentError, PagefeedWarning

LAUNCHERS = {
    "from_slurm": [("SLURM_PROCID", "SLURM_NTASKS")],
    "from_mpi": [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ],
}
"""Variables of launchers with rank and world size, by functions of ``launch``.

A program must ask for them: some hold for tasks that are not data-parallel ranks.
"""


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
        rank, world_size = _from_torch() or _from_environment()
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


def _from_torch() -> tuple[int, int] | None:
    # Never imported for this: without torch loaded there is no process group.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment() -> tuple[int, int]:
    given = rank_of_environment("RANK", "WORLD_SIZE")
    if given is not None:
        return given
    for function, pairs in LAUNCHERS.items():
        for _, name in pairs:
            size = os.environ.get(name, "")
            if size.isdecimal() and int(size) > 1:
                raise InvalidArgumentError(
                    f"{name}={size} says that this is one of {size} processes, and "
                    "nothing says which batches are its own: write",
                    f"    rank, world_size = pf.launch.{function}()",
                    "    pf.Loader(..., rank=rank, world_size=world_size)",
                    "or pf.Loader(..., rank=0, world_size=1), for one process on "
                    "purpose",
                )
    return 0, 1


def rank_of_environment(rank_name: str, size_name: str) -> tuple[int, int] | None:
    """Return a rank and a world size from variables; None if neither is set.

    Raises:
        InvalidArgumentError: If only one is set, or one is not a whole number.
    """
    rank, size = os.environ.get(rank_name), os.environ.get(size_name)
    if not rank and not size:
        return None
    if not rank or not size:
        here, gone = (rank_name, size_name) if rank else (size_name, rank_name)
        raise InvalidArgumentError(
            f"the environment has {here}={rank or size} and no {gone}: a process "
            f"needs both to know its batches; set {gone}, unset {here}, or give rank= "
            "and world_size="
        )
    try:
        return int(rank), int(size)
    except ValueError:
        raise InvalidArgumentError(
            f"the environment has {rank_name}={rank!r} and {size_name}={size!r}: both "
            "must be whole numbers"
        ) from None
