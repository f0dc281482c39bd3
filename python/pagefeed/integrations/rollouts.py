"""Prompts of a queue for TRL's asynchronous trainer, which trains on late answers."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pagefeed.core._base import check_whole
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.saved_prompts import SavedPrompts
from pagefeed.prompts import PromptQueue
from pagefeed.run import Ticket

__all__ = ["PromptRollouts", "attach_rollouts"]

Rollout = Callable[[dict[str, Any], Ticket], Sequence[Any]]
"""Answers a row: returns the samples of its group, dataclasses such as TRL's
``RolloutSample``; none drops the prompt."""
IDLE = 0.02
"""Seconds between two looks for a prompt, while enough are in flight."""


class PromptRollouts:
    """A ``rollout_worker`` of TRL's ``AsyncGRPOTrainer`` that takes prompts of a queue.

    Its threads take tickets, and call ``rollout`` with each row. A ticket is committed
    at the end of the step that trains on the last sample of its group.

    Args:
        prompts: The queue. ``max_in_flight`` bounds the staleness, so that the trainer
            drops no sample for it.
        rollout: Answers a row.
        num_threads: Rows that are answered at once.

    Example:
        >>> worker = PromptRollouts(queue, rollout)  # doctest: +SKIP
        >>> trainer = AsyncGRPOTrainer(  # doctest: +SKIP
        ...     model, args=args, train_dataset=one_row, rollout_worker=worker
        ... )
        >>> attach(trainer, queue)  # doctest: +SKIP
    """

    def __init__(
        self, prompts: PromptQueue, rollout: Rollout, *, num_threads: int = 1
    ) -> None:
        self.prompts, self._rollout = prompts, rollout
        self._num_threads = check_whole(num_threads, "num_threads", least=1)
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        """Samples for the trainer."""
        self.metrics_queue: queue.Queue[Any] = queue.Queue()
        """Metrics for the trainer: none."""
        self._groups: dict[int, tuple[Ticket, int]] = {}
        self._numbers, self._version = count(), 0
        self._threads: list[threading.Thread] = []
        self._is_stopping = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Begin to answer prompts."""
        self._is_stopping.clear()
        for _ in range(self._num_threads):
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """End the threads, after the rows that they answer now."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def update_model_version(self, model_version: int) -> None:
        """Learn the version of the policy, which tickets then carry."""
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None:  # noqa: ARG002 - TRL's
        """Raise what a rollout raised."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._is_stopping.is_set():
                tickets = self.prompts.take(1, version=self._version)
                if not tickets:
                    time.sleep(IDLE)
                for ticket in tickets:
                    [row] = self.prompts.read([ticket])
                    self._deliver(ticket, self._rollout(row, ticket))
        except Exception as error:  # noqa: BLE001 - raised where the trainer waits
            self._failure = error

    def _deliver(self, ticket: Ticket, samples: Sequence[Any]) -> None:
        if not samples:
            self.prompts.drop([ticket])
            return
        number = next(self._numbers)
        self._groups[number] = ticket, len(samples)
        for sample in samples:
            facts = {"group_id": number, "model_version": ticket.version}
            self.rollout_buffer.put(replace(sample, **facts))

    def trained(self, groups: Counter[int]) -> list[Ticket]:
        """Count samples that were trained; return the tickets of whole groups."""
        done = []
        for number, samples in groups.items():
            ticket, left = self._groups[number]
            self._groups[number] = ticket, left - samples
            if left <= samples:
                done.append(self._groups.pop(number)[0])
        return done


class _Collated(set[int]):
    """Groups that were collated, batch by batch: the trainer collates ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: deque[Counter[int]] = deque()

    def update(self, *groups: Iterable[int]) -> None:
        """Add the groups of a batch, one for each sample."""
        self.ahead.append(Counter(number for each in groups for number in each))
        super().update(self.ahead[-1])


class RolloutCallback(SavedPrompts):
    """Commits the prompts of each step, and saves the queue in checkpoints."""

    def __init__(self, trainer: Any, worker: PromptRollouts) -> None:
        super().__init__(worker.prompts)
        self._worker = worker
        trainer._trained_groups = self._batches = _Collated()  # noqa: SLF001 - counts them

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Commit the groups of the step, and store the queue for a checkpoint."""
        del control
        groups: Counter[int] = Counter()
        for _number in range(args.gradient_accumulation_steps):
            groups += self._batches.ahead.popleft()
        self.queue.commit(self._worker.trained(groups))
        self.store(state)


def attach_rollouts(trainer: Any, prompts: PromptQueue) -> SavedPrompts | None:
    """Commit the prompts of an ``AsyncGRPOTrainer``; None on ranks without a worker.

    Raises:
        InvalidArgumentError: If its worker is not one of this queue.
    """
    worker = trainer.rollout_worker
    if worker is None:
        return None
    if not isinstance(worker, PromptRollouts) or worker.prompts is not prompts:
        raise InvalidArgumentError(
            "the trainer needs rollout_worker=PromptRollouts(queue, rollout) of this "
            "queue, from pagefeed.integrations.rollouts"
        )
    callback = RolloutCallback(trainer, worker)
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback
