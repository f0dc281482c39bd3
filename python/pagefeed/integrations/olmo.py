"""OLMo-core: a loader as its ``DataLoaderBase``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pagefeed.core._base import require
from pagefeed.core.loader import Loader
from pagefeed.core.run import Grown
from pagefeed.integrations.checks import (
    check_counted,
    check_ends,
    check_fields,
    check_shapes,
)
from pagefeed.integrations.delivery import ResumableDelivery, Start
from pagefeed.integrations.dialects import olmo
from pagefeed.integrations.versions import warn_of_newer

_Base: Any = require(
    "olmo_core.data.data_loader", extra="olmo", purpose=__name__
).DataLoaderBase

warn_of_newer("ai2-olmo-core")

__all__ = ["PagefeedDataLoader"]

WHO = "OLMo-core"
LENGTHS = ("doc_lens", "max_doc_lens")
"""Fields with document lengths that OLMo-core's attention needs."""

OF_BORDERS = (*LENGTHS, "cu_seqlens", "max_seqlen")


class PagefeedDataLoader(_Base):
    """Feeds OLMo-core's trainer, which counts batches in tokens.

    With the fields ``loss_mask``, ``doc_lens`` and ``max_doc_lens``, loss and attention
    stay inside documents. A state loads at any number of ranks.

    Args:
        loader: With ``format="torch"`` and the data-parallel rank.
        work_dir: A local folder, as OLMo-core asks for.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.

    Raises:
        InvalidArgumentError: If the loader does not fit.

    Example:
        >>> data = PagefeedDataLoader(loader, work_dir="/tmp/olmo")  # doctest: +SKIP
        >>> trainer = TrainerConfig(...).build(module, data)  # doctest: +SKIP
    """

    def __init__(
        self,
        loader: Loader,
        *,
        work_dir: str | os.PathLike[str],
        start: Start = "epoch",
        grown: Grown | None = None,
    ) -> None:
        check_counted(loader, WHO)
        self._batches = ResumableDelivery(
            loader,
            WHO,
            cutting="it cuts them itself",
            convert=olmo,
            kind="run",
            endless=True,
            start=start,
            grown=grown,
        )
        check_ends(loader, None, WHO, "an end")
        check_fields(loader, ["loss_mask"], WHO)
        if any(name in loader.fields.names for name in OF_BORDERS):
            check_fields(loader, LENGTHS, WHO)
        check_shapes(loader, WHO)
        length: int = loader.sequences.length  # type: ignore[attr-defined]
        super().__init__(
            work_dir=work_dir,
            global_batch_size=loader.batch_size * loader.world_size * length,
            dp_world_size=loader.world_size,
            dp_rank=loader.rank,
        )
        self.loader = loader
        self._length = length

    @property
    def total_batches(self) -> int:
        """Steps of an epoch."""
        return len(self._batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, the same on all ranks."""
        return dict(self._batches.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at a position; at an epoch's end the epoch has no batches left."""
        self._batches.load_state_dict(state_dict)
        session = self.loader.view()
        left = session.run.at(session.position.saved).route.num_steps
        total = self.total_batches
        self.batches_processed = total - min(total, total if left is None else left)

    def reshuffle(self, epoch: int | None = None, **kwargs: Any) -> None:
        """Begin the trainer's epoch ``epoch``; the first one begins a run.

        The loader moves to its next epoch by itself. Its epoch numbers may differ from
        the trainer's.
        """
        del kwargs
        if epoch is not None:
            self._epoch = epoch
        is_resumed = self._batches.is_resumed
        if epoch in (None, 1) and not is_resumed:
            self.batches_processed = 0  # A run before may have been interrupted.
        if epoch in (None, 1) or is_resumed:
            self._batches.begin_run()

    def _iter_batches(self) -> Iterator[dict[str, Any]]:
        return islice(self._batches, self.total_batches - self.batches_processed)

    def get_mock_batch(self) -> dict[str, Any]:
        """Return a batch of one token throughout, without consuming data."""
        torch = require("torch", extra="olmo", purpose=WHO)
        shape = self.loader.batch_size, self._length
        ids = torch.full(shape, self.loader.padding, dtype=torch.int64)
        return {"input_ids": ids}

    def global_num_tokens_in_batch(self, batch: dict[str, Any]) -> int:
        """Return the tokens of a step on all ranks, padding included."""
        del batch
        return int(self.global_batch_size)
