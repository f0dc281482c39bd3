"""A run and its cursors: the sequences that every rank gets at every step.

A :class:`Run` stays the same while a loader iterates. A :class:`Cursor` is a position
in it: the state at which it began, the route of a rank from there, and the coming
sequences. :class:`~pagefeed.run.DatasetRun` and :class:`~pagefeed.run.MixtureRun` say
which sequence stands at which position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, finished, lazy
from pagefeed.core.dataset import Dataset
from pagefeed.core.order import Costs, Shuffle, derive_key
from pagefeed.core.run.delivered import NO_SEQUENCE, Sequences, gathered
from pagefeed.core.run.provenance import (
    Origin,
    origins_of_sequence,
)
from pagefeed.core.run.route import (
    LEAST_SEQUENCES,
    MOST_SEQUENCES,
    NO_POSITION,
    Route,
    RunPosition,
    Step,
    StepIndex,
    in_pieces,
)
from pagefeed.core.run.state import Grown, LoaderState
from pagefeed.core.sequences import Cut, JoinedIndex, SequenceIndex
from pagefeed.core.wiring import records_after
from pagefeed.errors import InvalidArgumentError, StateMismatchError

MOST_EPOCHS = 1 << 21
"""Epochs after which infilled documents are cut as before."""

if TYPE_CHECKING:
    from pagefeed.balance import Balance
    from pagefeed.documents import DocumentBatches
    from pagefeed.elastic import Fleet

SequencesOf: TypeAlias = Sequence[tuple[int, Int64Array]]
"""Sequences by dataset: the number of the dataset, and numbers of its sequences."""

Positions: TypeAlias = range | Int64Array
"""Rising positions. A range is faster than an array."""


@dataclass(kw_only=True, eq=False)
class Run(ABC):
    """Deliveries of a loader on this rank: datasets, order, and sizes."""

    sequences: Cut
    """The cut: how rows become sequences."""
    seed: int
    """Seed of the order."""
    shuffle: Shuffle
    """Shuffle of each dataset."""
    batch_size: int
    """Sequences of a step on one rank."""
    rank: int
    """This rank."""
    world_size: int
    """Number of ranks."""
    epochs: int | None
    """Epochs of an iteration. None never ends."""
    drop_last: bool
    """Leave out the last, incomplete step of an iteration."""
    memory: int
    """Bytes that orders may hold of what they read ahead."""
    balance: Balance | None = None
    """Balance of ranks; None if they are not balanced."""
    fleet: Fleet | None = None
    """The fleet whose ranks share steps of a fixed size, instead of rank and world
    size."""

    tells_epochs: bool = False
    """Whether sequences carry their epoch, though no document is infilled."""

    _cursor: ClassVar[type[Cursor]]
    is_of_state: ClassVar[bool] = False
    """Whether a state may change the run's sequences, as a schedule does."""

    names: Sequence[str | None] = field(init=False)
    """Names of the datasets in a mixture. One dataset alone has none."""
    datasets: Sequence[Dataset] = field(init=False)
    """The datasets. Their pages are numbered consecutively."""
    indexes: Sequence[SequenceIndex] = field(init=False)
    """The sequences of each dataset."""
    index: JoinedIndex = field(init=False)
    """The sequences of all datasets, numbered consecutively."""
    costs: Costs = field(init=False, repr=False)
    """Function that returns costs of sequences, if ranks are balanced."""
    initial: LoaderState = field(init=False)
    """The state at the beginning of epoch 0."""

    def _number(
        self,
        names: Sequence[str | None],
        datasets: Sequence[Dataset],
        indexes: Sequence[SequenceIndex],
    ) -> None:
        """Number the sequences of all these datasets consecutively."""
        self.names, self.datasets, self.indexes = names, datasets, indexes
        self.index = JoinedIndex(indexes)
        self.num_sequences = self.index.num_sequences
        """Sequences of all datasets together."""
        if self.balance is not None:
            self.costs = self.balance.costs(self.index, datasets, self.sequences)

    def _initial_state(self, num_lanes: int, data: str, **parts: Any) -> LoaderState:
        """Return the state at the beginning of epoch 0."""
        return LoaderState(
            num_lanes=num_lanes,
            seed=self.seed,
            dataset=data,
            sequences=self.sequences.identity,
            shuffle=self.shuffle.identity,
            balance=self.balance.identity if self.balance else None,
            ranks=self.world_size if self.balance else None,
        ).having(erased=self.erased_after(None), **parts)

    @abstractmethod
    def rest(self, state: LoaderState, grown: Grown | None) -> tuple[Run, LoaderState]:
        """Return the run that continues a saved state, and the state within that run.

        It is this run, or a run of the earlier data if files were added.

        Args:
            state: A saved state.
            grown: When to deliver the added data; None if nothing was added.

        Raises:
            StateMismatchError: If the data are not the data of the state, with or
                without additions.
        """

    @abstractmethod
    def _adopt(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it."""

    def at(
        self,
        begin: LoaderState,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        worker: int = 0,
        num_workers: int = 1,
    ) -> Cursor:
        """Return the cursor at a state.

        Args:
            begin: The state.
            rank: Rank of the cursor. By default this rank.
            world_size: Number of ranks, if a fleet has a different number now.
            worker: Number of this process, of those that take the rank's steps in turn.
            num_workers: Number of these processes.
        """
        return self._cursor(
            self, begin, rank, worker, num_workers, world_size=world_size
        )

    @property
    def step_sequences(self) -> int:
        """Sequences of a step on all ranks."""
        return self.batch_size * self.world_size

    @property
    def num_ranks(self) -> int:
        """World size; in a fleet, until another one is given."""
        return self.world_size if self.fleet is None else self.fleet.world_size

    @property
    def sizes(self) -> tuple[int, int]:
        """Batch size and world size; a fleet has a size alone."""
        fleet = self.fleet
        return (self.batch_size, self.world_size) if fleet is None else fleet.sizes

    def route(self, cursor: Cursor, **settings: Any) -> Route:
        """Return a route of a cursor's rank, with these settings of :class:`Route`."""
        if self.fleet is not None:
            return self.fleet.route(
                cursor.lanes_of, cursor.rank, cursor.world_size, **settings
            )
        return Route(
            batch_size=self.batch_size,
            rank=self.rank if cursor.rank is None else cursor.rank,
            world_size=self.world_size,
            **settings,
        )

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration begins with this epoch."""
        return replace(self.initial, epoch=epoch, first_epoch=epoch)

    def after(self, begin: LoaderState) -> LoaderState:
        """Return the state in which the next iteration begins, after this end."""
        epoch = begin.first_epoch + (self.epochs or 1)
        return replace(self.beginning(epoch), ended=replace(begin, ended=None))

    def going_on(self, begin: LoaderState) -> LoaderState:
        """Return this state; if no step is left, the state of the next iteration."""
        return begin if self.at(begin).route.num_steps != 0 else self.after(begin)

    def first_of(self, state: LoaderState) -> LoaderState:
        """Return the state in which the iteration of a later state began."""
        return self.beginning(state.first_epoch)

    def again(self, state: LoaderState) -> LoaderState:
        """Return the state in which an iteration began, with the steps to skip."""
        return replace(self.first_of(state), skipped=state.skipped)

    def has_one_size(self, begin: LoaderState) -> bool:
        """Whether all steps of this iteration had this run's sizes."""
        return begin.step == 0 or begin.sizes == self.sizes

    def accept(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it.

        Raises:
            StateMismatchError: If it belongs to another run, or lies beyond the end.
        """
        erased = self.erased_after(state.parts.get("erased"))
        accepted = self._adopt(state).having(erased=erased)
        cursor = self.at(accepted)
        start, end = cursor.start, cursor.end
        if end is not None and end < start:
            raise StateMismatchError(
                f"the state is after {start} sequences (epoch {state.epoch}, step "
                f"{state.step}), and this loader ends after {end}: give it at least "
                "the epochs, and a mixture the max_steps, max_tokens and max_epochs, "
                "of the run that saved it"
            )
        return accepted

    @property
    def datasets_of_now(self) -> tuple[Sequence[str | None], Sequence[Dataset]]:
        """Names and current datasets, whose erased rows a state records."""
        return self.names, self.datasets

    def erased_after(self, then: Any) -> Any:
        """Return the record of erased rows, or None.

        Raises:
            StateMismatchError: If the state erased more rows.
        """
        if then is None and not any(d.spans.erased for d in self.datasets_of_now[1]):
            return None
        return records_after(then or (), *self.datasets_of_now)

    def check_steps(self, begin: LoaderState) -> None:
        """Raise an error if there is nothing to iterate over.

        Raises:
            InvalidArgumentError: If no step is left.
        """
        route = self.at(begin).route
        if route.num_steps == 0:
            sizes = f"{self.batch_size} x world_size={self.world_size} = "
            name = "batch_size" if self.fleet is None else "global_batch_size"
            told = f"{sizes if self.fleet is None else ''}{route.step_sequences}"
            raise InvalidArgumentError(
                f"no step is complete: one takes {name}={told} sequences, and "
                f"{(route.end or 0) - route.start} are there; give a smaller {name}, "
                "more epochs, or drop_last=False"
            )

    def reweighted(self, *_: Any, **__: Any) -> LoaderState:
        """Return a state with new weights.

        Raises:
            InvalidArgumentError: If there is nothing to mix.
        """
        raise InvalidArgumentError(
            "set_weights needs a mixture: Loader(pagefeed.mix({...}), ...)"
        )

    @property
    def takes_batches(self) -> bool:
        """Whether a sequence is a whole batch of documents, one in each row."""
        return self.sequences.takes_batches

    @lazy
    def documents_each(self) -> float:
        """Mean number of items that a sequence adds to a plan, at least 1."""
        planned = sum(index.num_planned for index in self.indexes)
        return max(1.0, planned / max(1, self.num_sequences))

    def documents_of(self, sequence: int) -> npt.NDArray[np.bool_]:
        """Return which documents of a batch were not erased: bool, in its order."""
        dataset = int(self.index.dataset_of(np.array([sequence]))[0])
        local = sequence - int(self.index.first_sequence[dataset])
        return self.indexes[dataset].documents_left(local)

    def origins(self, sequence: int, epoch: int = 0) -> list[Origin]:
        """Return where the tokens of a sequence come from.

        Infilled documents are rearranged again in every ``epoch``.
        """
        n = int(self.index.dataset_of(np.array([sequence]))[0])
        local = sequence - int(self.index.first_sequence[n])
        origins = origins_of_sequence(self.datasets[n], self.indexes[n], local, epoch)
        return [replace(origin, dataset=self.names[n]) for origin in origins]


@dataclass(eq=False)
class Cursor(ABC):
    """A position in a run: a state, a rank's route from there, and the steps taken.

    A cursor finds the sequences of any coming step. Sequences, the end and later states
    are the same on any number of ranks.
    """

    run: Run
    """The run."""
    begin: LoaderState
    """The state at which the route begins."""
    rank: int | None = None
    """The rank that takes the route; None for the rank of the run."""
    worker: int = 0
    """Number of this worker among those that take the steps of the rank in turn."""
    num_workers: int = 1
    """Number of these processes."""
    until: int | None = None
    """Position at which the route ends; None for the end of the iteration."""
    num_taken: int = 0
    """Steps that this process has taken."""
    world_size: int | None = None
    """Number of ranks; None for that of the run."""

    @property
    @abstractmethod
    def start(self) -> int:
        """The position of ``begin``."""

    @property
    @abstractmethod
    def end(self) -> int | None:
        """One past the last position; None: without end."""

    def position_of(self, state: LoaderState) -> int:
        """Return the position of a later state, as this cursor counts positions."""
        return self.run.at(state).start

    @property
    @abstractmethod
    def epoch_positions(self) -> float:
        """Least number of positions before another epoch of a dataset begins."""

    @property
    @abstractmethod
    def num_tokens_before(self) -> int:
        """Tokens delivered before ``begin``, from the mean tokens of a sequence."""

    def log(self) -> None:
        """Log the plan of the run; one dataset has nothing to log."""
        return

    @abstractmethod
    def stats(self) -> dict[str, float]:
        """Return counters of sequences delivered before ``begin``."""

    @abstractmethod
    def horizon(self, memory: int) -> int:
        """Return how many sequences to plan, so that few pages are read twice."""

    @abstractmethod
    def at(self, positions: Positions) -> Iterator[Sequences | None]:
        """Yield the sequences at rising positions, in parts.

        Yields None while it works on the next part, at least every few milliseconds.
        """

    @abstractmethod
    def positions(self, sequences_of: SequencesOf, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""

    def _numbered(
        self, dataset: int, local: Int64Array, epoch: int, of_mixture: int = 0
    ) -> Sequences:
        """Return sequences of a dataset's epoch, numbered over all datasets."""
        numbers: Int64Array = local + self.run.index.first_sequence[dataset]
        run = self.run
        if not (run.tells_epochs or run.datasets[dataset].index.is_infilled):
            return Sequences(numbers)
        if of_mixture:  # Epochs of datasets begin again in each epoch of the mixture.
            key = derive_key(of_mixture, "infill", epoch)
            epoch = int.from_bytes(key[:8], "little")
        epochs = np.full(len(numbers), epoch % MOST_EPOCHS, dtype=np.uint32)
        return Sequences(numbers, epochs)

    @abstractmethod
    def _prepare_epoch_after(self, position: RunPosition) -> Iterator[None]:
        """Prepare the next epoch, unless the run ends before it."""

    @abstractmethod
    def _moved(self, state: LoaderState, position: RunPosition) -> LoaderState:
        """Return a state of this epoch, or of a later one, moved to a position."""

    def lanes_of(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the lane of each position, and the number of lanes: int64 each."""
        num_lanes = np.full_like(positions, self.begin.num_lanes)
        return positions % num_lanes, num_lanes

    @lazy
    def route(self) -> Route:
        """The positions of this process's steps, to the end of the iteration."""
        run, end = self.run, self.end if self.until is None else self.until
        return run.route(
            self,
            start=self.start,
            end=end if end is None else max(self.start, end),
            drop_last=run.drop_last,
            first_step=self.begin.step,
            skipped=self.begin.skipped,
            worker=self.worker,
            num_workers=self.num_workers,
        )

    @property
    def state(self) -> LoaderState:
        """The state after the steps taken."""
        return self.state_after(self.num_taken)

    def state_after(self, num_taken: int) -> LoaderState:
        """Return the state of a process after ``num_taken`` steps."""
        run, route, begin = self.run, self.route, self.begin
        sizes = run.sizes if run.has_one_size(begin) else None
        now = replace(begin, step=route.step_after(num_taken), sizes=sizes)
        return self._moved(now, route.position_after(num_taken))

    @property
    def step(self) -> Step:
        """Number of the next step of this process."""
        return self.route.number_here(self.num_taken)

    @property
    def num_left(self) -> int | None:
        """Steps of the route that are not taken; None if it never ends."""
        num_steps = self.route.num_steps
        return None if num_steps is None else num_steps - self.num_taken

    def sequences(self, first: int, count: int) -> Int64Array:
        """Return the sequences of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size]; ``NO_SEQUENCE`` past the end of the iteration.
        """
        return finished(self._found(first, count)).numbers

    def sequences_in(self, step: Step) -> Sequences:
        """Return the sequences of this rank's batch of a step, with their epochs.

        Raises:
            InvalidArgumentError: If there is no such step, or it is skipped.
        """
        index = self.route.checked_index(step)
        if self.route.number_of(index) != step:
            raise InvalidArgumentError(f"step={step} is skipped")
        return self.sequences_of(self.route, index)

    @property
    def _batches(self) -> DocumentBatches:
        """The cut, if it takes batches of documents."""
        return cast("DocumentBatches", self.run.sequences)

    def rows(self, step: Step) -> list[int]:
        """Return the rows of this rank's batch of a step that are not padding."""
        own = self.sequences(self.route.checked_index(step), 1).tolist()
        if self.run.takes_batches:
            return list(range(self._batches.num_documents(self, own)))
        return [row for row, sequence in enumerate(own) if sequence >= 0]

    def row_at(self, step: Step, row: int) -> tuple[Sequences, int]:
        """Return the sequence of a row of this rank's batch, and the row in it.

        Raises:
            InvalidArgumentError: If there is none: no such step or row, or padding.
        """
        if self.run.takes_batches:
            return self._batches.document_in(self, step, row)
        sequences = self.sequences_in(step)
        if not 0 <= row < len(sequences):
            raise InvalidArgumentError(f"row={row} must lie below {len(sequences)}")
        if sequences.numbers[row] == NO_SEQUENCE:
            raise InvalidArgumentError(f"step={step}, row={row} is padding")
        return sequences[row : row + 1], 0

    def origins(self, step: Step, row: int) -> list[Origin]:
        """Return the origins of the tokens in a row of a batch of this rank.

        Raises:
            InvalidArgumentError: If there is none: no such step or row, or padding.
        """
        found, document = self.row_at(step, row)
        sequence = int(found.numbers[0])
        epoch = 0 if found.epochs is None else int(found.epochs[0])
        origins = self.run.origins(sequence, epoch)
        if self.run.takes_batches:
            *before, is_left = self.run.documents_of(sequence)[: document + 1].tolist()
            origins = origins[sum(before) :][: int(is_left)]
        return origins

    def sequences_of(self, route: Route, index: StepIndex) -> Sequences:
        """Return the sequences of a step on a route, with their epochs."""
        return finished(self._sequences_at(route.positions(index, 1)))

    def last_sequences(self, ranks: Sequence[int]) -> Int64Array:
        """Return the sequences that some ranks got in the last step taken.

        Returns:
            int64 [ranks, batch_size]; ``NO_SEQUENCE`` for rows of padding.
        """
        routes = [replace(self.route, rank=rank) for rank in ranks]
        places = [route.positions(self.num_taken - 1, 1) for route in routes]
        # All together: balanced ranks are dealt at once.
        return finished(self._sequences_at(np.stack(places))).numbers

    def prepare_next_epoch(self, step: int) -> Iterator[None]:
        """Prepare the epoch after the one that a step begins in, in short steps.

        An epoch with very many blocks needs a pass over them before its first batch.
        """
        return self._prepare_epoch_after(self.route.position_after(step))

    def pieces(
        self,
        first: int,
        count: int,
        most: int = MOST_SEQUENCES,
        *,
        is_begin: bool = False,
    ) -> Iterator[Sequences | None]:
        """Yield the sequences of steps, in pieces that are planned quickly.

        Args:
            first: First step.
            count: Number of steps, with as many rows each.
            most: Sequences of a piece at most, if these are a step or more.
            is_begin: Whether an engine begins with these steps. Pieces are then longer:
                the engine releases pages that no known piece needs, and would read them
                again.

        Yields:
            All sequences of the next few steps; None after other work.
        """
        sequences = yield from self._found(first, count)
        run, rows = self.run, self.route.rows(first)
        least = (LEAST_SEQUENCES << is_begin) * len(run.datasets)
        yield from in_pieces(sequences, rows, run.documents_each, least, most)

    def _found(self, first: int, count: int) -> Generator[None, None, Sequences]:
        """Find the sequences of steps, yielding every few milliseconds."""
        positions = self.route.progression(first, count)
        if positions is not None:
            return gathered(self.at(positions))
        wanted = self.route.positions(first, count)
        if len(wanted) and wanted[0] >= 0 and np.all(wanted[1:] > wanted[:-1]):
            return gathered(self.at(wanted))
        return self._sequences_at(wanted)

    def _sequences_at(self, positions: Int64Array) -> Generator[None, None, Sequences]:
        """Find the sequences at positions in any order, or ``NO_POSITION``."""
        is_here = positions != NO_POSITION
        rising, which = np.unique(positions[is_here], return_inverse=True)
        found = yield from gathered(self.at(rising))
        return Sequences.placed(positions.shape, [(is_here, found[which])])
