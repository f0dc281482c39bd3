"""transformers' Trainer, and TRL's trainers: batches, checkpoints, exact evaluation.

Every checkpoint of the Trainer contains the position. A resume is a seek and reads
nothing that was consumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pagefeed.core._base import check_flag, warn_user
from pagefeed.core.run import Grown
from pagefeed.errors import (
    InvalidArgumentError,
    LossWarning,
    MissingDependencyError,
)

try:  # Before Accelerate, which it brings, so that errors name this extra.
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingDependencyError(
        "pagefeed.integrations.transformers needs transformers: pip install "
        "'pagefeed[transformers]'"
    ) from error

from pagefeed.core.loader import Loader
from pagefeed.documents import in_records
from pagefeed.integrations.accelerate import PreparedLoader, Skippable, expected_ranks
from pagefeed.integrations.checks import (
    check_counted,
    check_ends,
    check_fields,
    check_has,
    check_rows,
    check_sizes,
)
from pagefeed.integrations.delivery import KEY, Convert, Start, check_begins
from pagefeed.integrations.dialects import flattened, in_rows
from pagefeed.integrations.evaluation import TokenMeans, held_out, measured
from pagefeed.integrations.layers import Leak, check_layers
from pagefeed.integrations.learning import EVERY, make_learner, watch_losses
from pagefeed.integrations.prompts import (
    attach_queue,
    prompts_of_step,
)
from pagefeed.integrations.settings import warn_of_settings
from pagefeed.integrations.spikes import SpikeRule, Spikes
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.mixing import Learner, Policy, Replacing
from pagefeed.prompts import PromptQueue

warn_of_newer("transformers")

__all__ = ["LoaderCallback", "attach"]

WHO = "the Trainer"
PAIRS = ("chosen_ids", "rejected_ids")
COLLATED = {
    ("trl.trainer.dpo_trainer", "DataCollatorForPreference"): ("prompt_ids", *PAIRS),
    ("trl.trainer.reward_trainer", "DataCollatorForPreference"): PAIRS,
}
"""Columns that collators take, which end in a KeyError without them."""
PACKED = ("labels", "position_ids", "cu_seqlens", "max_seqlen")


class _Repeated(Skippable):
    """Yields each batch several times, for trainers that reuse generated answers."""

    times = 1

    def __len__(self) -> int:
        """Return the batches of a whole epoch, repeated ones counted."""
        return self.times * super().__len__()

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator; nothing moves before its first ``next``."""
        batches = super().__iter__()
        if self.times == 1:
            return batches
        return (again for batch in batches for again in [batch] * self.times)


