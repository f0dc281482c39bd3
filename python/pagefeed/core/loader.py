"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from pagefeed.core import wiring
from pagefeed.core._base import (
    check_callable,
    check_choice,
    check_flag,
    check_positive,
    check_seconds,
    check_vocab_size,
    check_whole,
)
from pagefeed.core.any_loader import AnyLoader, Setting, rebuild
from pagefeed.core.batches import (
    Batch,
    DType,
    FieldName,
    Fields,
    Format,
    LoaderSettings,
    Plan,
    RunView,
    check_padding,
    lengths_of,
    open_session,
    parse_dtype,
    sized,
)
from pagefeed.core.dataset import Source, check_dataset
from pagefeed.core.order import Shuffle, ShuffleLike
from pagefeed.core.ranks import resolve_memory, resolve_rank, resolve_threads
from pagefeed.core.run import (
    Grown,
    Origin,
    Slot,
    Step,
    check_grown,
    sequences_of_document,
)
from pagefeed.core.sequences import Cut, check_sequences
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.balance import Balance, BalanceLike
    from pagefeed.context_parallel import ContextParallel
    from pagefeed.documents import DecodeLike, DocumentBatches

__all__ = ["Loader", "as_rank"]


class Loader(AnyLoader):
    """Feeds shuffled batches of token sequences, straight from Parquet.

    ``for batch in loader`` runs through one epoch. The next loop runs through the next
    epoch, in a new order. ``state_dict()`` between two batches returns the consumed
    position, and ``load_state_dict`` makes the next loop continue there, on any number
    of ranks.

    After a loop that was left early, the next loop begins the same epoch again. An
    iterator that raised an error continues with the same step. ``seek`` and ``skip``
    move within an epoch, and may be called inside a loop. ``load_state_dict``,
    ``set_epoch`` and another ``iter`` end a running loop: its iterator then raises
    :class:`CancelledError`.

    Args:
        dataset: A dataset, such as :func:`pagefeed.parquet` returns, or a mixture of
            :func:`pagefeed.mix`.
        sequences: How to cut it, such as ``Windows(2048)``.
        batch_size: Sequences per step on this rank.
        global_batch_size: Sequences per step on all ranks, in place of ``batch_size``,
            for any number of ranks; or stages ``[(step, size), ...]``. The batches of
            two ranks differ by one row at most; see :meth:`at` and
            docs/explanation/elastic.md.
        batch_tokens: Most tokens per step on this rank, padding included, in place of
            ``batch_size``. A step of :class:`Documents` takes as many documents as fit.
            Together with ``global_batch_size``, a step has that many batches of this
            budget, and each rank gets the documents of its share of the batches.
        lengths: Stages ``[(step, length), ...]`` of rows shorter than the sequences, as
            a context that grows: with ``[(0, 4096), (50_000, 32_768)]`` the sequences
            of the first 50,000 steps of an iteration come as eight rows each, as if
            they were cut there. Order, states and tokens of a step stay as they are.
            Each length divides that of the sequences, the largest one.
        seed: Seed of the order.
        shuffle: ``"page"``, another kind of :class:`Shuffle` such as ``"row"``, None
            for file order, or a :class:`Shuffle` with further settings.
        balance: ``"attention"``, ``"tokens"`` or a :class:`Balance` deals sequences so
            that those of a step cost about the same on every rank; see
            docs/explanation/step-costs.md. The order then also depends on the world
            size that an epoch begins with.
        context_parallel: A :class:`ContextParallel`: this process gets its part of each
            sequence. Ranks of its group have the same ``rank``.
        memory: Bytes the loader may hold, such as ``"1GiB"``.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``, or that type of NumPy or
            torch.
        padding: Token that fills up short sequences. A :class:`PaddingWarning` is given
            if more than 0.1 % of an epoch is padding and no field, such as labels or a
            mask, tells it from tokens.
        vocab_size: Rows of the embedding. The loader refuses a page with a token id
            that is not below it, and always one with a negative id. By default the size
            that files of :func:`pagefeed.tokenize` record.
        fields: What a batch carries: names such as ``("input_ids", "position_ids")``,
            or :class:`Fields` with further settings. By default ``input_ids`` and
            ``labels``, which carry no loss on padding; ``Documents()`` without
            ``max_length`` gives its columns alone.
        transform: Called with every batch, a dict of arrays or tensors that it may
            change in place. The loader delivers what it returns. It must be picklable
            if worker processes use the loader. A function with a second parameter
            ``rng`` gets a generator of NumPy, keyed by seed, epoch, step and rank: a
            resumed or repeated step has the same random numbers.
        decode: Functions by column of :class:`Documents`, ``{"image": decode_image}``,
            or a :class:`Decode`. Threads call them for every row, ahead of the loop.
        pin_memory: Return tensors in page-locked memory. Without CUDA the loader only
            warns.
        epochs: Epochs of one iteration, joined without a gap. None never ends. An epoch
            of a mixture is its whole schedule: leave 1, or give None if the mixture has
            no end. With 1 a loop over such a mixture warns.
        drop_last: Drop the last, incomplete step of an iteration. With False the step
            is filled up with rows of padding, which ``stats()`` counts. Every rank gets
            at least one sequence, if the step before had more than one for each.
        rank: Data-parallel rank. By default from the launcher.
        world_size: Number of data-parallel ranks. By default from the launcher.
        num_threads: Threads of the engine. By default this rank's share of the CPUs, or
            of a container's quota of them.
        warn_after: Seconds. If a batch does not come for so long, the log ``pagefeed``
            tells what it waits for, and again after twice, four times and so on. None
            for never.

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

    _open = staticmethod(open_session)
    _session: RunView

    batch_tokens = Setting[int | None]()
    global_batch_size: Setting[int | Sequence[tuple[int, int]] | None] = Setting()
    balance: Setting[Balance | None] = Setting()
    context_parallel: Setting[ContextParallel | None] = Setting()
    drop_last = Setting[bool]()

    def __init__(
        self,
        dataset: Source,
        *,
        sequences: Cut,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        global_batch_size: int | Sequence[tuple[int, int]] | None = None,
        lengths: Sequence[tuple[int, int]] | None = None,
        seed: int = 0,
        shuffle: ShuffleLike = "page",
        balance: BalanceLike = None,
        context_parallel: ContextParallel | None = None,
        memory: int | str = "1GiB",
        format: Format = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        fields: Fields | Iterable[FieldName] | None = None,
        transform: Callable[..., Any] | None = None,
        decode: DecodeLike | None = None,
        pin_memory: bool = False,
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        warn_after: float | None = 30.0,
    ) -> None:
        if not isinstance(dataset, Source) or dataset.kind != "mixture":
            check_dataset(dataset, "dataset")
        check_sequences(sequences)
        token_dtype = parse_dtype(dtype)
        padding = check_padding(padding, token_dtype, sequences)
        fields = Fields.parse(fields, sequences)
        fields.check_tokens(token_dtype)
        rank, world_size = resolve_rank(rank, world_size)
        sequences, batch_size = sized(
            sequences, batch_size, batch_tokens, global_batch_size
        )
        settings = LoaderSettings(
            dataset=dataset,
            sequences=sequences,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            seed=check_whole(seed, "seed"),
            shuffle=Shuffle.parse(shuffle),
            balance=None if balance is None else wiring.parse_balance(balance),
            context_parallel=None
            if context_parallel is None
            else wiring.parse_context_parallel(context_parallel),
            memory=resolve_memory(memory),
            format=format,
            dtype=token_dtype,
            padding=padding,
            vocab_size=check_vocab_size(vocab_size, padding=padding),
            fields=fields,
            transform=check_callable(transform, "transform"),
            decode=None if decode is None else wiring.parse_decode(decode),
            pin_memory=pin_memory,
            epochs=epochs if epochs is None else check_positive(epochs, "epochs"),
            drop_last=check_flag(drop_last, "drop_last"),
            rank=rank,
            world_size=world_size,
            num_threads=resolve_threads(num_threads),
            warn_after=check_seconds(warn_after, "warn_after"),
            fleet=None
            if global_batch_size is None
            else wiring.parse_fleet(global_batch_size),
            lengths=lengths_of(lengths, sequences),
        )
        self._session = self._open(settings)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types.

        It is the same on every rank that has taken as many steps. It takes less than
        1 KB, and some 8 bytes for each range of skipped steps. A mixture also records
        its datasets and changes of weights, see docs/explanation/mixtures.md: 128 KiB
        at most.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: this
                process does not know their position.
        """
        return self._session.state_dict()

    def load_state_dict(
        self,
        state: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        grown: Grown | None = None,
        replay: bool = False,
    ) -> None:
        """Make the next iteration continue at ``state``, by a seek.

        World size, batch size, memory and threads may differ from the run that saved
        the state. An empty state changes nothing.

        Args:
            state: What ``state_dict`` returned.
            grown: ``"next-epoch"`` if files were added to the dataset since. The rest
                of the epoch comes exactly as it would have, and the new files from the
                next epoch on. It changes nothing if the data are the same.
            replay: Begin the recorded iteration again instead of continuing it. The
                same sequences come in the same order, with the mixture weights that the
                state records. No policy or losses are needed for these weights. A state
                that was saved after the end of a loop replays that loop.

        Raises:
            InvalidArgumentError: If ``grown`` has another value.
            StateMismatchError: If the state belongs to another dataset, plan or
                release, lies beyond the end of this loader, is not a state, or records
                nothing to replay.
        """
        check_grown(grown)
        if isinstance(state, Mapping) and not state:
            return
        if check_flag(replay, "replay"):
            if grown is not None:
                raise InvalidArgumentError("replay=True and grown exclude each other")
            self._session.load_state_dict(state)
            self._session.replay()
        elif grown is None:
            self._session.load_state_dict(state)
        else:
            self._session.load_state_dict(state, grown)

    @property
    def dataset_names(self) -> tuple[str, ...]:
        """Names of a mixture's datasets, by the numbers in ``dataset_ids``.

        Datasets without a sequence have no number. For a loader of one dataset, its
        number is 0, and it has no name.
        """
        names = dict.fromkeys(self._session.run.names)
        return tuple(name for name in names if name is not None)

    @property
    def num_sequences(self) -> int:
        """Sequences of an epoch on all ranks.

        For a mixture, this is the sum over all datasets.
        """
        return self._session.run.num_sequences

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens that are in no sequence of an epoch, with ``tail="drop"``."""
        return self._session.run.index.num_dropped_tokens

    @property
    def num_padding_tokens(self) -> int:
        """Padding tokens in the sequences of an epoch."""
        return self._session.run.index.num_padding_tokens

    def __len__(self) -> int:
        """Return the steps of a whole iteration, the same on every rank.

        Raises:
            TypeError: If the iteration never ends.
        """
        run = self._session.run
        steps = run.at(run.beginning(0)).route.num_steps
        if steps is None:
            raise TypeError(
                "this loader has no length: it never ends; give it epochs, or a "
                "mixture stop, max_steps or max_tokens"
            )
        return steps

    def at(self, step: int, *, rank: int | None, world_size: int) -> Batch | None:
        """Return the batch of a step for any rank of any world size.

        Needs ``global_batch_size``. The same arguments give the same batch in any
        process. So ranks of an elastic job may come and go, and need to agree only on
        the number of the step. The last requested step is kept in memory, and the next
        step for the same rank and world size is read ahead. Requesting a step means
        that all steps before it are done: ``state_dict()`` then returns the state at
        its beginning.

        Args:
            step: Number of the step in the current iteration. Skipped steps have none.
            rank: Rank whose batch to return. None for a process that waits: it gets no
                batch and reads nothing.
            world_size: Number of ranks that share the step.

        Returns:
            The rows of the rank as one batch; None for ``rank=None``.

        Raises:
            InvalidArgumentError: If there is no such step or rank, or the loader has no
                ``global_batch_size``.

        Example:
            >>> batch = loader.at(120, rank=1, world_size=3)  # doctest: +SKIP
            >>> loss = model(batch) * loader.weight  # doctest: +SKIP
        """
        return self._fleet_view("at()").at(step, rank, world_size)

    @property
    def weight(self) -> float:
        """Weight of the last batch in a mean over ranks.

        It is the rank's share of the step's sequences, times the number of ranks.
        Multiply the mean loss of the batch by it before gradients are averaged. It is 1
        if all ranks have equally many rows, and 0 for a process that got none.

        Raises:
            InvalidArgumentError: If no batch was taken, or the loader has no
                ``global_batch_size``.
        """
        return self._fleet_view("weight").weight

    def _fleet_view(self, asked: str) -> Any:
        """Return the view, if its steps are those of a fleet."""
        if self._session.settings.fleet is None:
            raise InvalidArgumentError(
                f"{asked} needs steps that are the same for any number of ranks: give "
                "the Loader global_batch_size= in place of batch_size"
            )
        return self._session

    def seek(self, step: int) -> None:
        """Move to a step of the current iteration; a running loop continues there.

        Args:
            step: Number of the step. For a skipped step, the next step that is not
                skipped is used. The number of steps means the end: a running loop is
                then over; without a loop the loader is at step 0 of the next iteration.

        Raises:
            InvalidArgumentError: If there is no such step, or it lies before a resume
                with another batch size or world size.
        """
        with self._session.lock:
            cursor = self._session.position.whole
            index = cursor.route.checked_index(Step(step), past_end=True)
            self._session.go_on(cursor.state_after(index), is_new=True)

    def skip(self, steps: Iterable[int]) -> None:
        """Leave out steps of the current iteration, such as steps with bad batches.

        The iteration continues as if their sequences did not exist, and so does every
        run that loads its state, at any world size. The other steps keep their numbers.
        Steps that were skipped before stay skipped. ``error.steps`` of an error about
        data has the steps that need the unreadable data.

        Args:
            steps: Numbers of coming steps, such as ``range(1190, 1210)``.

        Raises:
            InvalidArgumentError: If a step was taken already or does not exist, no step
                is given after an error, there are more separate ranges of steps than a
                small state can hold, or worker processes of a ``DataLoader`` iterate.
        """
        with self._session.lock:
            session, run = self._session, self._session.run
            now = session.position.now
            if isinstance(steps, Iterable):  # Else it is refused below.
                steps = [*steps]
            if session.has_failed and not steps:
                raise InvalidArgumentError(
                    "skip() got no steps, and the loop would raise the same error "
                    "again: an error without steps is not about the data of a step"
                )
            state = now.skipping(run.at(now).route, steps)
            session.check_change("skip()", steps)
            session.go_on(state, is_new=False)

    def locate(self, step: int, row: int) -> list[Origin]:
        """Return where a row of this rank's batches comes from, without delivering it.

        Args:
            step: Number of the step in the current iteration.
            row: Row of the batch.

        Raises:
            InvalidArgumentError: If there is no such row, the step is skipped, or it
                lies before a resume with another batch size or world size.
        """
        return self._session.position.whole.origins(Step(step), row)

    def plan(self, steps: Iterable[int]) -> Plan:
        """Return the plan of steps of this rank. Reads no data and moves no position.

        Each row of a batch is a sequence, and each sequence consists of segments: token
        ranges of pages, as the engine gets them. Pages are counted over all
        datasets in turn, see ``loader.view().run.index.first_page``. With
        :class:`Packed`, a segment names a bundle instead of a page: an element of
        ``bundles.key``, a group of pages that are packed together. :meth:`locate` reads
        these pages to return the documents. With :class:`Documents`, a segment is a row
        of a column, and pages are counted over all columns.

        Args:
            steps: Numbers of steps in the current iteration, such as ``range(3)``.

        Returns:
            :class:`~pagefeed.run.Plan`: ``step``, ``row`` and ``sequence``, int64
            [rows] each; ``segments`` with int64 ``sequence`` (an index into these
            arrays) and ``page``, uint32 ``row``, ``first_token``, ``num_tokens`` and
            ``offset`` [segments] each; uint32 ``epoch`` [segments], for which infilled
            documents are read; ``bundles``, or None.

        Raises:
            InvalidArgumentError: If a step does not exist, is skipped, or lies before a
                resume with another batch size or world size.

        Example:
            >>> plan = loader.plan(range(3))  # doctest: +SKIP
            >>> pages = np.unique(plan.segments.page)  # doctest: +SKIP
            >>> [loader.dataset.index.locate(page) for page in pages]  # doctest: +SKIP
            [Page(file='...corpus/web/part-0.parquet', row_group=0, page=0, ...)]
        """
        return self._session.plan(steps)

    def steps_of(self, file: str | os.PathLike[str], row: int) -> list[Slot]:
        """Return the steps that deliver a document in the current epoch.

        Args:
            file: Path of a file of the dataset.
            row: Row, counted within the file.

        Returns:
            Step, rank and row of every sequence with tokens of the document, sorted by
            step. Skipped or dropped sequences are left out. The list is empty for a
            document that the dataset does not select.

        Raises:
            InvalidArgumentError: If there is no such document, or a part of it was
                delivered before a resume with another batch size or world size.
        """
        session, run = self._session, self._session.run
        row = check_whole(row, "row", least=0)
        path, parts = os.fspath(file), (run.datasets, run.indexes)
        containing = sequences_of_document(*parts, path, row)
        cursor = session.position.whole
        now, end = cursor.position_of(session.position.now), cursor.end
        # After the last batch it is still the epoch of that batch.
        now = now if end is None else min(now, end - 1)
        slots = list[Slot]()
        for dataset, sequences, row_number in containing:
            here = cursor.route.slots(cursor.positions([(dataset, sequences)], now))
            if row_number is not None:
                cut = cast("DocumentBatches", session.run.sequences)
                here = cut.slots(cursor, here, row_number)
            slots += here
        return sorted(slots)

    def set_weights(self, weights: Mapping[str, float], *, anneal: int = 0) -> None:
        """Mix with other weights from the next step on.

        The state records the weights: a run that loads it continues with them. Later
        stages still begin at their steps. So do weights that were set for later steps
        before a ``seek`` back. All ranks must call this method at the same step.

        Args:
            weights: Weight of each dataset, in the unit of the mixture: tokens or
                sequences. Datasets that are not named are left out.
            anneal: Steps over which the current weights change linearly to these.

        Raises:
            InvalidArgumentError: If the loader has no mixture, a weight or a name is
                wrong, or there were more changes than a small state can hold.
        """
        session, run = self._session, self._session.run
        session.check_state()
        sequences = check_whole(anneal, "anneal", least=0) * run.step_sequences
        with session.lock:
            session.reweight(weights, sequences)

    def stats(self, *, by: Literal["file"] | None = None) -> dict[str, Any]:
        """Return counters since the loader first ran in this process.

        With ``by="file"`` it returns a dict for each file instead, the file that took
        most time first: ``requests``, ``bytes``, ``retries``, ``seconds``,
        ``p50_seconds`` and ``p99_seconds`` of a request, to about a tenth, and
        ``bad_pages``. They are of all loaders of this process, since the first such
        call: make one before the loop.

        - ``pages_loaded``: pages read; ``pages_reloaded``: pages read again for lack of
          memory.
        - ``slices_read``: reads of tokens in flat files that did not read the whole
          page.
        - ``index_reads`` and ``payload_reads``: reads for the spans of streams.
        - ``bytes_read``: stored bytes that all of these read.
        - ``batches``, and ``batches_ready``: those that were ready when asked for.
        - ``tokens`` and ``padding_tokens`` in these batches.
        - ``splits``: how often a packed document that fits into one row was split
          over two.
        - ``wait_seconds``: time spent waiting for batches.
        - ``peak_bytes``: most memory that the engine held.
        - ``padding_sequences``: rows that fill up last steps with ``drop_last=False``.
        - ``NAME/sequences`` and ``NAME/tokens`` of each dataset of a mixture: delivered
          by the current or last iteration on all ranks. Tokens are estimated by the
          mean of a sequence. With ``balance`` and some 256 ranks or more, counts
          inside a stretch ignore how sequences were moved in it.
        - ``storage/requests``, ``storage/retries``, ``storage/hedges``,
          ``storage/in_flight``, ``storage/bytes_fetched``, ``storage/bytes_wanted`` of
          remote files: for everything that uses this storage, indexing included.
        """
        if by is None:
            return self._session.stats()
        check_choice(by, ("file",), "by")
        return self._session.reads_by_file()

    def view(self) -> RunView:
        """Return the run of this loader, for adapters and reports.

        It says what is delivered at which position, and the position of the loader; see
        :mod:`pagefeed.contract`.
        """
        return self._session


def as_rank(loader: Loader, rank: int) -> Loader:
    """Return a loader for another rank of the same run, at the position of this one."""
    session = loader.view()
    settings = replace(session.settings, rank=rank)
    return rebuild(Loader, settings, session.position.saved)
