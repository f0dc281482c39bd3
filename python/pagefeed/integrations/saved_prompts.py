"""A queue of prompts in the checkpoints of transformers' Trainer."""

from __future__ import annotations

from typing import Any

from pagefeed.core._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.delivery import KEY
from pagefeed.prompts import PromptQueue

_Callback: Any = require(
    "transformers", extra="transformers", purpose=__name__
).TrainerCallback

__all__ = ["SavedPrompts"]


class SavedPrompts(_Callback):
    """Saves and restores a queue with the Trainer's state."""

    def __init__(self, queue: PromptQueue) -> None:
        self.queue = queue
        """The queue."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin with the queue as it is, or continue where the checkpoint was saved."""
        del control
        if args.max_steps <= 0:
            raise InvalidArgumentError(
                "a queue of prompts does not know its steps: give the trainer max_steps"
            )
        if state.global_step:
            saved = state.stateful_callbacks.get(KEY, {}).get("attributes", {})
            if "prompts" not in saved:
                raise InvalidArgumentError(
                    "the checkpoint was saved without this queue of prompts: begin a "
                    "new run from the model alone"
                )
            self.queue.load_state_dict(saved["prompts"])

    def store(self, state: Any) -> None:
        """Store the queue where the Trainer's checkpoint takes it from."""
        saved = {"prompts": self.queue.state_dict()}
        state.stateful_callbacks[KEY] = {"args": {}, "attributes": saved}