class LoaderCallback(TrainerCallback):
    """Saves and restores the position with the Trainer's state; see :func:`attach`."""

    def __init__(self, steps: _Repeated, learner: Learner | None) -> None:
        self._steps = steps
        self.learner = learner
        """Adds up the losses of datasets, if the loader has ``dataset_ids``."""
        self._run: dict[str, Any] = {}
        """The epoch in which the run began, and its sizes; none if they changed."""

    @property
    def loader(self) -> Loader:
        """The loader that feeds the Trainer."""
        loader: Loader = self._steps.loader
        return loader

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin a run, or continue where the checkpoint was saved."""
        del control
        loader, accumulated = self.loader, args.gradient_accumulation_steps
        check_ends(loader, args.max_steps, WHO, "max_steps")
        self._steps.accumulate(-(-accumulated // self._steps.times))
        self._steps.num_behind = 0
        self._run["sizes"] = {
            "batch_size": loader.batch_size,
            "world_size": loader.world_size,
            "gradient_accumulation_steps": accumulated,
        }
        if not state.global_step:
            self._steps.begin_run()
            if args.max_steps <= 0:
                left = self._steps.times * self._steps.steps_to(args.num_train_epochs)
                settings = f"max_steps={-(-left // accumulated)}"
                check_begins(self._steps, WHO, settings)
            self._run["first_epoch"] = self._steps.epoch
            return
        updates = -(-len(self._steps) // accumulated)
        epoch, update = divmod(state.global_step, updates)
        self._steps.num_behind = update * accumulated
        saved = state.stateful_callbacks.get(KEY)
        if saved is None:
            self._steps.go_to(epoch, self._steps.num_behind // self._steps.times)
            self._run["first_epoch"] = 0
        else:
            saved_state = saved["attributes"]["state"]
            loader.load_state_dict(saved_state, grown=self._steps.grown)
            sizes, self._run = self._run["sizes"], saved["attributes"]["run"]
            if args.max_steps <= 0:
                epochs = args.num_train_epochs + self._run["first_epoch"] - loader.epoch
                left = self._steps.times * self._steps.steps_to(epochs)
                end = state.global_step - (-left // accumulated)
                check_sizes(self._run["sizes"], sizes, WHO, f"max_steps={end}")
            elif self._run["sizes"] != sizes:
                self._run["sizes"] = {}
        self._steps.begin_run(f"the Trainer's, of step {state.global_step}")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Store the position where the Trainer's checkpoint takes it from."""
        del args, control
        if self.learner is not None:
            self.learner.step()
        saved = {"state": self.loader.state_dict(), "run": self._run}
        state.stateful_callbacks[KEY] = {"args": {}, "attributes": saved}

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Add the metrics of the run to the log of the training."""
        del args, control
        if logs is None or "loss" not in logs:
            return
        metrics = self.loader.metrics()
        if self.learner is not None:
            metrics |= self.learner.means()
        logs.update(metrics)
        state.log_history[-1].update(metrics)


class _Evaluations:
    """Evaluates loaders for the Trainer, and leaves other datasets to its own loop."""

    def __init__(
        self, trainer: Any, train: Loader, convert: Convert, fields: Iterable[str]
    ) -> None:
        self._trainer, self._train = trainer, train
        self._convert, self._fields = convert, fields
        self._prepared: dict[int, PreparedLoader] = {}
        self._dataloader = trainer.get_eval_dataloader
        self._loop = trainer.evaluation_loop
        trainer.get_eval_dataloader = self.dataloader
        trainer.evaluation_loop = self.loop

    def dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the batches of a loader.

        For other datasets, the Trainer's DataLoader.
        """
        wanted, sets = eval_dataset, self._trainer.eval_dataset
        if wanted is None or isinstance(wanted, str):
            wanted = sets if wanted is None else sets[wanted]
        wanted = getattr(wanted, "loader", wanted)  # The result of as_dataset.
        if not isinstance(wanted, Loader):
            return self._dataloader(eval_dataset)
        if id(wanted) not in self._prepared:
            held_out(wanted, self._train)
            check_fields(wanted, self._fields, "the evaluation")
            prepared = PreparedLoader(
                self._trainer.accelerator, wanted, convert=self._convert, kind="again"
            )
            wanted.check_ranks()
            self._prepared[id(wanted)] = prepared
        return self._prepared[id(wanted)]

    def loop(self, dataloader: Any, *args: Any, **settings: Any) -> Any:
        """Evaluate with means over tokens, instead of means over batches."""
        if not isinstance(dataloader, PreparedLoader):
            return self._loop(dataloader, *args, **settings)
        trainer, means = self._trainer, TokenMeans(dataloader.loader)
        before = trainer.compute_loss
        trainer.compute_loss = partial(measured, before, means)
        # Until the evaluation ends, rows are gathered as without prepared loaders.
        trainer.gather_function = partial(
            trainer.accelerator.gather_for_metrics,
            use_gather_object=trainer.args.eval_use_gather_object,
        )
        try:
            output = self._loop(dataloader, *args, **settings)
        finally:
            trainer.compute_loss = before
        prefix = settings.get("metric_key_prefix", "eval")
        losses = means.result()
        if not losses:
            warn_user(
                f"there is no {prefix}_loss: the model was given no labels. "
                "Where the model's forward does not name them, say so: "
                "TrainingArguments(label_names=['labels'])",
                LossWarning,
            )
        named = {f"{prefix}_{name}": loss for name, loss in losses.items()}
        output.metrics.update(named)
        return output


