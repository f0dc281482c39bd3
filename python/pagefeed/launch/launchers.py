"""The data-parallel rank of a process, from torch and variables of launchers."""

from __future__ import annotations

import os
import sys

from pagefeed.errors import InvalidArgumentError
from pagefeed.launch.frameworks import Ranks

__all__ = ["from_mpi", "from_slurm", "rank_of_process"]

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


def from_slurm() -> Ranks:
    """Return the rank of this task among those that ``srun`` started.

    Each task must be a data-parallel rank. With tensor or pipeline parallelism, take
    the rank from :func:`from_mesh`.

    Raises:
        InvalidArgumentError: If ``srun`` did not start this process.

    For example::

        rank, world_size = pf.launch.from_slurm()
        loader = pf.Loader(data, ..., rank=rank, world_size=world_size)
    """
    return _rank("from_slurm", "srun")


def from_mpi() -> Ranks:
    """Return the rank of this process among those that ``mpirun`` started.

    Open MPI, MPICH and its relatives set the variables. Each process must be a
    data-parallel rank, as for :func:`from_slurm`.

    Raises:
        InvalidArgumentError: If ``mpirun`` did not start this process.
    """
    return _rank("from_mpi", "mpirun")


def _rank(function: str, launcher: str) -> Ranks:
    for names in LAUNCHERS[function]:
        if (found := rank_of_environment(*names)) is not None:
            return Ranks(*found)
    missing = " or ".join(" and ".join(pair) for pair in LAUNCHERS[function])
    raise InvalidArgumentError(
        f"the environment has no {missing}: start the program by {launcher}"
    )


def rank_of_process() -> tuple[int, int]:
    """Return the rank and the world size that torch or the environment says.

    Raises:
        InvalidArgumentError: If nothing says which of several processes this one is.
    """
    return _from_torch() or _from_environment()


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
