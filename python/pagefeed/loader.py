"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pagefeed._base import (
    check_callable,
    check_flag,
    check_positive,
    check_vocab_size,
    check_whole,
    parse_bytes,
)
from pagefeed.batches import (
    Batch,
    BatchIterator,
    DocumentFeed,
    DType,
    Feed,
    Fields,
    Iteration,
    PaddingWatch,
    ProcessEngine,
    ReloadWatch,
    TokenFeed,
    check_padding,
    explain,
    make_converter,
    parse_dtype,
    transformed,
)
from pagefeed.dataset import Dataset, check_dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import MoveListener, check_share, resolve_rank, resolve_threads
from pagefeed.mixture import Mixture
from pagefeed.order import Shuffle
from pagefeed.run import (
    EpochSupply,
    LoaderState,
    MixtureSupply,
    Origin,
    Planner,
    Route,
    Run,
    Slot,
    Supply,
    sequence_of_slot,
)
from pagefeed.sequences import Documents, SequenceSetting, check_sequences

__all__ = ["Loader"]

PLAN_SHARE = 8
"""Plans take at most this part of the memory."""

ORDER_SHARE = 16
"""What orders read ahead takes at most this part of it."""

MAX_ORDER_BYTES = 32 << 20
"""And no more than is of any use."""

STEPS_BETWEEN_WARNINGS = 64
"""Steps after which the loader looks again whether there is something to warn of."""

