"""The data-parallel rank of a process, which decides the batches that it gets.

The rank comes from the launcher, or from a framework's groups and meshes.
:func:`check_agreement` proves that all ranks agree.
"""

from pagefeed.launch.agreement import (
    Gather,
    check_agreement,
    check_ranks,
    gather_from,
    members,
)
from pagefeed.launch.cgroups import container_limits
from pagefeed.launch.frameworks import (
    Ranks,
    from_deepspeed,
    from_group,
    from_jax,
    from_megatron,
    from_mesh,
    warn_of_accelerator,
)
from pagefeed.launch.launchers import from_mpi, from_slurm, rank_of_process

__all__ = [
    "Gather",
    "Ranks",
    "check_agreement",
    "check_ranks",
    "container_limits",
    "from_deepspeed",
    "from_group",
    "from_jax",
    "from_megatron",
    "from_mesh",
    "from_mpi",
    "from_slurm",
    "gather_from",
    "members",
    "rank_of_process",
    "warn_of_accelerator",
]
