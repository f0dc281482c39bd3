"""torchtitan: a loader as its dataloader, resumable at any data-parallel degree.

torchtitan's own dataloaders refuse a checkpoint of another degree. Set it in the
function that returns the ``Trainer.Config``::

    config.dataloader = PagefeedDataLoader.Config(make=make_loader)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_args

from pagefeed.core._base import check_choice, check_positive, require
from pagefeed.core.batches import Batch
from pagefeed.core.run import Grown, check_grown
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import (
    MakeLoader,
    check_fields,
    check_maker,
    check_rows,
    check_shapes,
)
from pagefeed.integrations.delivery import ResumableDelivery, Start
from pagefeed.integrations.dialects import shifted_pair
from pagefeed.integrations.learning import EVERY, WatchedLoss, make_learner
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import Ranks
from pagefeed.mixing import Learner, Policy, Replacing

WHO = "torchtitan"

require("torchtitan", extra="torchtitan", purpose=__name__)
try:
    from torchtitan.components.dataloader import BaseDataLoader
except ImportError:  # Since the change of August 2026.
    from torchtitan.components.data.loader import BaseDataLoader
tyro = require("tyro", extra="torchtitan", purpose=WHO)

warn_of_newer("torchtitan")

__all__ = ["PagefeedDataLoader"]


class PagefeedDataLoader(BaseDataLoader):  # type: ignore[misc, unused-ignore]
    """Feeds torchtitan's trainer; made by its ``Config``.

    The loader needs ``format="torch"``,
    ``Fields(names=("input_ids", "labels", "position_ids"), shifted=True)``, and should
    never end: ``epochs=None``. torchtitan builds its masks from the positions, which
    begin at 0 in every document.

    Args:
        config: Its settings.
        dp_rank: Rank in the mesh ``batch``, as the trainer says; peers in tensor,
            context and pipeline parallelism have the same.
        dp_world_size: Size of that mesh.
        others: Further arguments, which depend on torchtitan's release. With
            ``local_batch_size`` and ``seq_len``, batches have the shape
            [batch_size, length], otherwise [tokens].

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc, unused-ignore]
        """Settings of the data."""

        make: Annotated[MakeLoader | None, tyro.conf.Suppress] = None
        """Function that returns the loader of ``rank`` and ``world_size``."""
        start: Start = "epoch"
        """``"here"`` to begin where an iteration was left, not at an epoch."""
        grown: Grown | None = None
        """When files added since a checkpoint are used, see ``Loader.load_state_dict``.
        """
        policy: Annotated[Policy | Replacing | None, tyro.conf.Suppress] = None
        """Changes the weights of a mixture by its datasets' losses; see
        :meth:`PagefeedDataLoader.learn`."""
        every: int = EVERY
        """Steps of the loader between two updates of the policy."""

        def __post_init__(self) -> None:
            """Check the settings; ``make`` may be set later.

            Raises:
                InvalidArgumentError: If a setting cannot be right.
            """
            if self.make is not None:
                check_maker(self.make, "make")
            check_choice(self.start, get_args(Start), "start")
            check_grown(self.grown)
            Learner.check_policy(self.policy)
            check_positive(self.every, "every")

    def __init__(
        self, config: Config, *, dp_rank: int, dp_world_size: int, **others: Any
    ) -> None:
        loader = check_maker(config.make, "make")(dp_rank, dp_world_size)
        ranks = Ranks(dp_rank, dp_world_size)
        self._batches = batches = ResumableDelivery(
            loader,
            WHO,
            cutting="it cuts them itself",
            ranks=ranks,
            endless=True,
            start=config.start,
            grown=config.grown,
        )
        check_fields(loader, ["labels"], WHO)
        if not loader.fields.shifted:
            raise InvalidArgumentError(
                "torchtitan predicts labels[i] from input[i]: give the Loader "
                "fields=Fields(names=..., shifted=True)"
            )
        in_rows = "local_batch_size" in others
        check_shapes(loader, WHO)
        length = loader.sequences.length  # type: ignore[attr-defined]
        if in_rows:
            check_rows(loader, others["local_batch_size"], "local_batch_size")
            expected = others["seq_len"]
        else:
            expected = others.get("num_tokens_per_batch", loader.batch_size * length)
            length *= loader.batch_size
        if length != expected:
            raise InvalidArgumentError(
                f"torchtitan's batches have {expected} tokens a row, the Loader's "
                f"{length}: set both to the same length"
            )
        self.loader = loader
        self.learner = make_learner(loader, config.policy, config.every)
        """Adds up the losses of datasets, if the loader has ``dataset_ids``."""
        self._watched: WatchedLoss | None = None
        self._pair = partial(shifted_pair, rows=in_rows)
        batches.convert = self._converted

    def _converted(self, batch: Batch) -> Any:
        if self._watched is not None:
            self._watched.ahead.append(batch["dataset_ids"])
        return self._pair(batch)

    def learn(self, trainer: Any) -> None:
        """Log ``loss/DATASET``, and let the policy change the weights.

        Call it after the trainer is built and before ``trainer.train()``. It wraps the
        trainer's loss function, which must take logits, the ``step`` of its optimizers,
        and its metrics.

        Args:
            trainer: A ``torchtitan.trainer.Trainer`` with this dataloader.

        Raises:
            InvalidArgumentError: If the loader has no mixture or no ``dataset_ids``, or
                the loss function makes the logits itself.
        """
        learner = self.learner
        if learner is None:
            raise InvalidArgumentError(
                "losses of datasets need a mixture and the field dataset_ids: give the "
                "Loader fields=Fields(names=(..., 'dataset_ids'), shifted=True)"
            )
        trainer.loss_fn = self._watched = watched = WatchedLoss(
            trainer.loss_fn, learner
        )
        step, log = trainer.optimizers.step, trainer.metrics_processor.log

        def stepped(*args: Any, **settings: Any) -> Any:
            done = step(*args, **settings)
            watched.ahead.clear()  # For stages of a pipeline without a loss.
            learner.step()
            return done

        def logged(*args: Any, **settings: Any) -> Any:
            extra = settings.pop("extra_metrics", None) or {}
            metrics = {**extra, **learner.means()}
            return log(*args, extra_metrics=metrics, **settings)

        trainer.optimizers.step = stepped
        trainer.metrics_processor.log = logged

    def __iter__(self) -> Iterator[Any]:
        """Begin a run of batches without end."""
        self._batches.begin_run()
        return iter(self._batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the position as one string, the same on all ranks."""
        return dict(self._batches.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at a position; an empty state changes nothing."""
        self._batches.load_state_dict(state_dict)

    def close(self) -> None:
        """Do nothing: the end of the process closes everything."""