OPTIONS = (
    "sequences",
    "batch_size",
    "seed",
    "shuffle",
    "memory",
    "format",
    "dtype",
    "padding",
    "vocab_size",
    "fields",
    "transform",
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
    ranks. A loop that is left early begins its epoch again; an iterator that an
    exception left goes on with the same step. ``seek`` and ``skip`` move about in an
    epoch, also inside a loop; anything else that places a loader ends a running loop,
    whose iterator then says so.

    Args:
        dataset: What :func:`pagefeed.parquet` returned, or :func:`pagefeed.mix`.
        sequences: How to cut it, such as ``Windows(2048)``.
        batch_size: Sequences per step on this rank.
        seed: Seed of the order.
        shuffle: ``"page"``, ``"row_group"``, ``"row"``, ``"buffer"``, None for file
            order, or a :class:`Shuffle`.
        memory: Bytes the loader may hold, such as ``"1GiB"``.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``, or that type of NumPy or
            torch.
        padding: Token that fills up short sequences. Where it is more than 0.1 % of an
            epoch, and fields tell it from tokens by neither labels nor a mask, a
            :class:`PaddingWarning` says so.
        vocab_size: Rows of the embedding: a token id that is not below it is refused
            when its page is read, as are negative ones always.
        fields: What a batch carries: names such as ``("input_ids", "labels")``, or
            :class:`Fields` with further settings.
        transform: Called with every batch, a dict of arrays or tensors that it may
            change in place; what it returns is delivered. Other processes need it to
            be picklable.
        pin_memory: Hand out tensors in page-locked memory; without CUDA this only
            warns.
        epochs: Epochs of one iteration, joined without a gap; None never ends. An
            epoch of a mixture is its whole schedule, as long as its stop says.
        drop_last: Drop the last, incomplete step of an iteration; with False it is
            filled up with rows of padding, but so that every rank has a sequence, if
            the step before has more than one for each. ``stats()`` counts these rows.
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
        dataset: Dataset | Mixture,
        *,
        sequences: SequenceSetting,
        batch_size: int,
        seed: int = 0,
        shuffle: Shuffle | str | bool | None = "page",
        memory: int | str = "1GiB",
        format: Literal["numpy", "torch"] = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        fields: Fields | Iterable[str] = ("input_ids",),
        transform: Callable[[Batch], Any] | None = None,
        pin_memory: bool = False,
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        check_dataset(dataset, "dataset")
        check_sequences(sequences)
        self.dataset = dataset
        self.sequences = sequences
        self.batch_size = check_positive(batch_size, "batch_size")
        self.seed = check_whole(seed, "seed")
        self.shuffle = Shuffle.parse(shuffle)
        self.memory = parse_bytes(memory, name="memory")
        self.format = format
        self.dtype = parse_dtype(dtype)
        self.padding = check_padding(padding, self.dtype)
        self.vocab_size = check_vocab_size(vocab_size, padding=self.padding)
        self.fields = Fields.parse(fields)
        self.transform = check_callable(transform, "transform")
        self.pin_memory = pin_memory
        self.epochs = epochs if epochs is None else check_positive(epochs, "epochs")
        self.drop_last = check_flag(drop_last, "drop_last")
        self.rank, self.world_size = resolve_rank(rank, world_size)
        self.num_threads = resolve_threads(num_threads)
        supply = self._make_supply()
        self._feed = self._make_feed(supply)
        self._reloads = ReloadWatch(self.memory)
        tells_lengths = isinstance(self.sequences, Documents)
        self._padding = PaddingWatch(
            supply.cut, self.fields, tells_lengths=tells_lengths
        )
        self.run = Run(
            supply=supply,
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            epochs=self.epochs,
            drop_last=self.drop_last,
            plan_sequences=self._feed.plan,
        )
        if not isinstance(dataset, Mixture):  # To which a state may bring steps.
            self.run.check_steps(self.run.beginning(0))
        self._begin = self.run.beginning(0)
        """Where the next iteration begins, or the running one began."""
        self._iteration: Iteration[Any] | None = None
        self._num_made = self._num_padding_rows = 0
        self._loaded: LoaderState | None = None
        """A state that was loaded, until an iteration begins."""
        self._finished: LoaderState | None = None
        """The end of the last iteration, until another begins."""
        self.listener: MoveListener | None = None
        """Told of moves; an adapter that iterates in other processes sets it."""

    def _make_supply(self) -> Supply:
        step_sequences = self.batch_size * self.world_size
        if not isinstance(self.dataset, Mixture):
            return EpochSupply(
                self.dataset,
                sequences=self.sequences,
                seed=self.seed,
                shuffle=self.shuffle,
                world_size=self.world_size,
                memory=self._order_bytes,
            )
        if self.epochs != 1:
            raise InvalidArgumentError(
                f"epochs={self.epochs!r}: a mixture is as long as its stop, max_steps, "
                "max_tokens and max_epochs say; leave epochs at 1"
            )
        return MixtureSupply(
            self.dataset,
            sequences=self.sequences,
            seed=self.seed,
            shuffle=self.shuffle,
            world_size=self.world_size,
            step_sequences=step_sequences,
            memory=self._order_bytes,
        )

    @property
    def _order_bytes(self) -> int:
        return min(MAX_ORDER_BYTES, self.memory // ORDER_SHARE)

    def _make_feed(self, supply: Supply) -> Feed[Any]:
        convert = make_converter(self.format, pin_memory=self.pin_memory)
        if isinstance(self.sequences, Documents):
            return DocumentFeed(
                supply.datasets,
                supply.cut,
                self.sequences,
                batch_rows=self.batch_size,
                num_threads=self.num_threads,
                memory=self.memory - self._order_bytes,
                dtype=self.dtype,
                padding=self.padding,
                fields=self.fields,
                convert=convert,
                vocab_size=self.vocab_size,
            )
        check_vocab_size(
            self.vocab_size, eos=supply.cut.layout.eos, bos=supply.cut.layout.bos
        )
        engine = ProcessEngine(
            supply.datasets,
            batch_rows=self.batch_size,
            row_length=supply.cut.length,
            num_threads=self.num_threads,
            memory=self.memory - self._order_bytes,
            dtype=self.dtype,
            padding=self.padding,
            layout=supply.cut.layout,
            fields=self.fields,
            vocab_size=self.vocab_size,
        )
        return TokenFeed(
            supply.cut,
            engine,
            batch_size=self.batch_size,
            dtype=self.dtype,
            fields=self.fields,
            convert=convert,
        )

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence."""
        return self.run.going_on(self._state()).epoch

    @property
    def num_sequences(self) -> int:
        """Sequences of one epoch, over all ranks; of all datasets of a mixture."""
        return self.run.cut.num_sequences

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens of an epoch that no sequence holds (``tail="drop"``)."""
        return self.run.cut.num_dropped_tokens

    @property
    def num_padding_tokens(self) -> int:
        """Padding in the sequences of an epoch."""
        return self.run.cut.num_padding_tokens

    def __len__(self) -> int:
        """Return the steps of a whole iteration, the same on every rank.

        Raises:
            TypeError: If it never ends.
        """
        steps = self.run.route(self.run.beginning(0)).num_steps
        if steps is None:
            raise TypeError(
                "this loader has no length: it never ends; give it epochs, or a "
                "mixture stop, max_steps or max_tokens"
            )
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
        check_share(worker, num_workers)
        return BatchIterator(
            begin=lambda: self._start(worker, num_workers),
            make=self._make_batch,
            end=self._ended,
            explain=self._explain,
        )

    def _start(self, worker: int, num_workers: int) -> Iteration[Any]:
        begin = self._unfinished()
        if num_workers == 1:  # Others may have steps left where one has none.
            begin = self.run.going_on(begin)
            self.run.check_steps(begin)
        self._stop(begin)
        route = self.run.route(begin, worker, num_workers)
        if worker == 0:
            self._padding.look(route, stacklevel=4)
        iteration = Iteration(
            engine=self._feed.engine(),
            begin=begin,
            planner=self.planner(route),
            horizon_sequences=self.run.horizon_sequences(begin, self.memory),
            plan_bytes=self.memory // PLAN_SHARE,
        )
        self._iteration, self._finished, self._loaded = iteration, None, None
        return iteration

    def _make_batch(self, delivered: Any) -> Batch:  # noqa: ANN401 - the feed's
        if self._num_made % STEPS_BETWEEN_WARNINGS == 0 and not self.run.is_scattered:
            self._reloads.look(self._feed.engine().stats(), stacklevel=3)
        self._num_made += 1
        batch = self._feed.batch(delivered)
        if self.transform is None:
            return batch
        return transformed(self.transform, batch)  # type: ignore[no-any-return]

    def _ended(self, iteration: Iteration[Any]) -> None:
        """Go on to the next epoch, all steps of this one taken."""
        if iteration is self._iteration:
            finished = self._state()
            self._stop(self.run.after(self._begin))
            self._finished = finished

    def _explain(self, error: Exception, iteration: Iteration[Any]) -> None:
        """Say which steps to skip, in the order of the iteration."""
        explain(error, self.run, self._state(), iteration.step)

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
        """Return the consumed position as plain JSON types.

        The same on every rank that has taken as many steps. It takes less than 1 KB; of
        a mixture, which records its datasets and their weights, about 0.5 KB and never
        more than 128 KiB.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: then
                this process does not know the position.
        """
        if self.listener is not None:
            self.listener.check_state()
        return self._state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration continue at ``state``, by a seek.

        World size, batch size, memory and threads may differ from those of the run
        that saved it. An empty state changes nothing.

        Raises:
            StateMismatchError: If it belongs to another dataset, plan or release, lies
                beyond the end of this loader, or is no state at all.
        """
        if not isinstance(state, Mapping) or state:
            self._go_to(LoaderState.from_dict(state))
            self._loaded = self._begin

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run epoch ``epoch``; a no-op if it will anyway.

        So is the epoch in which this iteration is, or began: what trainers call after
        a resume never undoes it. A lower one does, and warns.

        Raises:
            InvalidArgumentError: If it is not a whole number, at least 0.
        """
        epoch = check_whole(epoch, "epoch", least=0)
        following = self._next_beginning()
        if epoch not in (self.epoch, following.epoch, following.first_epoch):
            if self._loaded is not None and epoch < following.epoch:
                warnings.warn(
                    f"set_epoch({epoch}) goes back before the state that was loaded, "
                    f"of epoch {following.epoch}: what was consumed comes again",
                    stacklevel=2,
                )
            self._stop(self.run.beginning(epoch))
        self._tell()

    def seek(self, step: int) -> None:
        """Go to a step of the current iteration; a running one goes on there.

        Args:
            step: Number of the step; of a skipped one, the next that is not. The
                number of steps leads to the end, and so the next loop to the next
                epoch.

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
        numbers; steps that are skipped already stay so. Errors about data have
        ``steps``, those that need what cannot be read.

        Args:
            steps: Numbers of steps that lie ahead, such as ``range(1190, 1210)``.

        Raises:
            InvalidArgumentError: If a step was taken already or does not exist, or
                there are too many separate ranges of them for a small state.
        """
        state = self._state()
        self._move(state.skipping(self.run.route(state), steps), is_new=False)

    def locate(self, step: int, row: int) -> list[Origin]:
        """Return where a row of this rank's batches comes from, without running.

        Args:
            step: Number of the step in the current iteration.
            row: Row of the batch.

        Raises:
            InvalidArgumentError: If there is no such row, the step is skipped, or it
                lies before a resume with other sizes, which this loader knows nothing
                of.
        """
        sequence = sequence_of_slot(
            self.planner(self.run.known_route(self._begin)), step, row
        )
        return self.run.supply.origins(sequence)

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
        route = self.run.known_route(self._begin)
        supply = self.run.supply
        held = supply.document_sequences(
            os.fspath(file), check_whole(row, "row", least=0)
        )
        return route.slots(
            supply.positions(self._begin, self._state(), route.end, held)
        )

    def set_weights(self, weights: Mapping[str, float], *, anneal: int = 0) -> None:
        """Mix with other weights from the next step on.

        It is part of the state: a run that loads it goes on with these weights. Stages
        that lie ahead begin as they would. All ranks must call it at the same step.

        Args:
            weights: Weight of each dataset, by what the mixture counts; those that are
                not named are left out.
            anneal: Steps over which the present weights turn into these.

        Raises:
            InvalidArgumentError: If this is no mixture, a weight or a name cannot be
                right, or there were too many changes for a small state.
        """
        supply = self.run.supply
        if not isinstance(supply, MixtureSupply):
            raise InvalidArgumentError(
                "set_weights needs a mixture: Loader(pagefeed.mix({'web': (web, 0.7), "
                "...}), ...)"
            )
        if self.listener is not None:
            self.listener.check_state()
        sequences = check_whole(anneal, "anneal", least=0) * self.run.step_sequences
        self._move(supply.reweighted(self._state(), weights, sequences), is_new=False)

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        ``pages_loaded``, ``pages_reloaded`` (read again for lack of memory),
        ``batches``, ``tokens``, ``padding_tokens`` and ``splits`` in these (places at
        which a packed document goes on that would have fitted into one sequence),
        ``wait_seconds`` (spent waiting for a batch) and ``peak_bytes``;
        ``padding_sequences``, the rows that fill up the last steps with
        ``drop_last=False``. For a mixture
        also ``NAME/sequences`` and ``NAME/tokens`` of each dataset: what the iteration,
        or the last one, delivered so far on all ranks, tokens by the mean tokens of a
        sequence.
        """
        counters: dict[str, float] = self._feed.engine().stats()
        running = 0 if self._iteration is None else self._iteration.num_padding_rows
        counters["padding_sequences"] = self._num_padding_rows + running
        return counters | self.run.supply.stats(self._finished or self._state())

    def planner(self, route: Route) -> Planner:
        """Return what plans the batches of a route through this run's order."""
        return self.run.planner(self._begin, route)

    def beginning(self) -> LoaderState:
        """Return the state in which the current iteration began, with its weights."""
        again = self.run.beginning(self._begin.first_epoch)
        return replace(again, mixture=self._begin.mixture)

    def _state(self) -> LoaderState:
        """The consumed position; right also beside a thread that iterates."""
        running = self._iteration
        if running is None:
            return self._begin
        return self.run.state_at(*running.consumed)

    def _next_beginning(self) -> LoaderState:
        """Where another ``iter(loader)`` would begin."""
        return self.run.going_on(self._unfinished())

    def _unfinished(self) -> LoaderState:
        """The same, or the end of an iteration that a state or a seek led to."""
        begin, running = self._begin, self._iteration
        if running is None or running.is_new:
            return begin
        if running.is_finished:
            return self.run.after(begin)
        return replace(self.beginning(), skipped=begin.skipped)

    def _stop(self, begin: LoaderState) -> None:
        """End the running iteration; the next begins at ``begin``."""
        if self._iteration is not None:
            self._iteration.close()
            self._num_padding_rows += self._iteration.num_padding_rows
        self._begin = begin  # First: whoever sees no iteration needs the new one.
        self._iteration, self._finished, self._loaded = None, None, None

    def _go_to(self, state: LoaderState) -> None:
        """Make the next iteration continue at a state."""
        self._stop(self.run.accept(state, self._begin))
        self._tell()

    def _move(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running iterator too."""
        running = self._iteration
        if running is not None and running.is_here:
            self._begin = state
            ours = running.route
            route = self.run.route(state, ours.worker, ours.num_workers)
            running.follow(state, self.planner(route), is_new=is_new or running.is_new)
        else:
            self._stop(state)
        self._tell()

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener.moved(self._next_beginning())


def _rebuild(
    dataset: Dataset | Mixture, options: dict[str, Any], state: LoaderState
) -> Loader:
    loader = Loader(dataset, **options)
    loader._go_to(LoaderState.from_dict(state.to_dict()))  # noqa: SLF001 - a twin
    return loader
