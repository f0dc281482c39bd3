"""Lightning: a data module whose position is in every checkpoint, and Fabric.

Lightning restores a loader's own state only in the middle of an epoch; a data module's
it always restores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pagefeed._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import check_ends, check_has, check_maker
from pagefeed.integrations.delivery import Delivery, Start
from pagefeed.integrations.evaluation import TokenMeans, held_out
from pagefeed.launch import Ranks, from_mesh
from pagefeed.loader import Loader

_DataModule: Any = require(
    "lightning", extra="lightning", purpose="pagefeed.integrations.lightning"
).LightningDataModule

__all__ = ["LoaderDataModule", "setup_loader"]

WHO = "Lightning"

MakeLoader = Callable[[int, int], Loader]
"""Makes a loader for a rank and a world size."""


class LoaderDataModule(_DataModule):
    """Feeds ``Trainer.fit`` from a loader; checkpoints resume it at the exact sample.

    In the middle of an epoch and at its end, with ``max_epochs`` or ``max_steps``, at
    the same or another world size. With ``limit_train_batches=k`` every epoch of
    Lightning is the next k batches, through the loader's epochs. Every ``fit`` without
    a checkpoint begins at the beginning of an epoch.

    Args:
        train: A loader with ``format="torch"``, or what makes it of ``rank`` and
            ``world_size``: Lightning starts processes that learn their rank late.
        evaluation: The same for validation, or several by name, in the order of
            ``dataloader_idx``; the same batches come every time.
            :meth:`log_losses` logs their means.
        start: ``"here"`` to begin where an iteration was left, not at an epoch.

    Raises:
        InvalidArgumentError: When training begins, if a loader does not fit.

    Example:
        >>> data = LoaderDataModule(  # doctest: +SKIP
        ...     train=lambda rank, world_size: pf.Loader(
        ...         ..., rank=rank, world_size=world_size))
        >>> trainer.fit(model, datamodule=data)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        train: Loader | MakeLoader,
        evaluation: Loader
        | MakeLoader
        | Mapping[str, Loader | MakeLoader]
        | None = None,
        start: Start = "epoch",
    ) -> None:
        super().__init__()
        named = evaluation if isinstance(evaluation, Mapping) else {"": evaluation}
        self._named: dict[str, Any] = {
            name: _checked(each, f"evaluation {name}".strip())
            for name, each in named.items()
            if each is not None
        }
        self._train: Any = _checked(train, "train")
        self._start = start
        self._run: Delivery | None = None
        self._loaded: Mapping[str, Any] | None = None

    @property
    def loader(self) -> Loader:
        """The loader that training reads.

        Raises:
            InvalidArgumentError: If it is not made yet.
        """
        if not isinstance(self._train, Loader):
            raise InvalidArgumentError(
                "the loader is made when training begins: ask for it in a hook"
            )
        return self._train

    def setup(self, stage: str) -> None:
        """Have the next ``fit`` begin a run."""
        if stage == "fit":
            self._run = self._loaded = None

    def train_dataloader(self) -> Delivery:
        """Return what Lightning iterates over; it counts, and this goes on."""
        if self._run is not None:  # Asked for again in the course of a run.
            return self._run
        ranks = _expected_ranks(self.trainer)
        self._train = loader = _made(self._train, ranks)
        self._run = Delivery(
            loader, WHO, ranks=ranks, kind="run", endless=True, start=self._start
        )
        check_ends(loader, self.trainer.max_steps, WHO, "max_steps")
        if self._loaded is not None:
            loader.load_state_dict(self._loaded)
        self._run.begin_run(None if self._loaded is None else "Lightning's")
        self._loaded = None
        return self._run

    def val_dataloader(self) -> list[Delivery]:
        """Return the batches of validation."""
        ranks = _expected_ranks(self.trainer)
        self._named = {name: _made(each, ranks) for name, each in self._named.items()}
        held_out(self._named, self._train)
        found = []
        for loader in self._named.values():
            found.append(Delivery(loader, WHO, ranks=ranks, kind="again"))
            loader.check_ranks()
        return found

    def log_losses(
        self,
        module: Any,  # noqa: ANN401 - a LightningModule
        batch: Mapping[str, Any],
        loss: Any,  # noqa: ANN401 - a tensor
        *,
        logits: Any = None,  # noqa: ANN401 - likewise
        dataloader_idx: int = 0,
    ) -> None:
        """Log a batch's loss in ``validation_step``, as part of a mean over tokens.

        As ``val_loss``, or ``val_NAME_loss`` of several loaders; of a mixture also
        ``val_loss/DATASET``. On any number of ranks.

        Args:
            module: The module that validates.
            batch: The batch taken last.
            loss: The mean over its labels.
            logits: What the model gave, of a mixture.
            dataloader_idx: As ``validation_step`` was told.
        """
        name, loader = list(self._named.items())[dataloader_idx]
        means = TokenMeans(loader)
        means.add(batch["labels"], loss, logits)
        for key, (total, num_labels) in means.sums().items():
            module.log(
                f"val_{name}_{key}" if name else f"val_{key}",
                total / max(1, num_labels),
                batch_size=int(num_labels),
                on_epoch=True,
                sync_dist=True,
                add_dataloader_idx=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, for the checkpoint."""
        if isinstance(self._train, Loader):
            return self._train.state_dict()
        return dict(self._loaded or {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position, from a checkpoint, when training begins."""
        self._loaded = state


def _checked(loader: object, name: str) -> Any:  # noqa: ANN401 - as it is
    if not isinstance(loader, Loader):
        check_maker(loader, name)
    return loader


def _made(loader: Loader | MakeLoader, ranks: Ranks) -> Loader:
    return loader if isinstance(loader, Loader) else loader(*ranks)


def _expected_ranks(runner: Any) -> Ranks:  # noqa: ANN401 - a Trainer or Fabric
    mesh = getattr(runner.strategy, "device_mesh", None)
    if mesh is not None:
        return from_mesh(mesh, "data_parallel")
    return Ranks(runner.global_rank, runner.world_size)


def setup_loader(fabric: Any, loader: Loader, *, start: Start = "epoch") -> Delivery:  # noqa: ANN401
    """Return batches of an epoch on Fabric's device, for a loop of one's own.

    ``fabric.setup_dataloaders`` takes DataLoaders only. The position is saved by
    ``fabric.save(path, {"data": loader, ...})`` and restored by ``fabric.load``.

    Args:
        fabric: The ``lightning.Fabric``, launched.
        loader: With ``format="torch"`` and Fabric's data-parallel rank.
        start: ``"here"`` to begin where an iteration was left, not at an epoch.

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """
    check_has(
        fabric,
        ["to_device", "global_rank", "strategy"],
        "a lightning.Fabric: setup_loader(fabric, loader)",
    )
    batches = Delivery(
        loader,
        "Fabric",
        ranks=_expected_ranks(fabric),
        convert=fabric.to_device,
        start=start,
    )
    batches.begin_run()
    return batches
