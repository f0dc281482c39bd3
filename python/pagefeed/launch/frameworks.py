"""The data-parallel rank, read from a framework's meshes and groups.

With tensor, pipeline or context parallelism several processes train on one batch: they
share a data-parallel rank, which is neither ``RANK`` nor the rank in the whole group.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import require, warn_user
from pagefeed.errors import InvalidArgumentError, PositionWarning

__all__ = [
    "Ranks",
    "from_deepspeed",
    "from_group",
    "from_jax",
    "from_megatron",
    "from_mesh",
    "warn_of_accelerator",
]


class Ranks(NamedTuple):
    """A data-parallel rank and world size.

    Example:
        >>> Ranks(1, 4)._asdict()  # Loader(..., **ranks._asdict())
        {'rank': 1, 'world_size': 4}
    """

    rank: int
    """Rank of this process; processes that need the same batches share a rank."""
    world_size: int
    """Number of data-parallel ranks."""


def from_mesh(mesh: Any, dims: str | Iterable[str] | None = None) -> Ranks:
    """Return the rank of this process in the data-parallel dimensions of a mesh.

    Args:
        mesh: A ``torch.distributed.DeviceMesh``.
        dims: Names of the dimensions over which batches differ, such as
            ``("dp_replicate", "dp_shard")``, the slower first; not those of tensor,
            pipeline and context parallelism. None if the mesh has but one.

    Raises:
        InvalidArgumentError: If the mesh has no such dimension, or this process is not
            in it.

    For example::

        mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))
        rank, world_size = from_mesh(mesh, dims="dp")
    """
    sizes = tuple(mesh.shape)
    names = tuple(mesh.mesh_dim_names or ())
    if dims is None:
        if len(sizes) != 1:
            raise InvalidArgumentError(
                f"the mesh has {len(sizes)} dimensions, {_listed(names)}: name those "
                "over which batches differ, as in from_mesh(mesh, dims=('dp_replicate',"
                " 'dp_shard'))"
            )
        axes = [0]
    else:
        asked = [dims] if isinstance(dims, str) else list(dims)
        missing = [name for name in asked if name not in names]
        if missing or not asked or len(set(asked)) < len(asked):
            raise InvalidArgumentError(
                f"dims={asked!r} must name dimensions of the mesh, each once; it has "
                f"{_listed(names)}"
            )
        axes = [names.index(name) for name in asked]
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise InvalidArgumentError(
            f"this process is not in the mesh {mesh}: no batches are meant for it"
        )
    chosen = [sizes[axis] for axis in axes]
    rank = np.ravel_multi_index([coordinate[axis] for axis in axes], chosen)
    return Ranks(int(rank), math.prod(chosen))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names)) or "without names"


def from_group(group: Any = None) -> Ranks:
    """Return the rank of this process in a ``torch.distributed`` process group.

    Args:
        group: The group whose members all get different batches; None for all.

    Raises:
        InvalidArgumentError: If this process is not in the group.
    """
    distributed = require("torch.distributed", extra="torch", purpose="from_group")
    rank = distributed.get_rank(group)
    if rank < 0:
        raise InvalidArgumentError(
            "this process is not in the group: give that of its data-parallel ranks"
        )
    return Ranks(rank, distributed.get_world_size(group))


def from_megatron() -> Ranks:
    """Return Megatron's data-parallel rank, the same on all context-parallel ranks.

    ``megatron.core.parallel_state`` must have been initialised.
    """
    state = require(
        "megatron.core.parallel_state", extra="megatron", purpose="from_megatron"
    )
    return Ranks(state.get_data_parallel_rank(), state.get_data_parallel_world_size())


def from_deepspeed(*, ulysses_adapter: bool = False) -> Ranks:
    """Return DeepSpeed's data-parallel rank, the same on all ranks of a sequence.

    ``deepspeed.initialize`` must have been called.

    Args:
        ulysses_adapter: Whether the loader goes into ``UlyssesSPDataLoaderAdapter``. It
            gathers a batch from every rank of a sequence, and all of them train on each
            batch in turn. So every rank must give another batch; with equal ones, each
            would be trained on several times.
    """
    groups = require(
        "deepspeed.utils.groups", extra="deepspeed", purpose="from_deepspeed"
    )
    rank = groups._get_data_parallel_rank()  # noqa: SLF001 - no public name
    world_size = groups._get_data_parallel_world_size()  # noqa: SLF001
    if ulysses_adapter:
        size = groups._get_sequence_parallel_world_size()  # noqa: SLF001
        sequence_rank = groups._get_sequence_parallel_rank()  # noqa: SLF001
        return Ranks(rank * size + sequence_rank, world_size * size)
    return Ranks(rank, world_size)


def from_jax(sharding: Any, *, rows: int, axis: int = 0) -> Ranks:
    """Return the rank of this process in feeding a sharded global batch.

    The sharding decides it: processes whose devices hold the same rows need the same
    data, and share a rank.

    Args:
        sharding: A ``jax.sharding.Sharding`` of the global batch.
        rows: Rows of the global batch.
        axis: The axis of the batch's rows.

    Raises:
        InvalidArgumentError: If the rows of processes overlap in part, or differ in
            number, so that there are no ranks.
    """
    jax = require("jax", extra="jax", purpose="from_jax")
    shape = (1,) * axis + (rows,)
    spans: dict[int, set[tuple[int, int]]] = {}
    for device, index in _index_map(sharding, shape).items():
        begin, stop, _ = index[axis].indices(rows)
        spans.setdefault(device.process_index, set()).add((begin, stop))
    rows_of = {process: tuple(sorted(own)) for process, own in spans.items()}
    ranks = sorted(set(rows_of.values()))
    num_rows = [sum(stop - begin for begin, stop in row_spans) for row_spans in ranks]
    if len(set(num_rows)) > 1 or sum(num_rows) != rows:
        raise InvalidArgumentError(
            f"the sharding {sharding} gives the processes rows {rows_of} of {rows}, "
            "which are not equal shares: choose a batch that divides evenly"
        )
    return Ranks(ranks.index(rows_of[jax.process_index()]), len(ranks))


def _index_map(sharding: Any, shape: tuple[int, ...]) -> dict[Any, Any]:
    """Return the slices of each device, without axes beyond the shape."""
    ndim = max(len(shape), len(getattr(sharding, "spec", ())))
    sizes = getattr(getattr(sharding, "mesh", None), "size", 1)
    full = shape + (sizes,) * (ndim - len(shape))
    return sharding.devices_indices_map(full)


def warn_of_accelerator() -> bool:
    """Warn if an ``Accelerator`` is active; returns whether one is.

    ``accelerator.prepare`` leaves a loader as it is, and knows nothing of it.
    """
    state = sys.modules.get("accelerate.state")
    if state is None or not state.is_initialized():
        return False
    warn_user(
        "an Accelerator is active, and does not know this loader: save_state does not "
        "save its position, and gradients that accumulate are not synchronised at the "
        "end of an epoch. Iterate over what pagefeed.integrations.accelerate.prepare("
        "accelerator, loader) returns, or attach the loader to its trainer: "
        "pagefeed.integrations.transformers.attach(trainer, loader)",
        PositionWarning,
    )
    return True
