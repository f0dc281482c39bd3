"""Proves before training that every process gets the right batches.

It takes one exchange of a few facts. Wrong ranks raise no error by themselves: data is
trained on twice or never, or the ranks of one model see different batches and diverge.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, product
from typing import Any, TypeAlias

from pagefeed.core._base import require, some_of, warn_user
from pagefeed.errors import InvalidArgumentError, RankWarning
from pagefeed.launch.frameworks import Ranks

__all__ = ["Gather", "check_agreement", "check_ranks", "gather_from", "members"]

MODEL_PARALLEL = re.compile(
    r"(?:^|_)(?:tp|tensor|pp|pipeline|cp|context|sp|sequence)(?:_|$)", re.IGNORECASE
)
"""Names of groups whose members train one model on the same batches."""

Gather = Callable[[Any], Sequence[Any]]
"""Function that gathers an object from all processes, in the same order everywhere."""


def gather_from(group: Any = None) -> Gather:
    """Return a function that gathers plain objects over a group.

    Args:
        group: A process group of torch, or such a function itself. None means all
            processes, or this one alone if torch.distributed is not initialised.
    """
    if callable(group):
        return group
    distributed = require("torch.distributed", extra="torch", purpose="check_ranks")
    if not (distributed.is_available() and distributed.is_initialized()):
        return lambda facts: [facts]

    def gather(facts: Any) -> list[Any]:
        gathered = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(gathered, facts, group=group)
        return gathered

    return gather


def members(same: Any, group: Any = None) -> list[int]:
    """Return the ranks, within ``group``, of the members of a group.

    Args:
        same: A process group of torch, or the ranks themselves.
        group: The group of all processes that train.
    """
    if isinstance(same, Iterable):
        return list(same)
    distributed = require("torch.distributed", extra="torch", purpose="check_ranks")
    everyone = distributed.get_process_group_ranks(group or distributed.group.WORLD)
    return [everyone.index(rank) for rank in distributed.get_process_group_ranks(same)]


def check_ranks(
    ranks: tuple[int | None, int],
    settings: Mapping[str, Any],
    shard: tuple[int, int],
    group: Any,
    same: Any,
) -> None:
    """Check agreement over torch process groups, see :meth:`Loader.check_ranks`."""
    check_agreement(
        ranks,
        settings,
        Ranks(*shard),
        gather=gather_from(group),
        same=None if same is None else members(same, group),
    )


def check_agreement(
    ranks: tuple[int | None, int],
    settings: Mapping[str, Any],
    shard: Ranks,
    *,
    gather: Gather,
    same: Sequence[int] | None = None,
) -> None:
    """Check that all data is delivered once, and that peers get equal batches.

    Args:
        ranks: Data-parallel rank and world size of this process; None for a member of a
            fleet that gets no batch.
        settings: Everything that decides what a rank gets, by name. It must be the same
            everywhere.
        shard: Which part of each sequence this process gets, and of how many parts.
        gather: Gathers over all processes that train.
        same: Numbers of the processes, as gathered, that must get the same batches as
            this one: itself, and those of its tensor, pipeline and context parallel
            groups. With None only their number is checked; where there are such peers,
            a warning says what remains unchecked.

    Raises:
        InvalidArgumentError: On all processes, naming two that disagree.
    """
    peers = None if same is None else sorted(same)
    gathered = gather((tuple(ranks), dict(settings), peers, tuple(shard)))
    every_rank, plans, groups, shards = zip(*gathered, strict=True)
    for name in plans[0]:
        values = [plan.get(name) for plan in plans]
        other = next((n for n, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise InvalidArgumentError(
                f"processes are fed by different plans: {name} is {values[0]!r} in "
                f"process 0 and {values[other]!r} in process {other}; give all loaders "
                "the same arguments, and load the same state everywhere"
            )
    if None in (rank for rank, _ in every_rank) and not any(groups):
        # Skip the ranks of a fleet that get no batch.
        is_fed = [rank is not None for rank, _ in every_rank]
        every_rank, shards, groups = (
            tuple(compress(values, is_fed)) for values in (every_rank, shards, groups)
        )
    all_ranks = [Ranks(*values) for values in every_rank]
    feeds = [_feed(*each) for each in enumerate(zip(every_rank, groups, strict=True))]
    _check_sizes(all_ranks, feeds)
    _check_parts(all_ranks, [Ranks(*values) for values in shards])
    if any(values is not None for values in groups):
        same_batches = [values or [n] for n, values in enumerate(groups)]
        _check_same(feeds, all_ranks[0].world_size, same_batches)
    else:
        _say_unproven(all_ranks, _model_parallel_groups())


def _model_parallel_groups() -> list[str]:
    """Names of the groups of tensor, pipeline and context parallelism of this job."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return []
    groups = distributed.distributed_c10d._world.pg_map  # noqa: SLF001 - no public one
    names = {group.group_desc for group in groups if group.size() > 1}
    return sorted(name for name in names if MODEL_PARALLEL.search(name))


