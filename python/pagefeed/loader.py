"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pagefeed.arguments import check_choice, check_positive
from pagefeed.dataset import ParquetDataset
from pagefeed.engines import ProcessEngine
from pagefeed.errors import InvalidArgumentError
from pagefeed.formats import DTYPES, Batch, make_converter
from pagefeed.iteration import Iteration
from pagefeed.launch import Follower, resolve_rank, resolve_threads
from pagefeed.order import Shuffle
from pagefeed.orders import Orders
from pagefeed.planner import Planner, unit_of_slot
from pagefeed.provenance import Source, sources_of_unit, tokens_of_row
from pagefeed.route import Route, Slot
from pagefeed.run import Run
from pagefeed.sequences import Sequences, Units
from pagefeed.sizes import parse_bytes
from pagefeed.state import LoaderState

__all__ = ["Loader"]

OPTIONS = (
    "sequences",
    "batch_size",
    "seed",
    "shuffle",
    "memory",
    "format",
    "dtype",
    "padding",
    "pin_memory",
    "epochs",
    "drop_last",
    "rank",
    "world_size",
    "num_threads",
)
"""What a loader is made of, beside its dataset."""


class Loader:
    """Feeds shuffled batches of token sequences, straight from Parquet.

    ``for batch in loader`` runs through one epoch, the next loop through the next one,
    shuffled anew. ``state_dict()`` between two batches is the position of what was
    consumed; ``load_state_dict`` makes the next loop continue there, on any number of
    ranks. A loop that is left early begins its epoch again. ``seek`` and ``skip`` move
    about in an epoch, also inside a loop; anything else that places a loader ends a
    running loop, whose iterator then says so.

    Args:
        dataset: What :func:`pagefeed.parquet` returned.
        sequences: How to cut it, such as ``Windows(2048)``.
        batch_size: Sequences per step on this rank.
        seed: Seed of the order.
        shuffle: ``"page"``, ``"row_group"``, ``"row"``, ``"buffer"``, None for file
            order, or a :class:`Shuffle`.
        memory: Bytes the loader may hold, such as ``"1GiB"``.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``.
        padding: Token that fills up short sequences.
        pin_memory: Hand out tensors in page-locked memory; without CUDA this only
            warns.
        epochs: Epochs of one iteration, joined without a gap; None never ends.
        drop_last: Drop the last, incomplete step of an iteration; with False it is
            filled up with padding on every rank.
        rank: Data-parallel rank; by default from the launcher.
        world_size: Number of data-parallel ranks, likewise.
        num_threads: Threads of the engine; by default this rank's share of the CPUs.

    Raises:
        InvalidArgumentError: If an argument cannot be right.
        MissingDependencyError: If ``format="torch"`` and torch is not installed.

    Example:
        >>> loader = Loader(  # doctest: +SKIP
        ...     parquet("corpus/", column="input_ids"),
        ...     sequences=Windows(2048), batch_size=8, seed=42,
        ... )
        >>> for batch in loader:  # doctest: +SKIP
        ...     batch["input_ids"]  # int64 [8, 2048]
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        *,
        sequences: Sequences,
        batch_size: int,
        seed: int = 0,
        shuffle: Shuffle | str | None = "page",
        memory: int | str = "1GiB",
        format: Literal["numpy", "torch"] = "numpy",  # noqa: A002 - as others name it
        dtype: Literal["int64", "int32", "uint16"] = "int64",
        padding: int = 0,
        pin_memory: bool = False,
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        self.dataset = dataset
        self.sequences = sequences
        self.batch_size = check_positive(batch_size, "batch_size")
        self.seed = seed
        self.shuffle = Shuffle.parse(shuffle)
        self.memory = parse_bytes(memory, name="memory")
        self.format = format
        self.dtype = check_choice(dtype, DTYPES, "dtype")
        self.padding = padding
        self.pin_memory = pin_memory
        self.epochs = epochs if epochs is None else check_positive(epochs, "epochs")
        self.drop_last = drop_last
        self.rank, self.world_size = resolve_rank(rank, world_size)
        self.num_threads = resolve_threads(num_threads)
        self._convert = make_converter(format, pin_memory=pin_memory)

        self._units: Units = sequences.bind(dataset.spans)
        if self._units.num_units == 0:
            dataset.check_not_empty()
            raise InvalidArgumentError(
                f"{dataset!r} holds no sequence of {sequences!r}: it has "
                f"{dataset.spans.num_values} tokens in {len(dataset)} rows"
            )
        orders = Orders(
            dataset,
            fingerprint=f"{dataset.fingerprint} {sequences!r}",
            units=self._units,
            seed=seed,
            shuffle=self.shuffle,
            world_size=self.world_size,
        )
        self.run = Run(
            units=self._units,
            orders=orders,
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            epochs=self.epochs,
            drop_last=drop_last,
            plan=LoaderState(
                num_lanes=orders.num_lanes,
                seed=seed,
                dataset=dataset.fingerprint,
                sequences=repr(sequences),
                shuffle=repr(self.shuffle),
            ),
        )
        self._engine = ProcessEngine(
            dataset,
            batch_rows=self.batch_size,
            row_length=self._units.length,
            num_threads=self.num_threads,
            memory=self.memory,
            dtype=self.dtype,
            padding=padding,
        )
        self._begin = self.run.beginning(0)
        """Where the next iteration begins, or the running one began."""
        self._iteration: Iteration | None = None
        self.follower: Follower | None = None
        """Told of moves; an adapter that iterates in other processes sets it."""

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence."""
        return self._state().epoch

    @property
    def num_units(self) -> int:
        """Sequences of one epoch, over all ranks."""
        return self._units.num_units

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens of an epoch that no sequence holds (``tail="drop"``)."""
        return self._units.num_dropped_tokens

    def __len__(self) -> int:
        """Return the steps of a whole iteration, the same on every rank.

        Raises:
            TypeError: If ``epochs`` is None.
        """
        steps = self.run.route(self.run.beginning(0)).num_steps
        if steps is None:
            raise TypeError("a loader with epochs=None has no length: it never ends")
        return steps

    def __iter__(self) -> Iterator[Batch]:
        """Start the current epoch, or continue where a state was loaded."""
        return self.iterate()

    def iterate(self, *, worker: int = 0, num_workers: int = 1) -> Iterator[Batch]:
        """Iterate as one of several processes that share this rank's steps.

        Process w takes the steps w, w + num_workers, and so on: taken in turn, as
        ``torch.utils.data.DataLoader`` does with its workers, they are all steps in
        order. ``iter(loader)`` is the same with one process.
        """
        if self._iteration is not None:
            self._stop(self._next_beginning())
        route = replace(
            self.run.route(self._begin), worker=worker, num_workers=num_workers
        )
        iteration = Iteration(
            engine=self._engine.get(),
            planner=self.planner(route),
            horizon_units=self.run.horizon_units(self._begin, self.memory),
        )
        self._iteration = iteration
        return self._batches(iteration)

    def _batches(self, iteration: Iteration) -> Iterator[Batch]:
        shape = (self.batch_size, self._units.length)
        for buffer in iteration:
            tokens = np.frombuffer(memoryview(buffer), dtype=self.dtype).reshape(shape)
            yield {"input_ids": self._convert(tokens)}
        if iteration is self._iteration:
            self._stop(self.run.after(self._begin))

    def share(self, num_shares: int) -> Loader:
        """Return a loader that begins where the next iteration of this one would.

        It has a part of the memory and threads, and leaves pinning to the process that
        talks to the device.
        """
        options = self._options() | {"pin_memory": False}
        options["memory"] = max(1, self.memory // num_shares)
        options["num_threads"] = max(1, self.num_threads // num_shares)
        return _rebuild(self.dataset, options, self._next_beginning())

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle as configuration and place: threads and files stay here."""
        return _rebuild, (self.dataset, self._options(), self._state())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTIONS}

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types, under 1 KB.

        The same on every rank that has taken as many steps.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: then
                this process does not know the position.
        """
        if self.follower is not None:
            self.follower.check_state()
        return self._state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration continue at ``state``, by a seek.

        World size, batch size, memory and threads may differ from those of the run
        that saved it. An empty state changes nothing.

        Raises:
            StateMismatchError: If it belongs to another dataset, plan or release.
        """
        if state:
            loaded = LoaderState.from_dict(state)
            loaded.check_plan(self._begin)
            self._stop(loaded)
            self._tell()

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run epoch ``epoch``; a no-op if it will anyway."""
        following = self._next_beginning()
        if following.epoch != epoch:
            self._stop(self.run.beginning(epoch))
        self._tell()

    def seek(self, step: int) -> None:
        """Go to a step of the current iteration; a running one goes on there.

        Args:
            step: Number of the step; of a skipped one, the next that is not. The
                number of steps leads to the end.

        Raises:
            InvalidArgumentError: If there is no such step, or it lies before a resume
                with other sizes, which this loader knows nothing of.
        """
        route = self.run.known_route(self._begin)
        index = route.checked_index(step, past_end=True)
        position, number = route.position_after(index), route.number_of(index)
        self._move(self.run.state_at(self._begin, position, number), is_new=True)

    def skip(self, steps: Iterable[int]) -> None:
        """Leave steps of the current iteration out, such as those of bad batches.

        A running iteration goes on as if their sequences did not exist, and so does
        every run that loads its state, at any world size. The other steps keep their
        numbers; steps that are skipped already stay so.

        Args:
            steps: Numbers of steps that lie ahead, such as ``range(1190, 1210)``.

        Raises:
            InvalidArgumentError: If a step was taken already or does not exist, or
                there are too many separate ranges of them for a small state.
        """
        state = self._state()
        self._move(state.skipping(self.run.route(state), steps), is_new=False)

    def locate(self, step: int, row: int) -> list[Source]:
        """Return where a row of this rank's batches comes from, without running.

        Args:
            step: Number of the step in the current iteration.
            row: Row of the batch.

        Raises:
            InvalidArgumentError: If there is no such row, the step is skipped, or it
                lies before a resume with other sizes, which this loader knows nothing
                of.
        """
        unit = unit_of_slot(self.planner(self.run.known_route(self._begin)), step, row)
        return sources_of_unit(self.dataset.index, self._units, unit)

    def steps_of(self, file: str | os.PathLike[str], row: int) -> list[Slot]:
        """Return where a document is seen in the current epoch: ``locate`` inverted.

        Args:
            file: Path of a file of the dataset.
            row: Row, counted within the file.

        Returns:
            Step, rank and row of every sequence with tokens of the document, by step;
            none for those that are skipped or dropped, or if it is not selected.

        Raises:
            InvalidArgumentError: If there is no such document, or some of it was seen
                before a resume with other sizes.
        """
        units = self._units.units_of_tokens(
            *tokens_of_row(self.dataset.spans, os.fspath(file), row)
        )
        epoch, route = self._state().epoch, self.run.known_route(self._begin)
        places = self.run.order(self._begin, epoch).positions(units)
        positions = epoch * self.num_units + places
        return route.slots(positions)

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        ``pages_loaded``, ``pages_reloaded`` (read again for lack of memory),
        ``batches``, ``tokens``, ``wait_seconds`` (spent waiting for a batch) and
        ``peak_bytes``.
        """
        return self._engine.get().stats()

    def planner(self, route: Route) -> Planner:
        """Return what plans the batches of a route through this run's order."""
        return self.run.planner(self._begin, route)

    def _state(self) -> LoaderState:
        """The consumed position."""
        if self._iteration is None:
            return self._begin
        position, step = self._iteration.position, self._iteration.step
        return self.run.state_at(self._begin, position, step)

    def _next_beginning(self) -> LoaderState:
        """Where another ``iter(loader)`` would begin."""
        begin, running = self._begin, self._iteration
        if running is None or running.is_new:
            return begin
        if running.is_finished:
            return self.run.after(begin)
        return replace(self.run.beginning(begin.first_epoch), skipped=begin.skipped)

    def _stop(self, begin: LoaderState) -> None:
        """End the running iteration; the next begins at ``begin``."""
        if self._iteration is not None:
            self._iteration.close()
        self._iteration, self._begin = None, begin

    def _move(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running iterator too."""
        running, self._begin = self._iteration, state
        if running is not None and running.is_here:
            planner = self.planner(self.run.route(state))
            running.follow(planner, is_new=is_new or running.is_new)
        else:
            self._stop(state)
        self._tell()

    def _tell(self) -> None:
        if self.follower is not None:
            self.follower.moved(self._next_beginning())


def _rebuild(
    dataset: ParquetDataset, options: dict[str, Any], state: LoaderState
) -> Loader:
    loader = Loader(dataset, **options)
    loader.load_state_dict(state.to_dict())
    return loader
