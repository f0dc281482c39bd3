"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self, cast

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
    ContextParallel,
    Decode,
    DType,
    Fields,
    LoaderSession,
    LoaderSettings,
    Session,
    check_padding,
    open_session,
    parse_dtype,
)
from pagefeed.dataset import Dataset, UncountedText, check_dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import resolve_rank, resolve_threads, warn_of_accelerator
from pagefeed.loader_facts import LoaderFacts
from pagefeed.mixture import Mixture
from pagefeed.order import Balance, BalanceLike, Shuffle
from pagefeed.run import (
    LoaderState,
    MixtureSource,
    Origin,
    Slot,
    sequence_of_slot,
)
from pagefeed.sequences import SequenceSetting, check_sequences

__all__ = ["Loader", "as_rank", "loader_session_of", "session_of", "share"]


class Loader(LoaderFacts):
    """Feeds shuffled batches of token sequences, straight from Parquet.

    ``for batch in loader`` runs through one epoch, the next loop through the next one,
    shuffled anew. ``state_dict()`` between two batches is the position of what was
    consumed; ``load_state_dict`` makes the next loop continue there, on any number of
    ranks. A loop that is left early begins its epoch again; an iterator that an
    exception left goes on with the same step. ``seek`` and ``skip`` move about in an
    epoch, also inside a loop; anything else that places a loader ends a running loop,
    whose iterator then says so.

    Args:
        dataset: What :func:`pagefeed.parquet` returned, or :func:`pagefeed.mix`; or
            texts that are not counted, see ``tokenize(count=False)``.
        sequences: How to cut it, such as ``Windows(2048)``.
        batch_size: Sequences per step on this rank.
        seed: Seed of the order.
        shuffle: ``"page"``, ``"row_group"``, ``"row"``, ``"buffer"``, None for file
            order, or a :class:`Shuffle`.
        balance: ``"attention"``, ``"tokens"`` or a :class:`Balance` deals sequences so
            that those of a step cost about the same on every rank; see
            docs/step-costs.md. The order then also depends on the world size that an
            epoch begins with.
        context_parallel: A :class:`ContextParallel`: this process gets its part of each
            sequence. Ranks of its group have the same ``rank``.
        memory: Bytes the loader may hold, such as ``"1GiB"``.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``, or that type of NumPy or
            torch.
        padding: Token that fills up short sequences. Where it is more than 0.1 % of an
            epoch, and fields tell it from tokens by neither labels nor a mask, a
            :class:`PaddingWarning` says so.
        vocab_size: Rows of the embedding: a token id that is not below it is refused
            when its page is read, as are negative ones always. By default the size of
            the vocabulary that files of :func:`pagefeed.tokenize` record.
        fields: What a batch carries: names such as ``("input_ids", "labels")``, or
            :class:`Fields` with further settings.
        transform: Called with every batch, a dict of arrays or tensors that it may
            change in place; what it returns is delivered. Other processes need it to
            be picklable.
        decode: Functions by column of :class:`Documents`, ``{"image": decode_image}``,
            called for every row on threads, ahead of the consumer; or :class:`Decode`.
        pin_memory: Hand out tensors in page-locked memory; without CUDA this only
            warns.
        epochs: Epochs of one iteration, joined without a gap; None never ends. An
            epoch of a mixture is its whole schedule, as long as its stop says: leave
            1, or say None of a mixture without an end. Otherwise a loop over such a
            mixture warns that it has none. One of texts that are not counted is a pass
            of all lanes, on one rank.
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
        dataset: Dataset | Mixture | UncountedText,
        *,
        sequences: SequenceSetting,
        batch_size: int,
        seed: int = 0,
        shuffle: Shuffle | str | bool | None = "page",
        balance: BalanceLike = None,
        context_parallel: ContextParallel | None = None,
        memory: int | str = "1GiB",
        format: Literal["numpy", "torch"] = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        fields: Fields | Iterable[str] = ("input_ids",),
        transform: Callable[[Batch], Any] | None = None,
        decode: Decode | Mapping[str, Callable[[Any], Any]] | None = None,
        pin_memory: bool = False,
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        if not isinstance(dataset, UncountedText):
            check_dataset(dataset, "dataset")
        check_sequences(sequences)
        dtype = parse_dtype(dtype)
        padding = check_padding(padding, dtype, sequences)
        fields = Fields.parse(fields)
        fields.check_tokens(dtype)
        rank, world_size = resolve_rank(rank, world_size)
        settings = LoaderSettings(
            # Uncounted text has what its own kind of session asks of it.
            dataset=cast("Dataset | Mixture", dataset),
            sequences=sequences,
            batch_size=check_positive(batch_size, "batch_size"),
            seed=check_whole(seed, "seed"),
            shuffle=Shuffle.parse(shuffle),
            balance=Balance.parse(balance),
            context_parallel=ContextParallel.parse(context_parallel),
            memory=parse_bytes(memory, name="memory"),
            format=format,
            dtype=dtype,
            padding=padding,
            vocab_size=check_vocab_size(vocab_size, padding=padding),
            fields=fields,
            transform=check_callable(transform, "transform"),
            decode=Decode.parse(decode),
            pin_memory=pin_memory,
            epochs=epochs if epochs is None else check_positive(epochs, "epochs"),
            drop_last=check_flag(drop_last, "drop_last"),
            rank=rank,
            world_size=world_size,
            num_threads=resolve_threads(num_threads),
        )
        self._session = open_session(settings)

    def __iter__(self) -> Iterator[Batch]:
        """Start the current epoch, or continue where a state was loaded."""
        if not self._session.is_adapted:
            self._session.is_adapted = warn_of_accelerator()
        return self._session.iterate()

    def __getitem__(self, number: object) -> NoReturn:
        """Refuse to be a dataset with numbers, as torch's ``DataLoader`` takes it for.

        Raises:
            InvalidArgumentError: Naming what to call.
        """
        raise InvalidArgumentError(
            f"a Loader has no item {number!r:.40}, it is iterated: `for batch in "
            "loader` needs no DataLoader; where there must be one, "
            "DataLoader(pagefeed.torch.as_dataset(loader), batch_size=None)"
        )

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle as configuration and place: threads and files stay here."""
        return _rebuild, (self._settings, self._session.saved)

    def close(self) -> None:
        """Stop the threads of this process and give their memory back.

        Batches that were handed out stay as they are, and the position can still be
        saved. Who asks for another batch gets a :class:`CancelledError`. A loader that
        is no longer used, and the end of the program, do the same.

        Example:
            >>> with Loader(...) as loader:  # doctest: +SKIP
            ...     batch = next(iter(loader))
        """
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types.

        The same on every rank that has taken as many steps. It takes less than 1 KB; of
        a mixture, which records its datasets and their weights, about 0.5 KB and never
        more than 128 KiB.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: then
                this process does not know the position.
        """
        return self._session.state_dict()

    def load_state_dict(
        self,
        state: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        grown: Literal["next-epoch"] | None = None,
    ) -> None:
        """Make the next iteration continue at ``state``, by a seek.

        World size, batch size, memory and threads may differ from those of the run
        that saved it. An empty state changes nothing. Of texts that are not counted it
        is the state of this rank, or, on another number of ranks, the list of those of
        all ranks.

        Args:
            state: What ``state_dict`` returned.
            grown: The dataset may have got files since: with ``"next-epoch"`` what
                remained of the epoch comes exactly as it would have, and the files
                that were added from the next epoch on. A state of the data as they are
                is loaded as ever.

        Raises:
            InvalidArgumentError: If ``grown`` is something else, or is asked of a
                mixture or of ``epochs`` other than 1.
            StateMismatchError: If it belongs to another dataset, plan or release, lies
                beyond the end of this loader, or is no state at all.
        """
        if grown not in (None, "next-epoch"):
            raise InvalidArgumentError(f"grown={grown!r} must be 'next-epoch' or None")
        if isinstance(state, Mapping) and not state:
            return
        if grown is None:
            self._session.load_state_dict(state)
        else:
            self._counted.load_grown(LoaderState.from_dict(cast("Any", state)))

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration the ``epoch``-th; a no-op if it will be anyway.

        Trainers count iterations, so with ``epochs=2`` it runs the epochs ``2 * epoch``
        and ``2 * epoch + 1``. With ``epochs=None`` it begins at epoch ``epoch``. The
        number of the iteration that runs or goes on is a no-op, so that what trainers
        call after a resume never undoes it; of texts that are not counted so is every
        epoch that this iteration comes to. A lower one does, and warns.

        Raises:
            InvalidArgumentError: If it is not a whole number, at least 0.
        """
        epoch = check_whole(epoch, "epoch", least=0)
        self._session.set_epoch(epoch)

    def seek(self, step: int) -> None:
        """Go to a step of the current iteration; a running one goes on there.

        Args:
            step: Number of the step; of a skipped one, the next that is not. The
                number of steps leads to the end: there a running loop is over, and
                without one the loader stands at step 0 of the next iteration.

        Raises:
            InvalidArgumentError: If there is no such step, or it lies before a resume
                with other sizes, which this loader knows nothing of.
        """
        with self._session.lock:
            session, begin = self._counted, self._counted.begin
            route = session.run.known_route(begin)
            index = route.checked_index(step, past_end=True)
            position, number = route.position_after(index), route.number_of(index)
            session.move(session.run.state_at(begin, position, number), is_new=True)

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
        with self._session.lock:
            session, run = self._counted, self._counted.run
            state = session.state
            session.move(state.skipping(run.route(state), steps), is_new=False)

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
        sequence = sequence_of_slot(self._counted.known_planner(), step, row)
        return self._counted.run.source.origins(sequence)

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
        session = self._counted
        held = session.run.source.document_sequences(
            os.fspath(file), check_whole(row, "row", least=0)
        )
        now = session.run.source.at(session.state).start
        route = session.run.known_route(session.begin)
        return route.slots(session.track.positions(held, now))

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
        session, source = self._counted, self._counted.run.source
        if not isinstance(source, MixtureSource):
            raise InvalidArgumentError(
                "set_weights needs a mixture: Loader(pagefeed.mix({'web': (web, 0.7), "
                "...}), ...)"
            )
        session.check_state()
        sequences = check_whole(anneal, "anneal", least=0) * session.run.step_sequences
        with session.lock:
            state = source.reweighted(session.state, weights, sequences)
            session.move(state, is_new=False)

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        ``pages_loaded``, ``pages_reloaded`` (read again for lack of memory),
        ``parts_read`` (reads of tokens of flat files, without the rest of their page),
        ``index_reads`` and ``payload_reads`` (of the spans of streams), ``bytes_read``
        (as stored, by all of these), ``batches``, ``batches_ready`` (those there when
        they were asked for), ``tokens``, ``padding_tokens`` and ``splits`` in these
        (places at which a packed document goes on that would have fitted into one
        sequence), ``wait_seconds`` (spent waiting for a batch) and ``peak_bytes``;
        ``padding_sequences``, the rows that fill up the last steps with
        ``drop_last=False``. For a mixture
        also ``NAME/sequences`` and ``NAME/tokens`` of each dataset: what the iteration,
        or the last one, delivered so far on all ranks, tokens by the mean tokens of a
        sequence. For remote files also ``storage/requests``, ``storage/retries``,
        ``storage/hedges``, ``storage/in_flight``, ``storage/bytes_fetched`` and
        ``storage/bytes_wanted`` of all that uses this storage, indexing included. For
        texts that are not counted also ``passes``, those that all lanes of this rank
        have made, and ``coverage``, the share of the next one.
        """
        return self._session.stats()

    def metrics(self, group: Any = None) -> dict[str, float]:  # noqa: ANN401 - torch's
        """Return the numbers of this rank's run, for any tracker; see docs/trainers.md.

        Args:
            group: A process group (or ``torch.distributed.group.WORLD``) over which to
                take them: all its members must call, and get the same. Times are those
                of the slowest rank.

        While worker processes of a ``DataLoader`` iterate, this process knows none of
        them: then all are NaN, and a warning says so.
        """
        numbers = self._session.metrics(group)
        try:
            self._session.check_state()
        except InvalidArgumentError as error:
            warnings.warn(f"metrics() knows nothing: {error}", stacklevel=2)
            return dict.fromkeys(numbers, math.nan)
        return numbers

    def check_ranks(self, group: Any = None, *, same: Any = None) -> None:  # noqa: ANN401 - torch's
        """Prove, by one exchange, that ranks get what they must; on all of them.

        Those that must get the same batches do, the others do not, none is missing, and
        all have the same plan and position.

        Args:
            group: The process group of all that train; None for all processes.
            same: The group of those that must get the same batches as this process,
                as with tensor, pipeline or context parallelism. Without it a warning
                says what is not proved, where a job has such groups.

        Raises:
            InvalidArgumentError: Naming two processes that disagree.
        """
        self._session.check_ranks(group, same)


def loader_session_of(loader: Loader) -> LoaderSession:
    """Return what is behind a loader, for the package's own adapters."""
    return loader._session  # noqa: SLF001 - the one way in


def session_of(loader: Loader) -> Session:
    """Return what is behind a loader of counted tokens, for reports.

    Raises:
        UncountedError: If its tokens are not counted.
    """
    return loader._counted  # noqa: SLF001 - likewise


def share(loader: Loader, num_shares: int) -> Loader:
    """Return a loader that begins where the next iteration of this one would.

    It has a part of the memory and threads, and leaves pinning to the process that
    talks to the device.
    """
    session = loader_session_of(loader)
    return _rebuild(session.settings.share(num_shares), session.following)


def as_rank(loader: Loader, rank: int) -> Loader:
    """Return the loader of another rank of the same run, where this one stands."""
    session = loader_session_of(loader)
    return _rebuild(replace(session.settings, rank=rank), session.saved)


def _rebuild(settings: LoaderSettings, state: object) -> Loader:
    loader = Loader.__new__(Loader)
    loader._session = open_session(settings)  # noqa: SLF001 - a twin
    loader._session.resume(state)  # noqa: SLF001
    return loader
