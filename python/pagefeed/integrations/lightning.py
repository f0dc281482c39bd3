"""Lightning: a data module that saves the position in every checkpoint, and Fabric.

Lightning restores the state of a loader only in the middle of an epoch. It always
restores the state of a data module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

from pagefeed.core._base import check_choice, check_positive, require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.run import Grown, check_grown
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import (
    MakeLoader,
    check_ends,
    check_has,
    check_maker,
    check_ranks_of,
    check_sizes,
)
from pagefeed.integrations.delivery import (
    Delivery,
    Leaf,
    ResumableDelivery,
    Start,
    check_begins,
)
from pagefeed.integrations.evaluation import TokenMeans, by_name, held_out
from pagefeed.integrations.layers import Leak, check_layers
from pagefeed.integrations.learning import EVERY, make_learner
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import Ranks, from_mesh
from pagefeed.mixing import Learner, Policy, Replacing
from pagefeed.mixture import Mixture

_DataModule: Any = require(
    "lightning", extra="lightning", purpose=__name__
).LightningDataModule

warn_of_newer("lightning")

__all__ = ["LoaderDataModule", "setup_loader"]

WHO = "Lightning"
SIZES = "sizes"


class _TrainingBatches(Delivery):
    """Batches of training; the data module saves their position.

    Lightning warns of an epoch that continues where batches have no state.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the data module's state has the position."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load nothing."""


