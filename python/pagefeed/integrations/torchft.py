"""torchft: replicas commit a step together, and share it among those that live."""

from __future__ import annotations

from typing import Any, Protocol

from pagefeed.core._base import check_positive, check_whole
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import check_counted, check_has

__all__ = ["QuorumFeed"]

KEY = "pagefeed"
"""Under which a manager sends the loader's state to replicas that join."""

ASKED = (
    *("current_step", "participating_rank", "num_participants", "is_participating"),
    "register_state_dict_fn",
)
"""Methods that a manager must have."""


class Manager(Protocol):
    """The methods of ``torchft.Manager`` that are used."""

    def current_step(self) -> int:
        """Steps committed so far."""

    def participating_rank(self) -> int | None:
        """Number of this replica group in the quorum; None if it is not in it."""

    def num_participants(self) -> int:
        """Replica groups in the quorum."""

    def is_participating(self) -> bool:
        """Whether the gradients of this replica count."""

    def register_state_dict_fn(self, key: str, load: Any, save: Any) -> None:
        """Send a state to replicas that join."""


class QuorumFeed:
    """Feeds the replicas of a torchft quorum: each sequence is delivered once.

    In its step s, the quorum trains on step s of the loader. If that step is not
    committed, the next quorum gets the same step, divided among its own members. A
    replica that joins needs the number of the step. It needs the state of a peer only
    where steps were skipped or weights were set: the manager sends it.

    Args:
        manager: A ``torchft.Manager``.
        loader: With ``global_batch_size``.
        rank: Rank of this process among the data-parallel ranks of its replica group.
        world_size: Number of these ranks.

    Raises:
        InvalidArgumentError: If the manager or the loader is of another type, or the
            loader has no ``global_batch_size``.

    Example:
        A loop of a replica group::

            feed = QuorumFeed(manager, loader)
            while manager.current_step() < num_steps:
                optimizer.zero_grad()  # Starts the quorum.
                batch = feed.batch()
                loss = model(batch) * feed.weight
                loss.backward()
                optimizer.step()  # Commits.
    """

    def __init__(
        self, manager: Manager, loader: Loader, *, rank: int = 0, world_size: int = 1
    ) -> None:
        check_counted(loader, "QuorumFeed")
        check_has(manager, ASKED, "QuorumFeed(manager, loader) with a torchft.Manager")
        if loader.global_batch_size is None:
            raise InvalidArgumentError(
                f"replicas come and go, and batch_size={loader.batch_size} is of one "
                "number of them: give the Loader global_batch_size="
            )
        self._manager, self._loader = manager, loader
        self._world_size = check_positive(world_size, "world_size")
        self._rank = check_whole(rank, "rank", least=0, most=world_size - 1)
        manager.register_state_dict_fn(KEY, loader.load_state_dict, loader.state_dict)

    def batch(self) -> Batch | None:
        """Return this process's batch of the step of the quorum; call it once a step.

        It waits for the quorum. A replica outside the quorum (with older weights, or a
        spare) gets None: its gradients would not count.

        Raises:
            InvalidArgumentError: If the quorum counts a replica that still receives
                its weights from a peer. torchft ignores its gradients, so its rows
                would be lost. In a first step this is so for all replicas but one,
                unless the manager has ``init_sync=False`` or
                ``use_async_quorum=False``. Also if there are more ranks than sequences
                of a step, or if the step does not exist.
        """
        manager = self._manager
        replica, num_replicas = manager.participating_rank(), manager.num_participants()
        step = manager.current_step()
        if replica is None:
            return self._loader.at(
                step, rank=None, world_size=max(1, num_replicas) * self._world_size
            )
        if not manager.is_participating():
            raise InvalidArgumentError(
                f"step {step} would lose the rows of replica {replica}: torchft counts "
                "the replica, and leaves out its gradients while its weights come from "
                "a peer. Give the Manager init_sync=False, and all replicas the same "
                "first weights, or use_async_quorum=False"
            )
        rank = replica * self._world_size + self._rank
        world_size = num_replicas * self._world_size
        return self._loader.at(step, rank=rank, world_size=world_size)

    @property
    def weight(self) -> float:
        """Weight of the batch in a mean over ranks, see :attr:`Loader.weight`."""
        return self._loader.weight
