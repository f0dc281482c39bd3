"""DeepSpeed: batches for an engine, and their position in its checkpoints.

Leave ``training_data`` out of ``deepspeed.initialize``: DeepSpeed's own loader shards
the data again and saves no position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagefeed.core._base import check_flag, require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.run import Grown
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import (
    check_fields,
    check_has,
    check_ranks_of,
    check_rows,
)
from pagefeed.integrations.delivery import KEY, ResumableDelivery, Start
from pagefeed.integrations.dialects import in_rows
from pagefeed.integrations.layers import Leak, check_layers
from pagefeed.integrations.learning import EVERY, make_learner
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import from_deepspeed
from pagefeed.mixing import Learner, Policy, Replacing

require("deepspeed", extra="deepspeed", purpose=__name__)

warn_of_newer("deepspeed")

__all__ = ["EngineData", "attach"]

WHO = "DeepSpeed"


class EngineData(ResumableDelivery):
    """The batches of an engine; made by :func:`attach`.

    Args:
        engine: What ``deepspeed.initialize`` returned.
        loader: The loader of the batches.
        settings: Settings of :class:`Delivery`.
    """

    learner: Learner | None = None
    """Adds up the losses of datasets, if the loader has ``dataset_ids``."""

    def __init__(self, engine: Any, loader: AnyLoader, **settings: Any) -> None:
        cutting = "its UlyssesSPDataLoaderAdapter cuts them"
        super().__init__(loader, WHO, cutting=cutting, **settings)
        self._engine = engine

    def save_checkpoint(
        self,
        folder: str,
        tag: str | None = None,
        client_state: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Save the engine's checkpoint with the position in its client state.

        Args:
            folder: Where DeepSpeed keeps checkpoints.
            tag: Name of this one.
            client_state: Further values to save.
            options: Passed on to ``engine.save_checkpoint``.
        """
        state = {**(client_state or {}), **self.state_dict()}
        return self._engine.save_checkpoint(folder, tag, client_state=state, **options)

    def load_checkpoint(
        self, folder: str, tag: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Load the engine's checkpoint, and continue at its position.

        Returns:
            What ``engine.load_checkpoint`` does: path and client state.

        Raises:
            StateMismatchError: If it holds no position, or one of another run.
        """
        path, client_state = self._engine.load_checkpoint(folder, tag, **options)
        if path is not None:
            self.load_state_dict({KEY: client_state.get(KEY)})
        return path, client_state


def attach(
    engine: Any,
    loader: AnyLoader,
    *,
    endless: bool = False,
    ulysses_adapter: bool = False,
    start: Start = "epoch",
    grown: Grown | None = None,
    policy: Policy | Replacing | None = None,
    every: int = EVERY,
    leak: Leak = "refused",
) -> EngineData:
    """Return the batches for an engine; the object also saves and loads checkpoints.

    Args:
        engine: What ``deepspeed.initialize`` returned.
        loader: With ``format="torch"``, the rank of
            ``pagefeed.launch.from_deepspeed()``, and as batch size the engine's
            ``train_micro_batch_size_per_gpu``.
        endless: Continue with the next epoch, as ``PipelineEngine.train_batch`` needs.
        ulysses_adapter: The batches go into ``UlyssesSPDataLoaderAdapter``; the loader
            then needs the rank of ``from_deepspeed(ulysses_adapter=True)``.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.
        policy: Changes the weights of a mixture by its datasets' losses, which the
            loop gives to ``data.learner``; see :class:`pagefeed.mixing.Learner`.
        every: Steps of the loader between two updates of the policy.
        leak: ``"allowed"`` trains models with layers that carry a state over the
            documents of a row: linear attention, convolutions, recurrent ones.

    Raises:
        InvalidArgumentError: If engine and loader do not fit.
    """
    check_has(
        engine,
        ["train_micro_batch_size_per_gpu", "training_dataloader", "module"],
        "a DeepSpeed engine, the first of what deepspeed.initialize returns: "
        "engine, *_ = deepspeed.initialize(...); attach(engine, loader)",
    )
    check_flag(ulysses_adapter, "ulysses_adapter")
    convert = in_rows if ulysses_adapter else None
    settings = {"endless": endless, "start": start, "grown": grown}
    data = EngineData(engine, loader, convert=convert, **settings)
    check_layers([engine.module], loader, leak, WHO)
    micro_batch = engine.train_micro_batch_size_per_gpu()
    check_rows(loader, micro_batch, "train_micro_batch_size_per_gpu")
    check_ranks_of(loader, from_deepspeed(ulysses_adapter=ulysses_adapter), WHO)
    if engine.training_dataloader is not None:
        raise InvalidArgumentError(
            "the engine already has a dataloader: leave training_data out of "
            "deepspeed.initialize"
        )
    if ulysses_adapter:
        check_fields(loader, ["labels", "position_ids"], "the adapter for Ulysses")
    data.accumulate(engine.gradient_accumulation_steps())
    data.learner = make_learner(loader, policy, every)
    data.begin_run()
    return data
