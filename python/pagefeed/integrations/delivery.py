"""Begin and continuation of a run by an adapter.

All adapters follow one rule. A run begins at the start of an epoch, as
``for batch in loader`` does: the epoch that was begun and not finished, otherwise the
next one. Only three things make it begin elsewhere: a checkpoint, a state that was
loaded into the loader, and ``start="here"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from pagefeed.core._base import check_choice, check_flag, logger, warn_user
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.core.run import Grown, check_grown
from pagefeed.errors import InvalidArgumentError, PositionWarning, StateMismatchError
from pagefeed.integrations.checks import (
    check_epochs,
    check_format,
    check_loader,
    check_no_context_parallel,
    check_ranks_of,
)
from pagefeed.launch import Ranks
from pagefeed.parsing import SENSELESS

__all__ = [
    "KEY",
    "Convert",
    "Delivery",
    "Leaf",
    "ResumableDelivery",
    "Start",
    "check_begins",
]

KEY = "pagefeed"
"""Name of the state in checkpoints."""

Convert = Callable[[Batch], Any]
"""Function that converts a batch to the format of a framework."""

Start = Literal["epoch", "here"]
"""Begin of a run without a checkpoint."""

Kind = Literal["loop", "run", "again"]
"""Kind of iteration; see :class:`Delivery`."""


NO_PARTS = "it cannot take parts; a loop of your own and Megatron can"
"""Way of a framework that does not cut sequences for context parallelism."""


class Leaf:
    """The state of a loader as one string under one name.

    Distributed checkpoints need the same keys on all ranks and at all times. They drop
    empty dicts, and refuse or forget keys that appear later. A saved state loads on any
    number of ranks.

    Args:
        loader: The loader whose state this is.
        grown: Argument of ``Loader.load_state_dict``.

    For example, with ``torch.distributed.checkpoint``::

        dcp.save({"model": model, "data": Leaf(loader)}, checkpoint_id=folder)
    """

    def __init__(self, loader: AnyLoader, *, grown: Grown | None = None) -> None:
        check_loader(loader, "Leaf")
        self.loader: Any = loader
        self.grown = check_grown(grown)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position, as JSON under one name."""
        return {KEY: json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration continue at ``state``; an empty one changes nothing.

        Raises:
            StateMismatchError: If it belongs to another run, or is not a state of a
                loader.
        """
        if not state:
            return
        try:
            loaded = json.loads(state[KEY])
        except SENSELESS:
            raise StateMismatchError(
                f"the checkpoint holds no state of pagefeed: expected {{{KEY!r}: "
                f"text}}, found {dict(state)!r:.80}"
            ) from None
        grown = {} if self.grown is None else {"grown": self.grown}
        self.loader.load_state_dict(loaded, **grown)


class Delivery:
    """The batches of a loader, as a framework wants to iterate over them.

    Three kinds of iteration:

    - ``"loop"`` is for frameworks whose user writes the loop. It iterates as the loader
      itself does.
    - ``"run"`` is for trainers that count steps and epochs and call ``iter`` more than
      once. Each iterator continues after the last batch, until :meth:`begin_run`.
    - ``"again"`` is for evaluations. Each iterator gives the same batches.

    Args:
        loader: The loader that is delivered.
        who: The framework's name in messages.
        ranks: The framework's data-parallel rank; None if it has none.
        convert: Called with each batch; what it returns is delivered.
        format: The format that the loader must have; None for either.
        kind: Kind of iteration.
        endless: Continue with the next epoch without end; the framework decides when to
            stop.
        start: Where a run begins: ``"here"`` is where the last one was left.
        gather: Gathers over all ranks; None for torch's process group.
        grown: Argument of ``Loader.load_state_dict``, for the states of checkpoints.
        cutting: The framework's way to cut sequences for context parallelism, for an
            error; None if it takes those that the loader cuts.

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """

    def __init__(
        self,
        loader: AnyLoader,
        who: str,
        *,
        ranks: Ranks | None = None,
        convert: Convert | None = None,
        format: Literal["torch", "numpy"] | None = "torch",  # noqa: A002 - the loader's
        kind: Kind = "loop",
        endless: bool = False,
        start: Start = "epoch",
        gather: Any = None,
        grown: Grown | None = None,
        cutting: str | None = NO_PARTS,
    ) -> None:
        # Not fields of a dataclass: Lightning copies those deeply, with all they hold.
        check_format(loader, format, who)
        if cutting is not None:
            check_no_context_parallel(loader, who, cutting)
        if ranks is not None:
            check_ranks_of(loader, ranks, who)
        check_epochs(loader, who)
        self.loader: Any = loader  # Adapters that need a Loader check for one.
        self.grown = check_grown(grown)
        self.convert = convert
        self._kind = kind
        self.endless = check_flag(endless, "endless")
        self._who = who
        self._start = check_choice(start, ("epoch", "here"), "start")
        self._gather = gather
        self._checkpoint: str | None = None
        self._is_logged = True
        self._session.is_adapted = True
        self._beginning = self._session.position.next

    @property
    def _session(self) -> Any:
        return self.loader.view()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Adapt the copied loader, too."""
        self.__dict__.update(state)
        self._session.is_adapted = True

    def begin_run(self, checkpoint: str | None = None) -> None:
        """Begin a run, and check that all ranks agree. Call it on all of them.

        Args:
            checkpoint: Name of the checkpoint that set the loader's position, if one
                did.
        """
        session = self._session
        if checkpoint is not None or session.position.is_loaded:
            self._checkpoint = checkpoint or self._checkpoint
        elif self._start == "here":
            session.resume(session.position.now)
        else:
            self._begin_anew()
        self.loader.check_ranks(self._gather)
        self._is_logged = False

    def _begin_anew(self) -> None:
        """Go to the beginning of an epoch, and reset a policy and its weights."""
        session, position = self._session, self._session.position.next
        if session.epoch > self.epoch:  # An endless iteration reached a later epoch.
            position = self.loader.view().run.beginning(session.epoch)
        if session.learning is not None:
            position = position.having(mixture=self._beginning.parts["mixture"])
        session.resume(position)
        if session.learning is not None:
            session.learning = None

    def accumulate(self, steps: int) -> None:
        """Learn how many steps' gradients the framework adds up, for a warning."""
        self._session.accumulated = steps

    def go_to(self, epoch: int, step: int) -> None:
        """Go to a step as a checkpoint without a position counts it, with a warning."""
        warn_user(
            "the checkpoint has no position of a loader: training continues as if all "
            f"its steps had been this loader's, at epoch {epoch}, step {step}. If they "
            "were of other data, begin a new run from the model alone",
            PositionWarning,
        )
        self.loader.set_epoch(epoch)
        self.loader.seek(step)

    @property
    def is_resumed(self) -> bool:
        """Whether a state was loaded and no iteration has begun since."""
        return self._session.position.is_loaded

    @property
    def epoch(self) -> int:
        """The epoch in which an iteration would begin."""
        return int(getattr(self._session.position.next, "epoch", self._session.epoch))

    @property
    def step(self) -> int:
        """The step of its epoch at which an iteration would begin."""
        return int(getattr(self._session.position.next, "step", 0))

    def __len__(self) -> int:
        """Return the steps of a whole epoch; never less after a resume."""
        loader = self.loader
        if not isinstance(loader, Loader):
            raise TypeError(
                f"{self._who} asks for the steps of an epoch, and a "
                f"{type(loader).__name__} does not know them: end by a number of steps"
            )
        try:
            return len(loader)
        except TypeError:  # Iterations never end.
            step = loader.batch_size * loader.world_size
            return max(1, loader.num_sequences // step)

    def steps_to(self, epochs: float) -> int:
        """Return the steps until ``epochs`` end, this one included."""
        left = self.loader.num_steps_left or len(self)
        return int(left + max(0, epochs - 1) * len(self))

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator; nothing moves before its first ``next``."""
        return _Batches(self)

    def iterate(self) -> Iterator[Batch]:
        """Begin an iteration of the loader; log where, if a run begins with it."""
        session = self._session
        if self._kind == "again":
            self.rewind()
        elif self._kind == "run" and not session.position.is_loaded:
            session.resume(session.position.now)
        if not self._is_logged:
            self._is_logged = True
            self._log()
        return session.iterate()

    def rewind(self) -> None:
        """Go back to where the loader was when the framework was given it."""
        self._session.resume(self._beginning)

    def _log(self) -> None:
        """Log where a run begins, on rank 0."""
        loader, session = self.loader, self._session
        if loader.rank:
            return
        position, steps, left = session.position.next, "no end", "all"
        if loader.num_steps_left is not None:
            route = loader.view().run.at(position).route
            steps, left = str(len(loader)), str(route.num_sequences)
        loaded = "a state that was loaded" if session.position.is_loaded else "none"
        logger.info(
            "%s begins at epoch %d, step %d of %s, %s sequences left, on %d rank(s), "
            "checkpoint: %s",
            *(self._who, self.epoch, position.step, steps, left, loader.world_size),
            self._checkpoint or loaded,
        )
        self._checkpoint = None


def check_begins(delivery: Delivery, who: str, settings: str) -> None:
    """Refuse a run that counts whole epochs, and has begun in the middle of one.

    Args:
        delivery: The batches of the run.
        who: Name of the framework, which counts epochs in steps.
        settings: Settings with which it ends at the end of an epoch.

    Raises:
        InvalidArgumentError: If it would end in the middle of another epoch.
    """
    if delivery.step:
        raise InvalidArgumentError(
            f"the run begins at step {delivery.step} of the {len(delivery)} of its "
            f"epoch, by a state that was loaded or by start='here', and {who} counts "
            f"whole epochs: it would end in the middle of one. Give it {settings}, "
            "which is where its last epoch ends"
        )


class ResumableDelivery(Delivery, Leaf):
    """A delivery whose state a framework saves and loads."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a checkpoint's position; an empty state changes nothing."""
        super().load_state_dict(state)
        if state:
            self._checkpoint, self._is_logged = f"{self._who}'s", False


class _Batches(Iterator[Any]):
    """An iterator that starts at its first ``next``, and survives an exception."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._batches: Iterator[Batch] | None = None

    def __next__(self) -> Any:
        delivery = self._delivery
        if self._batches is None:
            self._batches = delivery.iterate()
        try:
            batch = next(self._batches)
        except StopIteration:
            if not delivery.endless:
                raise
            self._batches = delivery.iterate()
            batch = next(self._batches)
        return batch if delivery.convert is None else delivery.convert(batch)