class LoaderDataModule(_DataModule):
    """Feeds ``Trainer.fit`` from a loader; checkpoints resume it at the exact sample.

    This holds in the middle of an epoch and at its end, with ``max_epochs`` or
    ``max_steps``. At another batch size or world size, resume with ``max_steps``. With
    ``limit_train_batches=k`` every epoch of Lightning is the next k batches of the
    loader. Every ``fit`` without a checkpoint begins at the beginning of an epoch.

    Args:
        train: A loader with ``format="torch"``, or a function of ``rank`` and
            ``world_size`` that makes it: Lightning starts processes that learn their
            rank late.
        evaluation: The same for validation, or several by name, in the order of
            ``dataloader_idx``. Every validation sees the same batches;
            :meth:`log_losses` logs their means.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.
        policy: Changes the weights of a mixture by its datasets' losses, which
            :meth:`log_training` is given.
        every: Steps of the loader between two updates of the policy.
        leak: ``"allowed"`` trains models with layers that carry a state over the
            documents of a row: linear attention, convolutions, recurrent ones.

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
        train: AnyLoader | MakeLoader,
        evaluation: AnyLoader
        | MakeLoader
        | Mapping[str, AnyLoader | MakeLoader]
        | None = None,
        start: Start = "epoch",
        grown: Grown | None = None,
        policy: Policy | Replacing | None = None,
        every: int = EVERY,
        leak: Leak = "refused",
    ) -> None:
        super().__init__()
        Learner.check_policy(policy)
        self._policy, self._every = policy, check_positive(every, "every")
        self._learner: Learner | None = None
        named = {} if evaluation is None else by_name(evaluation)
        self._named: dict[str, Any] = {
            name: _checked(loader, f"evaluation[{name!r}]" if name else "evaluation")
            for name, loader in named.items()
        }
        self._train: Any = _checked(train, "train")
        check_choice(start, get_args(Start), "start")
        self._start: Start = start
        self._grown = check_grown(grown)
        check_choice(leak, get_args(Leak), "leak")
        self._leak: Leak = leak
        self._run: Delivery | None = None
        self._is_begun = False
        self._loaded: dict[str, Any] = {}

    @property
    def loader(self) -> AnyLoader:
        """The loader that training reads.

        Raises:
            InvalidArgumentError: If it is not made yet.
        """
        if not isinstance(self._train, AnyLoader):
            raise InvalidArgumentError(
                "the loader is made when training begins: ask for it in a hook"
            )
        return self._train

    def setup(self, stage: str) -> None:
        """Have the next ``fit`` begin a run."""
        if stage == "fit":
            self._is_begun, self._loaded = False, {}

    def train_dataloader(self) -> Delivery:
        """Return the batches of a run; Lightning counts its epochs."""
        if self._run is not None and self._is_begun:  # It asks again in the same run.
            return self._run
        trainer = self.trainer
        ranks = _expected_ranks(trainer)
        self._train = loader = _made(self._train, ranks)
        check_ranks_of(loader, ranks, WHO)
        check_layers([trainer.lightning_module], loader, self._leak, WHO)
        if self._run is None:  # Kept for later runs: it knows the first weights.
            self._run = _TrainingBatches(
                loader,
                WHO,
                kind="run",
                endless=True,
                start=self._start,
                grown=self._grown,
            )
            self._learner = make_learner(loader, self._policy, self._every)
        run, self._is_begun = self._run, True
        run.accumulate(trainer.accumulate_grad_batches)
        check_ends(loader, trainer.max_steps, WHO, "max_steps")
        if self._loaded:
            Leaf(loader, grown=self._grown).load_state_dict(self._loaded)
            is_whole = trainer.limit_train_batches == 1.0
            if is_whole and trainer.max_epochs > 0 and loader.step:
                left = run.steps_to(trainer.max_epochs - trainer.current_epoch)
                end = trainer.global_step - (-left // trainer.accumulate_grad_batches)
                settings = f"max_steps={end} and max_epochs=-1"
                check_sizes(self._loaded[SIZES], _sizes(loader), WHO, settings)
        elif trainer.ckpt_path:
            progress = trainer.fit_loop.epoch_loop.batch_progress.total
            run.go_to(*divmod(progress.ready, len(run)))
        is_resumed = self._loaded or trainer.ckpt_path
        run.begin_run("Lightning's" if is_resumed else None)
        is_whole = trainer.limit_train_batches == 1.0 and (trainer.max_epochs or 0) > 0
        if is_whole and not is_resumed:
            steps = run.steps_to(trainer.max_epochs)
            end = -(-steps // trainer.accumulate_grad_batches)
            if not 0 <= trainer.max_steps <= end:
                check_begins(run, WHO, f"max_steps={end} and max_epochs=-1")
        self._loaded = {}
        return run

    def val_dataloader(self) -> list[Delivery]:
        """Return the batches of validation."""
        ranks = _expected_ranks(self.trainer)
        self._named = {
            name: _made(loader_or_make, ranks)
            for name, loader_or_make in self._named.items()
        }
        deliveries = []
        if self._named:
            held_out(self._named, self._train)
        for loader in self._named.values():
            deliveries.append(Delivery(loader, WHO, ranks=ranks, kind="again"))
            loader.check_ranks()
        return deliveries

    def log_training(self, module: Any, batch: Mapping[str, Any], logits: Any) -> None:
        """Log ``loss/DATASET`` in ``training_step``, and let the policy work.

        Call it on all ranks with every batch. It logs every ``log_every_n_steps``.
        Means are over the tokens of all ranks since the last log; a dataset without
        tokens has NaN.

        Args:
            module: The module that trains.
            batch: The batch of this step, with ``labels`` and ``dataset_ids``.
            logits: The model's logits.

        Raises:
            InvalidArgumentError: If the loader has no mixture or no ``dataset_ids``.
        """
        learner = self._learner
        if learner is None:
            raise InvalidArgumentError(
                "losses of datasets need a mixture, and the fields labels and "
                "dataset_ids of its Loader"
            )
        learner.add(batch["dataset_ids"], batch["labels"], logits=logits)
        learner.step()
        if (module.global_step + 1) % self.trainer.log_every_n_steps == 0:
            # A metric that is not logged again would keep its last value.
            unseen = {f"loss/{name}": math.nan for name in learner.loader.dataset_names}
            module.log_dict(unseen | learner.means())

    def log_losses(
        self,
        module: Any,
        batch: Mapping[str, Any],
        loss: Any,
        *,
        logits: Any = None,
        dataloader_idx: int = 0,
    ) -> None:
        """Log the loss of a batch in ``validation_step``, for a mean over tokens.

        The name is ``val_loss``, or ``val_NAME_loss`` with several loaders; a mixture
        also logs ``val_loss/DATASET``. The means are over all ranks.

        Args:
            module: The module that validates.
            batch: The batch of this step.
            loss: Mean loss over its labels.
            logits: The model's logits; needed for a mixture.
            dataloader_idx: The argument of ``validation_step``.
        """
        name, loader = list(self._named.items())[dataloader_idx]
        means = TokenMeans(loader)
        if logits is None and isinstance(loader.dataset, Mixture):
            raise InvalidArgumentError(
                "the losses of a mixture's datasets need the model's logits: call "
                "log_losses(self, batch, loss, logits=logits), or evaluate each "
                "dataset by a separate loader, evaluation={name: loader}"
            )
        means.add(batch["labels"], loss, logits)
        for key, (total, num_labels) in means.sums().items():
            module.log(
                f"val_{name}_{key}" if name else f"val_{key}",
                total / max(1, num_labels),
                # Lightning divides by the sum of batch sizes over ranks: whole numbers.
                batch_size=int(num_labels) * module.trainer.world_size,
                on_epoch=True,
                sync_dist=True,
                add_dataloader_idx=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, for the checkpoint."""
        if not isinstance(self._train, AnyLoader):
            return self._loaded
        return {**Leaf(self._train).state_dict(), SIZES: _sizes(self._train)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a checkpoint's position when training begins."""
        self._loaded = dict(state)


def _checked(loader: object, name: str) -> Any:
    if not isinstance(loader, AnyLoader):
        check_maker(loader, name)
    return loader


def _sizes(loader: AnyLoader) -> dict[str, int]:
    return {"batch_size": loader.batch_size, "world_size": loader.world_size}


def _made(loader: AnyLoader | MakeLoader, ranks: Ranks) -> AnyLoader:
    return loader if isinstance(loader, AnyLoader) else loader(*ranks)


def _expected_ranks(runner: Any) -> Ranks:
    mesh = getattr(runner.strategy, "device_mesh", None)
    if mesh is not None:
        return from_mesh(mesh, "data_parallel")
    return Ranks(runner.global_rank, runner.world_size)


def setup_loader(
    fabric: Any,
    loader: AnyLoader,
    *,
    start: Start = "epoch",
    grown: Grown | None = None,
) -> ResumableDelivery:
    """Return batches of an epoch on Fabric's device, for a loop of your own.

    Use it in place of ``fabric.setup_dataloaders``, which takes DataLoaders only.
    ``fabric.save(path, {"data": loader, ...})`` and ``fabric.load`` save and restore
    the position.

    Args:
        fabric: The ``lightning.Fabric``, launched.
        loader: With ``format="torch"`` and Fabric's data-parallel rank.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """
    check_has(
        fabric,
        ["to_device", "global_rank", "strategy"],
        "a lightning.Fabric: setup_loader(fabric, loader)",
    )
    batches = ResumableDelivery(
        loader,
        "Fabric",
        ranks=_expected_ranks(fabric),
        convert=fabric.to_device,
        start=start,
        grown=grown,
    )
    batches.begin_run()
    return batches
