"""Prompts of a queue for verl, as the dataset that its trainers make.

verl's trainers keep what they are given: when they save, it was trained, or is in the
checkpoint of their transfer queue. So a state counts as finished what was handed out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from pagefeed.core._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.prompts import PromptQueue
from pagefeed.run import Ticket

_Dataset: Any = require(
    "verl.utils.dataset.rl_dataset", extra="verl", purpose=__name__
).RLHFDataset

warn_of_newer("verl")

__all__ = ["QueueDataset"]

ENDLESS = 1 << 40
"""Rows of a queue that does not end, as verl counts them."""


class QueueDataset(_Dataset):
    """A dataset of verl whose training rows are prompts of a queue.

    Derive a class from it, and name it in ``data.custom_cls``, with
    ``data.shuffle=False`` and ``data.dataloader_num_workers=0``. The queue is then
    saved in ``data.pt`` of each checkpoint. Files for validation are read by verl.

    Example:
        >>> class Prompts(QueueDataset):  # doctest: +SKIP
        ...     def make_queue(self):
        ...         data = pf.parquet(list(self.data_files), column="prompt")
        ...         columns = ["prompt", "data_source", "reward_model", "extra_info"]
        ...         return pf.PromptQueue(data, columns=columns, max_in_flight=1024)
    """

    def make_queue(self) -> PromptQueue:
        """Return the queue of the training files; yours to write."""
        raise NotImplementedError(f"{type(self).__name__} needs make_queue()")

    def score(self, rewards: Sequence[float]) -> float | None:
        """Return a number in 0..1 for a curriculum from the rewards of a prompt.

        By default their mean; None, no score, if that is outside. It is called by
        trainers that tell their datasets of each batch, after the step.
        """
        mean = sum(rewards) / len(rewards)
        return mean if 0 <= mean <= 1 else None

    @property
    def _is_training(self) -> bool:
        config = self.config
        training, validation = map(_listed, (config.train_files, config.val_files))
        if training == validation:
            raise InvalidArgumentError(
                f"data.val_files={validation} are the training files, so that it is "
                "unknown which dataset takes prompts of the queue: give other files"
            )
        return _listed(self.original_data_files) == training

    def _download(self, use_origin_parquet: bool = False) -> None:  # noqa: FBT001, FBT002 - verl's
        if not self._is_training:
            super()._download(use_origin_parquet)

    def _read_files_and_tokenize(self) -> None:
        self.queue: PromptQueue | None = None
        """The queue; None for validation."""
        if not self._is_training:
            super()._read_files_and_tokenize()
            return
        config = self.config
        if config.get("shuffle", True) or config.get("dataloader_num_workers", 8):
            raise InvalidArgumentError(
                "a queue has its own order, and is in one process: set "
                "data.shuffle=False and data.dataloader_num_workers=0"
            )
        self.queue = self.make_queue()
        self._given: dict[tuple[str, int], Ticket] = {}
        self.dataframe: Any = {}

    def __len__(self) -> int:
        """Return the rows of all passes; a very large number if they do not end."""
        if self.queue is None:
            return len(self.dataframe)
        rows = sum(map(sum, self.queue.tiers().values()))
        return ENDLESS if self.queue.epochs is None else rows * self.queue.epochs

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Return the next prompts, as verl makes them of rows.

        Raises:
            InvalidArgumentError: If the queue has no more.
        """
        if self.queue is not None:
            self._take(self.queue, numbers)
        return [self[number] for number in numbers]

    def _take(self, queue: PromptQueue, numbers: Sequence[int]) -> None:
        lacking = queue.in_flight + len(numbers) - queue.max_in_flight
        self._finish(queue, [*self._given.values()][: max(0, lacking)])
        tickets = queue.take(len(numbers))
        if len(tickets) < len(numbers):
            queue.release(tickets)
            raise InvalidArgumentError(
                "the queue has no prompts left for a step: give it more epochs, or end "
                "before by trainer.total_training_steps"
            )
        self._given |= {ticket.key: ticket for ticket in tickets}
        rows = queue.read(tickets)
        for row, ticket in zip(rows, tickets, strict=True):
            told = {"ticket": list(ticket)}
            row["extra_info"] = (row.get("extra_info") or {}) | told
        self.dataframe = dict(zip(numbers, rows, strict=True))

    def _finish(
        self, queue: PromptQueue, tickets: Iterable[Ticket], scores: Any = None
    ) -> None:
        done = [self._given.pop(ticket.key) for ticket in tickets]
        queue.commit(done, scores)

    def on_batch_end(self, batch: Any) -> None:
        """Finish the prompts of a batch that was trained, with their scores."""
        if self.queue is None:
            return
        rewards: dict[Ticket, list[float]] = defaultdict(list)
        sums = batch.batch["token_level_scores"].sum(dim=-1).tolist()
        for info, reward in zip(
            batch.non_tensor_batch["extra_info"], sums, strict=True
        ):
            rewards[Ticket(*info["ticket"])].append(reward)
        for ticket, values in rewards.items():
            if self._given.get(ticket.key) == ticket:
                score = self.score(values)
                self._finish(self.queue, [ticket], None if score is None else [score])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the queue; what was handed out counts as finished."""
        if self.queue is None:
            return {}
        self._finish(self.queue, [*self._given.values()])
        return self.queue.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at a state of the queue."""
        if self.queue is not None:
            self.queue.load_state_dict(state)
            self._given.clear()


def _listed(files: Any) -> list[str]:
    return [files] if isinstance(files, str) else list(files)
