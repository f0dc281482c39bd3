"""transformers' Trainer, and TRL's trainers made of it: fed by a loader.

The position is part of every checkpoint of the Trainer, and a resume is a seek: what it
skips, it does not read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from pagefeed._base import check_flag
from pagefeed.errors import InvalidArgumentError, MissingDependencyError

try:  # First: it brings Accelerate, and its extra is the one to name.
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingDependencyError(
        "pagefeed.integrations.transformers needs transformers: pip install "
        "'pagefeed[transformers]'"
    ) from error

from pagefeed.integrations.accelerate import Skippable, expected_ranks
from pagefeed.integrations.checks import (
    check_fields,
    check_has,
    check_ranks_of,
    check_rows,
    check_torch,
)
from pagefeed.integrations.delivery import KEY, Convert
from pagefeed.integrations.dialects import flattened, in_records, in_rows
from pagefeed.loader import Loader, session_of
from pagefeed.metrics import WaitAlarm
from pagefeed.sequences import Documents

__all__ = ["LoaderCallback", "attach"]

WHO = "the Trainer"
PACKED = ("labels", "position_ids", "cu_seqlens", "max_seqlen")


class _Repeated(Skippable):
    """Yields each batch several times, as trainers want that reuse what they made."""

    times = 1

    def __len__(self) -> int:
        """Return the batches of a whole epoch, repeated ones counted."""
        return self.times * super().__len__()

    def __iter__(self) -> Iterator[Any]:
        """Go on; nothing moves before the first batch is asked for."""
        batches = super().__iter__()
        if self.times == 1:
            return batches
        return (again for batch in batches for again in [batch] * self.times)


class LoaderCallback(TrainerCallback):
    """Saves and restores the position with the Trainer's state; see :func:`attach`."""

    def __init__(self, steps: _Repeated, alarm: WaitAlarm | None) -> None:
        self._steps = steps
        self._alarm = alarm

    @property
    def loader(self) -> Loader:
        """The loader that feeds the Trainer."""
        return self._steps.loader

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Go on where the checkpoint was saved; prove that all ranks agree."""
        del control
        self._steps.num_behind = 0
        if state.global_step:
            self._go_on(args, state)
        self.loader.check_ranks()

    def _go_on(self, args: Any, state: Any) -> None:  # noqa: ANN401
        """Restore the position, or find it by the steps of a checkpoint without one."""
        loader, accumulated = self.loader, args.gradient_accumulation_steps
        updates = -(-len(self._steps) // accumulated)
        epoch, update = divmod(state.global_step, updates)
        saved = state.stateful_callbacks.get(KEY)
        if saved is None:
            loader.set_epoch(epoch)
            loader.seek(update * accumulated // self._steps.times)
        else:
            loader.load_state_dict(saved["attributes"]["state"])
            sizes = [loader.batch_size, loader.world_size]
            if loader.state_dict()["sizes"] not in (None, sizes) and args.max_steps < 0:
                warnings.warn(
                    "the checkpoint was saved with other sizes, and the Trainer counts "
                    "epochs in steps: it will end too early or late. Set max_steps",
                    stacklevel=2,
                )
        self._steps.num_behind = update * accumulated

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
        """Put the position where a checkpoint takes it from; stop after the epochs."""
        state.stateful_callbacks[KEY] = {
            "args": {},
            "attributes": {"state": self.loader.state_dict()},
        }
        num_epochs = session_of(self.loader).num_iterations
        if args.max_steps < 0 and num_epochs >= args.num_train_epochs:
            control.should_training_stop = True

    def on_log(
        self,
        args: Any,  # noqa: ANN401
        state: Any,  # noqa: ANN401
        control: Any,  # noqa: ANN401
        logs: dict[str, Any] | None = None,
        **_: Any,  # noqa: ANN401
    ) -> None:
        """Add the run's numbers to what is logged during training."""
        del args, state, control
        if logs is None or "loss" not in logs:
            return
        metrics = self.loader.metrics()
        logs.update(metrics)
        if self._alarm is not None:
            self._alarm.look(metrics)


