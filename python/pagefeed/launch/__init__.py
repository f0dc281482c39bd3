"""Rank of this process, and its share of the work.

The data-parallel rank: what is fed by it, and so what of the data a process sees. From
the launcher, from a framework's groups and meshes, and the proof that all ranks agree.
"""

from pagefeed.launch.agreement import (
    Gather,
    check_agreement,
    check_ranks,
    gather_from,
    members,
)
from pagefeed.launch.frameworks import (
    Ranks,
    from_deepspeed,
    from_group,
    from_jax,
    from_megatron,
    from_mesh,
    warn_of_accelerator,
)

__all__ = [
    "Gather",
    "Ranks",
    "check_agreement",
    "check_ranks",
    "from_deepspeed",
    "from_group",
    "from_jax",
    "from_megatron",
    "from_mesh",
    "gather_from",
    "members",
    "warn_of_accelerator",
]