def attach(
    trainer: Any,
    loader: Loader | PromptQueue,
    *,
    evaluation: Loader | Mapping[str, Loader] | None = None,
    start: Start = "epoch",
    flatten: bool | None = None,
    grown: Grown | None = None,
    policy: Policy | Replacing | None = None,
    every: int = EVERY,
    leak: Leak = "refused",
    on_spike: SpikeRule | Literal[True] | None = None,
) -> Any:
    """Feed a ``Trainer`` from a loader; its checkpoints contain the loader's position.

    Every ``trainer.train()`` is a whole run, from the beginning of an epoch.
    ``trainer.train(resume_from_checkpoint=...)`` continues at the exact sample, with
    the Trainer's own counts of steps and epochs. Its logs contain the loader's numbers.

    With the field ``position_ids`` attention stays inside documents. A model with flash
    attention then gets one row [1, batch_size * length] with the borders of documents,
    since it would ignore them in several rows. Other models get [batch_size, length].

    Args:
        trainer: A ``transformers.Trainer``, or one of TRL's. TRL's must be made with a
            dataset; one row will do, it is not used.
        loader: A loader with ``format="torch"``, the trainer's data-parallel rank,
            ``per_device_train_batch_size`` as batch size, the field ``labels`` and the
            others that the model takes, and ``epochs=1`` (or None, with ``max_steps``).
            If it has ``Documents(columns=...)``, its rows go through the trainer's
            own ``data_collator``: for ``DPOTrainer``, ``RewardTrainer``, a collator of
            yours, and ``GRPOTrainer``, where the batch size is the number of prompts
            that a rank takes for an update. Or a :class:`PromptQueue` for trainers that
            generate, such as ``GRPOTrainer``, with ``max_steps``: a step's prompts are
            committed at its end, the rows have the column ``ticket``, and no further
            argument is taken.
        evaluation: A loader of held-out data, or several by name, in place of
            ``eval_dataset`` (which may also be what ``as_dataset`` returned). Every
            ``eval_loss`` is the mean over all their tokens, on any number of ranks. A
            mixture gives ``eval_loss/DATASET`` as well.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.
        flatten: Whether to join the rows of a batch into one. By default True for flash
            attention, and for ``SFTTrainer``, which counts the tokens of one row.
        grown: When to deliver files that were added since the checkpoint, see
            ``Loader.load_state_dict``.
        policy: Changes the weights of a mixture by its datasets' losses, see
            docs/explanation/learning-mixtures.md. With the fields ``labels`` and
            ``dataset_ids`` the logs contain ``loss/DATASET``, also without a policy.
        every: Steps of the loader between two updates of the policy.
        leak: ``"allowed"`` trains models with layers that carry a state over the
            documents of a row: linear attention, convolutions, recurrent ones.
        on_spike: True writes a table of a batch's documents and their losses where its
            mean loss is far above those before, as ``spike-STEP-rank-RANK.csv`` next to
            the checkpoints, and warns. Or a function of a mean loss and those of up to
            32 batches before on this rank, which says whether it is a spike.

    Returns:
        A :class:`LoaderCallback`; for a queue a callback with ``score``, or None on
        ranks without prompts.

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
    if isinstance(loader, PromptQueue):
        return attach_queue(trainer, loader)
    check_counted(loader, WHO)
    steps = _Repeated(
        loader,
        WHO,
        cutting="Accelerate cuts them itself, by ParallelismConfig(cp_size=...)",
        ranks=expected_ranks(trainer.accelerator),
        kind="run",
        endless=True,
        start=start,
        grown=grown,
    )
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
    steps.convert, steps.times = _objective(trainer, loader, flatten)
    warn_of_settings(args)
    joined = steps.convert is flattened
    check_layers([trainer.model], loader, leak, WHO, joined=joined)
    learner = make_learner(loader, policy, every)
    spikes = Spikes(loader, args.output_dir, on_spike) if on_spike is not None else None
    callback = LoaderCallback(steps, learner)
    trainer.get_train_dataloader = lambda: steps
    if evaluation is not None:
        named = held_out(evaluation, loader)
        trainer.eval_dataset = named if isinstance(evaluation, Mapping) else evaluation
    needed = PACKED if steps.convert is flattened else ["labels"]
    evaluations = _Evaluations(trainer, loader, steps.convert, needed)
    sets = trainer.eval_dataset
    for evaluation_set in sets.values() if isinstance(sets, dict) else [sets]:
        if isinstance(getattr(evaluation_set, "loader", evaluation_set), Loader):
            evaluations.dataloader(evaluation_set)
    if learner is not None or spikes is not None:
        watch_losses(trainer, steps, learner, spikes)
    trainer.gather_function = trainer.accelerator.gather_for_metrics
    # In front of those that report what is logged.
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def _objective(
    trainer: Any,
    loader: Loader,
    flatten: bool | None,  # noqa: FBT001 - as it was given
) -> tuple[Convert, int]:
    """Return a function that converts batches, and how often each batch is used.

    Raises:
        InvalidArgumentError: If the batches do not fit.
    """
    args, sequences = trainer.args, loader.sequences
    is_of_rows = sequences.delivers == "rows"
    if is_of_rows and hasattr(trainer, "num_generations"):
        return _generating(trainer, loader)
    check_rows(loader, args.per_device_train_batch_size, "per_device_train_batch_size")
    if is_of_rows:
        _check_columns(trainer, loader)
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


def _generating(trainer: Any, loader: Loader) -> tuple[Convert, int]:
    """Return the converter and use count for a trainer that generates answers."""
    count, steps = prompts_of_step(trainer)
    prompts = "per_device_train_batch_size x steps_per_generation / num_generations"
    check_rows(loader, count, prompts)

    def convert(batch: Mapping[str, Any]) -> Any:
        records = in_records(batch)
        repeated = [row for row in records for _ in range(trainer.num_generations)]
        return trainer.data_collator(repeated)

    return convert, steps


def _check_columns(trainer: Any, loader: Loader) -> None:
    """Refuse rows without the columns that a collator of TRL takes.

    Raises:
        InvalidArgumentError: Naming those that are missing, and what to do.
    """
    kind = type(trainer.data_collator)
    needed = COLLATED.get((kind.__module__, kind.__name__), ())
    have = getattr(loader.sequences, "columns", None) or needed
    missing = [name for name in needed if name not in have]
    if missing and loader.view().settings.transform is None:
        raise InvalidArgumentError(
            f"{kind.__name__} of {type(trainer).__name__} takes rows with "
            f"{', '.join(missing)}, and those of the loader have {', '.join(have)}: "
            "give Documents(columns=[...]) columns of ids, which a map of the texts "
            "writes once, such as that of TRL's trainer, "
            "trainer.train_dataset.to_parquet(...); or make them by transform="
        )


def _is_packed(loader: Loader) -> bool:
    return "position_ids" in loader.fields.names


def _is_sft(trainer: Any) -> bool:
    return any(kind.__name__ == "SFTTrainer" for kind in type(trainer).__mro__)


def _has_flash_attention(model: Any) -> bool:
    name = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return "flash" in str(name)
