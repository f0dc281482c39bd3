"""How a loader is delivered to a framework: where a run begins, and how it goes on.

One rule for all of them. A run begins at the beginning of an epoch, as ``for batch in
loader`` does: of that which was begun and not finished, or else of the next. Elsewhere
it begins only by a checkpoint, a state that was loaded into the loader, or
``start="here"``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from pagefeed._base import check_choice
from pagefeed.batches import Batch
from pagefeed.errors import StateMismatchError
from pagefeed.integrations.checks import (
    check_epochs,
    check_format,
    check_loader,
    check_ranks_of,
)
from pagefeed.launch import Ranks
from pagefeed.loader import Loader, loader_session_of, session_of

__all__ = ["KEY", "Convert", "Delivery", "Leaf", "Start", "steps_per_epoch"]

KEY = "pagefeed"
"""Name of the state in checkpoints."""

Convert = Callable[[Batch], Any]
"""From a batch of a loader to that of a framework."""

Start = Literal["epoch", "here"]
"""Where a run begins that no state places."""

Kind = Literal["loop", "run", "again"]
"""What a framework gets; see :class:`Delivery`."""

_logger = logging.getLogger("pagefeed")


def steps_per_epoch(loader: Loader) -> int:
    """Return the steps of an iteration, or of an epoch if it never ends."""
    try:
        return len(loader)
    except TypeError:
        step = loader.batch_size * loader.world_size
        return max(1, loader.num_sequences // step)


class Delivery:
    """Batches of a loader for a framework, which it fits.

    A framework that leaves the loop to its user gets a ``"loop"``: what a loader's own
    iterators are. One that counts steps and epochs itself, and probes iterators, gets a
    ``"run"``: each iterator goes on where the last batch was taken, until
    :meth:`begin_run` begins another. An evaluation gets the same batches ``"again"``.

    Args:
        loader: Where they come from.
        who: The framework, as it is called in messages.
        ranks: The data-parallel rank as which it trains; None if it has none.
        convert: Makes each what the framework wants.
        format: What it moves to its devices; None for either.
        kind: What it gets.
        endless: Go on with the next epoch; the framework stops.
        start: Where a run begins: ``"here"`` is where the last one was left.
        gather: Gathers over all ranks; None for torch's process group.

    Raises:
        InvalidArgumentError: If the loader does not fit.
    """

    def __init__(
        self,
        loader: Loader,
        who: str,
        *,
        ranks: Ranks | None = None,
        convert: Convert | None = None,
        format: Literal["torch", "numpy"] | None = "torch",  # noqa: A002 - the loader's
        kind: Kind = "loop",
        endless: bool = False,
        start: Start = "epoch",
        gather: Any = None,  # noqa: ANN401 - of any framework
    ) -> None:
        check_format(loader, format, who)
        if ranks is not None:
            check_ranks_of(loader, ranks, who)
        check_epochs(loader, who)
        self.loader = loader
        self.convert = convert
        self._kind = kind
        self.endless = endless
        self._who = who
        self._start = check_choice(start, ("epoch", "here"), "start")
        self._gather = gather
        self._checkpoint: str | None = None
        self._is_told = True
        session = loader_session_of(loader)
        session.is_adapted = True
        self._beginning = session.following

    def begin_run(self, checkpoint: str | None = None) -> None:
        """Begin a run, and prove that all ranks agree; on all of them.

        Args:
            checkpoint: What the loader was placed by, if it was.
        """
        session = loader_session_of(self.loader)
        if checkpoint is None and session.loaded is None:
            is_here = self._start == "here"
            session.resume(session.state if is_here else session.following)
        self.loader.check_ranks(self._gather)
        self._checkpoint, self._is_told = checkpoint, False

    @property
    def epoch(self) -> int:
        """The epoch in which an iteration would begin."""
        session = loader_session_of(self.loader)
        return int(getattr(session.following, "epoch", session.epoch))

    def __len__(self) -> int:
        """Return the steps of a whole epoch; never less after a resume."""
        return steps_per_epoch(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """Iterate; nothing moves before the first batch is asked for."""
        return _Batches(self)

    def iterate(self) -> Iterator[Batch]:
        """Begin an iteration of the loader, and log where if a run begins with it."""
        session = loader_session_of(self.loader)
        if self._kind == "again":
            self.rewind()
        elif self._kind == "run" and session.loaded is None:
            session.resume(session.state)
        if not self._is_told:
            self._is_told = True
            self._tell()
        return session.iterate()

    def rewind(self) -> None:
        """Go back to where the loader was when a framework was given it."""
        loader_session_of(self.loader).resume(self._beginning)

    def _tell(self) -> None:
        """Log the beginning of a run, once for all ranks."""
        loader, session = self.loader, loader_session_of(self.loader)
        if loader.rank:
            return
        place, steps, left = session.following, "no end", "all"
        if loader.num_steps_left is not None:
            route = session_of(loader).run.at(place).route
            steps, left = str(len(loader)), str(route.num_sequences)
        checkpoint = self._checkpoint
        if checkpoint is None and session.loaded is not None:
            checkpoint = "a state that was loaded"
        _logger.info(
            "%s begins at epoch %d, step %d of %s, %s sequences left, on %d rank(s), "
            "checkpoint: %s",
            *(self._who, self.epoch, place.step, steps, left, loader.world_size),
            checkpoint or "none",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position."""
        self.loader.load_state_dict(state)
        self._checkpoint, self._is_told = f"{self._who}'s", False


class _Batches(Iterator[Any]):
    """Begins with the first ``next``, and outlives exceptions as a loader's does."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._batches: Iterator[Batch] | None = None

    def __next__(self) -> Any:  # noqa: ANN401 - whatever the framework wants
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


class Leaf:
    """The state of a loader as one string under one name.

    Distributed checkpoints want the same names on all ranks and at all times, drop
    empty dicts, and refuse or forget keys that come later. Any number of ranks reads
    what any other wrote.

    Args:
        loader: Whose state it is.

    For example, with ``torch.distributed.checkpoint``::

        dcp.save({"model": model, "data": Leaf(loader)}, checkpoint_id=folder)
    """

    def __init__(self, loader: Loader) -> None:
        check_loader(loader, "Leaf")
        self.loader = loader

    def state_dict(self) -> dict[str, str]:
        """Return the consumed position, as JSON."""
        return {KEY: json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position; an empty state changes nothing.

        Raises:
            StateMismatchError: If it belongs to another run, or is no such state.
        """
        if not state:
            return
        try:
            loaded = json.loads(state[KEY])
        except (KeyError, TypeError, ValueError):
            raise StateMismatchError(
                f"the checkpoint holds no state of pagefeed: expected {{{KEY!r}: "
                f"text}}, found {dict(state)!r:.80}"
            ) from None
        self.loader.load_state_dict(loaded)
