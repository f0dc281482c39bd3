"""The data-parallel rank of a process, from variables of Slurm and MPI."""

from __future__ import annotations

from pagefeed.core.ranks import LAUNCHERS, rank_of_environment
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch.frameworks import Ranks

__all__ = ["from_mpi", "from_slurm"]


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
