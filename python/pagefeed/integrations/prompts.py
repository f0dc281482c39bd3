"""Prompts of a queue for trainers of TRL that generate answers in each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.accelerate import (
    SkipsFirst,
    accelerate,
    expected_ranks,
)
from pagefeed.integrations.checks import check_has
from pagefeed.integrations.rollouts import attach_rollouts
from pagefeed.integrations.saved_prompts import SavedPrompts
from pagefeed.prompts import PromptQueue
from pagefeed.run import Ticket

__all__ = ["PromptCallback", "attach_queue", "prompts_of_step"]


class PromptSteps(SkipsFirst):
    """The batches of a trainer that generates: each has the prompts of a step.

    Each rank has a replica of the queue. All take the prompts of all ranks, and each
    reads its own.

    Args:
        trainer: The trainer.
        queue: The queue.
        prompts: Prompts of a rank in a step.
        generations: Answers to each prompt.
        times: How often the trainer asks for the batch of a step.
    """

    num_behind = 0

    def __init__(
        self,
        trainer: Any,
        queue: PromptQueue,
        *,
        prompts: int,
        generations: int,
        times: int,
    ) -> None:
        self._trainer, self.queue = trainer, queue
        self._prompts, self._generations, self._times = prompts, generations, times
        self._rank, self._world_size = expected_ranks(trainer.accelerator)
        needed = prompts * self._world_size
        if queue.max_in_flight < needed:
            raise InvalidArgumentError(
                f"a step takes {needed} prompts, and the queue has max_in_flight="
                f"{queue.max_in_flight}: give it {needed} or more"
            )
        self.tickets: list[Ticket] = []
        """Those of the current step, of all ranks."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of each step; end if the prompts do not fill one."""
        size = self._prompts * self._world_size
        while True:
            version = self._trainer.state.global_step
            self.tickets = self.queue.take(size, version=version)
            if len(self.tickets) < size:
                self.queue.release(self.tickets)
                return
            own = self.tickets[self._prompts * self._rank :][: self._prompts]
            both = zip(self.queue.read(own), own, strict=True)
            records = [{**row, "ticket": ticket} for row, ticket in both]
            repeated = [row for row in records for _ in range(self._generations)]
            batch = self._trainer.data_collator(repeated)
            yield from [batch] * self._times


class PromptCallback(SavedPrompts):
    """Commits the prompts of each step, and saves the queue in checkpoints."""

    def __init__(self, steps: PromptSteps) -> None:
        super().__init__(steps.queue)
        self._steps = steps
        self._scores: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def score(self, tickets: Iterable[Ticket], scores: Iterable[float]) -> None:
        """Tell the curriculum how good answers were, from a reward function.

        Args:
            tickets: The column ``ticket``, with an entry for each answer.
            scores: Numbers in 0..1; a prompt gets their mean.
        """
        for ticket, score in zip(tickets, scores, strict=True):
            self._scores[ticket.key].append(float(score))

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin with the queue as it is, or continue where the checkpoint was saved."""
        super().on_train_begin(args, state, control)
        self._steps.num_behind = state.global_step * args.gradient_accumulation_steps
        self.queue.check_ranks()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Commit the prompts of the step, and store the queue for a checkpoint."""
        del args, control
        queue, tickets = self.queue, self._steps.tickets
        told = dict(self._scores)
        self._scores.clear()
        gathered = accelerate.utils.gather_object([told])
        means = {
            key: sum(scores) / len(scores)
            for each in gathered
            for key, scores in each.items()
        }
        scored = [ticket for ticket in tickets if ticket.key in means]
        queue.commit(scored, [means[ticket.key] for ticket in scored])
        queue.commit([ticket for ticket in tickets if ticket.key not in means])
        self.store(state)


def attach_queue(trainer: Any, queue: PromptQueue) -> SavedPrompts | None:
    """Feed a trainer of TRL that generates answers from a queue.

    Raises:
        InvalidArgumentError: If trainer and queue do not fit.
    """
    if hasattr(trainer, "rollout_worker"):
        return attach_rollouts(trainer, queue)
    check_has(trainer, ["num_generations"], "a trainer of TRL that generates answers")
    prompts, times = prompts_of_step(trainer)
    steps = PromptSteps(
        trainer,
        queue,
        prompts=prompts,
        generations=trainer.num_generations,
        times=times,
    )
    callback = PromptCallback(steps)
    trainer.get_train_dataloader = lambda: steps
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def prompts_of_step(trainer: Any) -> tuple[int, int]:
    """Return the prompts of a rank in an update, and how often they are asked for.

    A trainer that generates takes the prompts of several of its batches at once, and
    repeats each prompt for its answers. It takes them again with each of these batches.

    Raises:
        InvalidArgumentError: If a checkpoint could be saved while answers are in use,
            or those to one prompt would lie on two ranks.
    """
    args, generations = trainer.args, trainer.num_generations
    steps = args.steps_per_generation * trainer.num_iterations
    rows = args.per_device_train_batch_size * args.steps_per_generation
    if steps != args.gradient_accumulation_steps or rows % generations:
        raise InvalidArgumentError(
            f"steps_per_generation={args.steps_per_generation} x num_iterations="
            f"{trainer.num_iterations} must be gradient_accumulation_steps="
            f"{args.gradient_accumulation_steps}, so that no checkpoint divides what "
            f"was generated at once; and num_generations={generations} must divide "
            f"per_device_train_batch_size x steps_per_generation = {rows}, so that "
            "the answers to a prompt are on one rank"
        )
    return rows // generations, steps
