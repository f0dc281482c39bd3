"""Lightning: a data module whose position is in every checkpoint, and Fabric.

Lightning restores a loader's own state only in the middle of an epoch; a data module's
it always restores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pagefeed._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import (
    check_has,
    check_maker,
    check_ranks_of,
    check_torch,
)
from pagefeed.integrations.delivery import Delivery
from pagefeed.launch import Ranks, from_mesh
from pagefeed.loader import Loader

_DataModule: Any = require(
    "lightning", extra="lightning", purpose="pagefeed.integrations.lightning"
).LightningDataModule

__all__ = ["LoaderDataModule", "setup_loader"]

MakeLoader = Callable[[int, int], Loader]
"""Makes a loader for a rank and a world size."""


class _Validation(Delivery):
    """The same batches in every validation, which the position of training is not."""

    def __iter__(self) -> Any:  # noqa: ANN401 - an iterator
        """Begin at the first epoch."""
        self.loader.load_state_dict(self._beginning)
        return super().__iter__()

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader, endless=False)
        self._beginning = loader.state_dict()

    state_dict = load_state_dict = None  # type: ignore[assignment]


class LoaderDataModule(_DataModule):
    """Feeds ``Trainer.fit`` from a loader; checkpoints resume it at the exact sample.

    In the middle of an epoch and at its end, with ``max_epochs`` or ``max_steps``, at
    the same or another world size. With ``limit_train_batches=k`` every epoch of
    Lightning is the next k batches, through the loader's epochs.

    Args:
        train: A loader with ``format="torch"``, or what makes it of ``rank`` and
            ``world_size``: Lightning starts processes that learn their rank late.
        val: The same for validation, which sees the same batches every time.

    Raises:
        InvalidArgumentError: When training begins, if a loader has another rank.

    Example:
        >>> data = LoaderDataModule(  # doctest: +SKIP
        ...     train=lambda rank, world_size: pf.Loader(
        ...         ..., rank=rank, world_size=world_size))
        >>> trainer.fit(model, datamodule=data)  # doctest: +SKIP
    """

    def __init__(
        self, *, train: Loader | MakeLoader, val: Loader | MakeLoader | None = None
    ) -> None:
        super().__init__()
        self._train: Any = _checked(train, "train")
        self._val: Any = None if val is None else _checked(val, "val")
        self._loaded: Mapping[str, Any] | None = None

    @property
    def loader(self) -> Loader:
        """The loader that feeds training.

        Raises:
            InvalidArgumentError: If it is not made yet.
        """
        if not isinstance(self._train, Loader):
            raise InvalidArgumentError(
                "the loader is made when training begins: ask for it in a hook"
            )
        return self._train

    def train_dataloader(self) -> Delivery:
        """Return what Lightning iterates over; it counts, and this goes on."""
        self._train = self._made(self._train)
        if self._loaded is not None:
            self._train.load_state_dict(self._loaded)
            self._loaded = None
        self._train.check_ranks()
        return Delivery(self._train, endless=True)

    def val_dataloader(self) -> Any:  # noqa: ANN401 - nothing, or what train's is
        """Return the batches of validation."""
        if self._val is None:
            return []
        self._val = self._made(self._val)
        return _Validation(self._val)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, for the checkpoint."""
        if isinstance(self._train, Loader):
            return self._train.state_dict()
        return dict(self._loaded or {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position, from a checkpoint."""
        if isinstance(self._train, Loader):
            self._train.load_state_dict(state)
        else:
            self._loaded = state

    def _made(self, loader: Loader | MakeLoader) -> Loader:
        expected = _expected_ranks(self.trainer)
        if not isinstance(loader, Loader):
            loader = loader(expected.rank, expected.world_size)
        check_torch(loader, "Lightning")
        check_ranks_of(loader, expected, "Lightning")
        return loader


def _checked(loader: object, name: str) -> Any:  # noqa: ANN401 - as it is
    if not isinstance(loader, Loader):
        check_maker(loader, name)
    return loader


def _expected_ranks(runner: Any) -> Ranks:  # noqa: ANN401 - a Trainer or Fabric
    mesh = getattr(runner.strategy, "device_mesh", None)
    if mesh is not None:
        return from_mesh(mesh, "data_parallel")
    return Ranks(runner.global_rank, runner.world_size)


def setup_loader(fabric: Any, loader: Loader) -> Delivery:  # noqa: ANN401
    """Return batches of an epoch on Fabric's device, for a loop of one's own.

    ``fabric.setup_dataloaders`` takes DataLoaders only. The position is saved by
    ``fabric.save(path, {"data": loader, ...})`` and restored by ``fabric.load``.

    Args:
        fabric: The ``lightning.Fabric``, launched.
        loader: With ``format="torch"`` and Fabric's data-parallel rank.

    Raises:
        InvalidArgumentError: If the loader has another rank, or gives arrays.
    """
    check_has(
        fabric,
        ["to_device", "global_rank", "strategy"],
        "a lightning.Fabric: setup_loader(fabric, loader)",
    )
    check_torch(loader, "Fabric")
    check_ranks_of(loader, _expected_ranks(fabric), "Fabric")
    loader.check_ranks()
    return Delivery(loader, convert=fabric.to_device, endless=False)