def _say_unproven(ranks: list[Ranks], groups: list[str]) -> None:
    """Warn where processes may need the same batches, and nothing says which."""
    peers = len(ranks) // ranks[0].world_size
    if peers == 1 and not groups:
        return
    shared = "has one process" if peers == 1 else f"is shared by {peers} processes"
    also = f", and groups {', '.join(groups)}" if groups else ""
    warn_user(
        f"check_ranks() saw all {ranks[0].world_size} data-parallel ranks, and each "
        f"{shared}{also}. It could not prove that exactly the processes that need "
        "the same batches share a rank: name their group, as in "
        "check_ranks(same=mesh['tp'].get_group())",
        RankWarning,
    )


Feed: TypeAlias = int | str
"""The rank of a process, or of those of a fleet that wait, which group they are of."""


def _feed(process: int, of: tuple[tuple[int | None, int], list[int] | None]) -> Feed:
    (rank, _), group = of
    return f"none (with process {min(group or [process])})" if rank is None else rank


def _check_sizes(ranks: list[Ranks], feeds: list[Feed]) -> None:
    """Check that all ranks are present, equally often."""
    first = ranks[0].world_size
    for process, feed in enumerate(ranks):
        if feed.world_size != first:
            raise InvalidArgumentError(
                f"process 0 has world_size={first}, process {process} "
                f"{feed.world_size}: give all loaders the same number of data-parallel "
                "ranks"
            )
    counts = Counter(feeds)
    missing = [rank for rank in range(first) if rank not in counts]
    if missing:
        twice = [n for n, rank in enumerate(feeds) if counts[rank] > 1]
        raise InvalidArgumentError(
            f"no process has rank {missing[0]} of world_size={first}: its data would "
            f"never be trained on; the processes have ranks [{some_of(feeds)}]"
            + (f", so [{some_of(twice)}] train on the same" if twice else "")
            + ". Take them from pagefeed.launch.from_mesh or from_group"
        )
    most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.get)  # type: ignore[arg-type]
    if counts[most] != counts[least]:
        raise InvalidArgumentError(
            f"{counts[most]} processes have rank {most}, {counts[least]} have rank "
            f"{least}: each rank must feed equally many"
        )


def _check_parts(ranks: list[Ranks], shards: list[Ranks]) -> None:
    """Check that each rank has all parts of the sequences, equally often."""
    counts = Counter(
        (feed.rank, shard.rank) for feed, shard in zip(ranks, shards, strict=True)
    )
    for rank, piece in product(range(ranks[0].world_size), range(shards[0].world_size)):
        count = counts[rank, piece]
        first = counts[ranks[0].rank, shards[0].rank]
        if count != first:
            raise InvalidArgumentError(
                f"{count or 'no'} processes get part {piece} of {shards[0].world_size} "
                f"of the sequences of rank {rank}, and "
                f"{first} part {shards[0].rank} of rank "
                f"{ranks[0].rank}: give each process its rank in the context-parallel "
                "group, ContextParallel.from_mesh(mesh['cp'])"
            )


def _check_same(feeds: list[Feed], world_size: int, groups: list[list[int]]) -> None:
    """Check that processes share a rank exactly if they are in one group."""
    by_rank = defaultdict[Feed, set[int]](set)
    for process, feed in enumerate(feeds):
        by_rank[feed].add(process)
    for own, (mine, group) in enumerate(zip(feeds, groups, strict=True)):
        wrong = by_rank[mine].symmetric_difference(group) - {own}
        if wrong:
            other = min(wrong)
            need = "the same batches" if other in group else "different batches"
            raise InvalidArgumentError(
                f"processes {own} and {other} need {need}, and have ranks {mine} "
                f"and {feeds[other]} of {world_size}: rank must be that of "
                "the data-parallel group (pagefeed.launch.from_mesh)"
            )