def attach(
    trainer: Any,  # noqa: ANN401 - what it is of comes with the framework
    loader: Loader,
    *,
    flatten: bool | None = None,
    alarm: WaitAlarm | None = None,
) -> LoaderCallback:
    """Feed a ``Trainer`` from a loader, and make its checkpoints resume that.

    ``trainer.train(resume_from_checkpoint=...)`` goes on at the exact sample, with the
    Trainer's own counts of steps and epochs. What it logs carries the loader's numbers.

    With ``position_ids`` among the fields documents are kept apart in attention. A
    model with flash attention is then fed one row [1, batch_size * length] with the
    borders of its documents: of several rows it would ignore them and attend across.
    Others get [batch_size, length].

    Args:
        trainer: A ``transformers.Trainer``, or one of TRL's; these need a dataset to
            be made with, of one row or more, which is then not used.
        loader: With ``format="torch"``, the trainer's data-parallel rank, the fields
            ``labels`` and what else the model takes, and as batch size the
            ``per_device_train_batch_size``. Or with ``Documents(columns=...)``: then
            its rows go through the trainer's own ``data_collator``, as those of
            ``DPOTrainer``, ``RewardTrainer`` and ``GRPOTrainer``; for the latter its
            batch size is the number of prompts that a rank takes for an update.
        flatten: Whether to feed one row; by default if the attention needs it, or an
            ``SFTTrainer``, which counts the tokens of one.
        alarm: Told of the loader's numbers as they are logged.

    Raises:
        InvalidArgumentError: If trainer and loader do not fit.

    Example:
        >>> trainer = Trainer(model=model, args=args)  # doctest: +SKIP
        >>> attach(trainer, loader)  # doctest: +SKIP
        >>> trainer.train(resume_from_checkpoint=True)  # doctest: +SKIP
    """
    check_has(
        trainer,
        ["args", "accelerator", "callback_handler"],
        "a transformers.Trainer: attach(trainer, loader)",
    )
    args = trainer.args
    check_torch(loader, WHO)
    check_ranks_of(loader, expected_ranks(trainer.accelerator), WHO)
    if args.train_batch_size != args.per_device_train_batch_size:
        raise InvalidArgumentError(
            f"the Trainer would split batches over {args.n_gpu} devices of this process"
            " (DataParallel): launch a process for each device"
        )
    if args.ignore_data_skip or args.auto_find_batch_size:
        raise InvalidArgumentError(
            "leave ignore_data_skip and auto_find_batch_size False: skipping reads "
            "nothing here, and the Trainer's counts depend on it; the batch size is "
            "the Loader's"
        )
    if alarm is not None and not isinstance(alarm, WaitAlarm):
        raise InvalidArgumentError(f"alarm={alarm!r:.60} must be a WaitAlarm, or None")
    convert, times = _objective(trainer, loader, flatten)
    steps = _Repeated(loader, convert=convert, endless=True)
    steps.times = times
    callback = LoaderCallback(steps, alarm)
    trainer.get_train_dataloader = lambda: steps
    # In front of those that report what is logged.
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def _objective(
    trainer: Any,  # noqa: ANN401
    loader: Loader,
    flatten: bool | None,  # noqa: FBT001 - as it was given
) -> tuple[Convert, int]:
    """Return what makes of a batch what is trained on, and how often that is taken.

    Raises:
        InvalidArgumentError: If the batches do not fit.
    """
    args, sequences = trainer.args, loader.sequences
    is_of_rows = isinstance(sequences, Documents) and not sequences.makes_tokens
    if is_of_rows and hasattr(trainer, "num_generations"):
        return _generating(trainer, loader)
    check_rows(loader, args.per_device_train_batch_size, "per_device_train_batch_size")
    if is_of_rows:
        return lambda batch: trainer.data_collator(in_records(batch)), 1
    check_fields(loader, ["labels"], WHO)
    if flatten is not None:
        check_flag(flatten, "flatten")
    else:
        needs_one_row = _has_flash_attention(trainer.model) or _is_sft(trainer)
        flatten = _is_packed(loader) and needs_one_row
    if flatten:
        check_fields(loader, PACKED, "a padding-free batch")
    if _is_packed(loader) and "attention_mask" in loader.fields.names:
        raise InvalidArgumentError(
            "with an attention_mask the models look at that alone, and attend across "
            "documents in spite of position_ids: leave one of the two fields out"
        )
    return (flattened if flatten else in_rows), 1


def _generating(trainer: Any, loader: Loader) -> tuple[Convert, int]:  # noqa: ANN401
    """Return the same for a trainer that generates several answers to each prompt.

    It takes the prompts of several batches at once, each as often as it is answered,
    and again with each of these batches.

    Raises:
        InvalidArgumentError: If a checkpoint could be saved while answers are in use,
            or those to one prompt would lie on two ranks.
    """
    args, each = trainer.args, trainer.num_generations
    steps = args.steps_per_generation * trainer.num_iterations
    rows = args.per_device_train_batch_size * args.steps_per_generation
    if steps != args.gradient_accumulation_steps or rows % each:
        raise InvalidArgumentError(
            f"steps_per_generation={args.steps_per_generation} x num_iterations="
            f"{trainer.num_iterations} must be gradient_accumulation_steps="
            f"{args.gradient_accumulation_steps}, so that no checkpoint divides what "
            f"was generated at once; and num_generations={each} must divide "
            f"per_device_train_batch_size x steps_per_generation = {rows}, so that "
            "the answers to a prompt are on one rank"
        )
    prompts = "per_device_train_batch_size x steps_per_generation / num_generations"
    check_rows(loader, rows // each, prompts)

    def convert(batch: Mapping[str, Any]) -> Any:  # noqa: ANN401
        records = [row for row in in_records(batch) for _ in range(each)]
        return trainer.data_collator(records)

    return convert, steps


def _is_packed(loader: Loader) -> bool:
    return "position_ids" in loader.fields.names


def _is_sft(trainer: Any) -> bool:  # noqa: ANN401
    return any(kind.__name__ == "SFTTrainer" for kind in type(trainer).__mro__)


def _has_flash_attention(model: Any) -> bool:  # noqa: ANN401
    name = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return "flash" in str(name)
