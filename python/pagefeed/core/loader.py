"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pagefeed._names import name_as_imported
from pagefeed.core._base import (
    check_callable,
    check_choice,
    check_flag,
    check_positive,
    check_vocab_size,
    check_whole,
    parse_bytes,
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
    open_session,
    parse_dtype,
    sized,
)
from pagefeed.core.dataset import Source, check_dataset
from pagefeed.core.order import Shuffle, ShuffleLike
from pagefeed.core.ranks import resolve_rank, resolve_threads
from pagefeed.core.run import Origin, Slot, Step
from pagefeed.core.sequences import Cut, check_sequences
from pagefeed.core.wiring import parsed, room
from pagefeed.errors import InvalidArgumentError

__all__ = ["Loader", "as_rank"]


class Loader(AnyLoader):
    """Feeds shuffled batches of token sequences, straight from Parquet.

    ``for batch in loader`` runs through one epoch. The next loop runs through the next
    epoch, shuffled anew. ``state_dict()`` between two batches returns the consumed
    position, and ``load_state_dict`` makes the next loop continue there, on any number
    of ranks.

    A loop that was left early begins its epoch again. An iterator that raised goes on
    with the same step. ``seek`` and ``skip`` move within an epoch, also inside a loop.
    ``load_state_dict``, ``set_epoch`` and another ``iter`` end a running loop: its
    iterator then raises :class:`CancelledError`.

    Args:
        dataset: A dataset, such as :func:`pagefeed.parquet` returns, or a mixture of
            :func:`pagefeed.mix`.
        sequences: How to cut it, such as ``Windows(2048)``.
        batch_size: Sequences per step on this rank.
        global_batch_size: Sequences per step on all ranks, in place of ``batch_size``,
            for any number of ranks; or stages ``[(step, size), ...]``. Parts of a step
            differ by one row at most; see :meth:`at` and
            docs/explanation/elastic.md.
        batch_tokens: Tokens per step on this rank at most, in place of ``batch_size``:
            padding counts. A step of :class:`Documents` takes as many as fit. Beside
            ``global_batch_size`` a step has so many batches of this budget, and a rank
            gets the documents of its share of them.
        seed: Seed of the order.
        shuffle: ``"page"``, ``"row_group"``, ``"auto"`` for the one of these two that
            suits a bucket, ``"row"``, ``"buffer"``, None for file order, or a
            :class:`Shuffle`.
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
        fields: What a batch carries: names such as ``("input_ids", "labels")``, or
            :class:`Fields` with further settings.
        transform: Called with every batch, a dict of arrays or tensors that it may
            change in place. The loader delivers what it returns. It must be picklable
            if worker processes use the loader.
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
        num_threads: Threads of the engine. By default this rank's share of the CPUs.

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
    global_batch_size = Setting[Any]()
    balance = Setting[Any]()
    context_parallel = Setting[Any]()
    drop_last = Setting[bool]()

    def __init__(
        self,
        dataset: Source,
        *,
        sequences: Cut,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        global_batch_size: int | Sequence[tuple[int, int]] | None = None,
        seed: int = 0,
        shuffle: ShuffleLike = "page",
        balance: Any = None,
        context_parallel: Any = None,
        memory: int | str = "1GiB",
        format: Format = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        fields: Fields | Iterable[FieldName] = ("input_ids",),
        transform: Callable[[Batch], Any] | None = None,
        decode: Any = None,
        pin_memory: bool = False,
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        if getattr(dataset, "kind", None) != "mixture":
            check_dataset(dataset, "dataset")
        check_sequences(sequences)
        token_dtype = parse_dtype(dtype)
        padding = check_padding(padding, token_dtype, sequences)
        fields = Fields.parse(fields)
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
            balance=parsed("balance", balance),
            context_parallel=parsed("context_parallel", context_parallel),
            memory=parse_bytes(memory, name="memory"),
            format=format,
            dtype=token_dtype,
            padding=padding,
            vocab_size=check_vocab_size(vocab_size, padding=padding),
            fields=fields,
            transform=check_callable(transform, "transform"),
            decode=parsed("decode", decode),
            pin_memory=pin_memory,
            epochs=epochs if epochs is None else check_positive(epochs, "epochs"),
            drop_last=check_flag(drop_last, "drop_last"),
            rank=rank,
            world_size=world_size,
            num_threads=resolve_threads(num_threads),
            fleet=parsed("global_batch_size", global_batch_size),
        )
        self._session = self._open(settings)

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types.

        It is the same on every rank that has taken as many steps. It takes less than
        1 KB. A mixture also records its datasets and changes of weights, see
        docs/explanation/mixtures.md: 128 KiB at most.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: this
                process does not know their position.
        """
        return self._session.state_dict()

    def load_state_dict(
        self,
        state: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        grown: Literal["next-epoch", "now"] | None = None,
        replay: bool = False,
    ) -> None:
        """Make the next iteration continue at ``state``, by a seek.

        World size, batch size, memory and threads may differ from those of the run
        that saved it. An empty state changes nothing.

        Args:
            state: What ``state_dict`` returned.
            grown: If files were added to the dataset since: ``"next-epoch"`` delivers
                what remains of the epoch exactly as it would have been, and the new
                files from the next epoch on; ``"now"`` mixes these into what remains,
                each sequence once. It changes nothing if the data are the same.
            replay: Begin the recorded iteration again in place of continuing it: the
                same sequences come in the same order, under the weights that the state
                records, set by whatever policy, without its losses. A state that was
                saved after a loop's end replays that loop.

        Raises:
            InvalidArgumentError: If ``grown`` is something else, or ``"now"`` is asked
                where steps ahead are skipped.
            StateMismatchError: If it belongs to another dataset, plan or release, lies
                beyond the end of this loader, is no state at all, or does not tell what
                to replay.
        """
        if grown is not None:
            check_choice(grown, ("next-epoch", "now"), "grown")
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

        Datasets without a sequence have none. One dataset alone, which is number 0, has
        no name.
        """
        names = dict.fromkeys(self._session.run.names)
        return tuple(name for name in names if name is not None)

    @property
    def num_sequences(self) -> int:
        """Sequences of an epoch on all ranks.

        A mixture counts those of all datasets.
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
            TypeError: If it never ends.
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

        Needs ``global_batch_size``. The same arguments give the same batch, in any
        process: members of a fleet come and go, and agree on the number of the step
        alone. The step that was asked for last is held, and the next one at the same
        place is read ahead. To ask for a step says that all before it are done:
        ``state_dict()`` is its beginning.

        Args:
            step: Number of the step in the current iteration. Skipped steps have none.
            rank: Whose part of the step; None for a member that waits: it gets no batch
                and reads nothing.
            world_size: Among how many ranks the step is divided.

        Returns:
            The rows of the rank as one batch; None for ``rank=None``.

        Raises:
            InvalidArgumentError: If there is no such step or place, or the loader has
                no ``global_batch_size``.

        Example:
            >>> batch = loader.at(1200, rank=1, world_size=3)  # doctest: +SKIP
            >>> loss = model(batch) * loader.weight  # doctest: +SKIP
        """
        return self._fleet_view("at()").at(step, rank, world_size)

    @property
    def weight(self) -> float:
        """Weight of the last batch in a mean over ranks.

        It is the rank's share of the step's sequences, times the number of ranks.
        Multiply the mean loss of the batch by it before gradients are averaged. It is 1
        where all ranks have as many rows, and 0 for a member that got none.

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
        """Go to a step of the current iteration; a running loop continues there.

        Args:
            step: Number of the step. A skipped step leads to the next that is not
                skipped. The number of steps leads to the end: a running loop is then
                over, and without one the loader stands at step 0 of the next iteration.

        Raises:
            InvalidArgumentError: If there is no such step, or it lies before a resume
                with another batch size or world size.
        """
        with self._session.lock:
            cursor = self._session.position.whole
            index = cursor.route.checked_index(Step(step), past_end=True)
            self._session.go_on(cursor.state_after(index), is_new=True)

    def skip(self, steps: Iterable[int]) -> None:
        """Leave out steps of the current iteration, such as those of bad batches.

        The iteration goes on as if their sequences did not exist, and so does every run
        that loads its state, at any world size. The other steps keep their numbers.
        Steps that were skipped before stay skipped. An error about data names in
        ``error.steps`` the steps that need the unreadable data.

        Args:
            steps: Numbers of steps that lie ahead, such as ``range(1190, 1210)``.

        Raises:
            InvalidArgumentError: If a step was taken already or does not exist, or
                there are too many separate ranges of them for a small state.
        """
        with self._session.lock:
            session, run = self._session, self._session.run
            now = session.position.now
            session.go_on(now.skipping(run.at(now).route, steps), is_new=False)

    def locate(self, step: int, row: int) -> list[Origin]:
        """Return where a row of this rank's batches comes from, without running.

        Args:
            step: Number of the step in the current iteration.
            row: Row of the batch.

        Raises:
            InvalidArgumentError: If there is no such row, the step is skipped, or it
                lies before a resume with another batch size or world size.
        """
        return self._session.position.whole.origins(Step(step), row)

    def plan(self, steps: Iterable[int]) -> Plan:
        """Return what steps of this rank read, without reading it: nothing moves.

        Rows of batches are sequences, and these are segments: token ranges of pages, as
        the engine is given them. Pages are numbered through all datasets in turn, see
        ``loader.view().run.index.first_page``. Of :class:`Packed` a segment names a
        bundle: an element of ``bundles.key``, whose pages are packed as one; ``locate``
        reads them to say which documents. Of :class:`Documents` a segment is a row of a
        column, and pages are numbered through all columns.

        Args:
            steps: Numbers of steps in the current iteration, such as ``range(3)``.

        Returns:
            :class:`~pagefeed.run.Plan`: ``step``, ``row`` and ``sequence``, int64
            [rows] each; ``segments`` with int64 ``sequence`` (an index into these) and
            ``page``, uint32 ``row``, ``first_token``, ``num_tokens`` and ``offset``
            [segments] each; uint32 ``epoch`` [segments], for which infilled documents
            are read; ``bundles``, or None.

        Raises:
            InvalidArgumentError: If a step does not exist, is skipped, or lies before a
                resume with another batch size or world size.

        Example:
            >>> plan = loader.plan(range(3))  # doctest: +SKIP
            >>> pages = np.unique(plan.segments.page)  # doctest: +SKIP
            >>> [loader.dataset.index.locate(page) for page in pages]  # doctest: +SKIP
            [Page(file='/data/corpus/0.parquet', row_group=2, page=7, ...), ...]
        """
        return self._session.plan(steps)

    def steps_of(self, file: str | os.PathLike[str], row: int) -> list[Slot]:
        """Return the steps that deliver a document in the current epoch.

        Args:
            file: Path of a file of the dataset.
            row: Row, counted within the file.

        Returns:
            Step, rank and row of every sequence with tokens of the document, by step.
            Sequences that are skipped or dropped are left out. A document that the
            dataset does not select has none.

        Raises:
            InvalidArgumentError: If there is no such document, or some of it was
                delivered before a resume with another batch size or world size.
        """
        session = self._session
        containing = session.run.document_sequences(
            os.fspath(file), check_whole(row, "row", least=0)
        )
        cursor = session.position.whole
        now, end = cursor.position_of(session.position.now), cursor.end
        # After the last batch it is still the epoch of that batch.
        now = now if end is None else min(now, end - 1)
        slots = list[Slot]()
        for dataset, sequences, row_number in containing:
            here = cursor.route.slots(cursor.positions([(dataset, sequences)], now))
            if row_number is not None:
                here = room("documents").slots_in_batches(cursor, here, row_number)
            slots += here
        return sorted(slots)

    def set_weights(self, weights: Mapping[str, float], *, anneal: int = 0) -> None:
        """Mix with other weights from the next step on.

        The state records the weights: a run that loads it goes on with them. Later
        stages begin where they would, and so do weights that were set at later steps
        before a ``seek`` back. All ranks must call this at the same step.

        Args:
            weights: Weight of each dataset, in tokens or sequences as the mixture says.
                Datasets that are not named are left out.
            anneal: Steps over which the present weights turn into these.

        Raises:
            InvalidArgumentError: If this is no mixture, a weight or a name is wrong, or
                there were too many changes for a small state.
        """
        session, run = self._session, self._session.run
        session.check_state()
        sequences = check_whole(anneal, "anneal", least=0) * run.step_sequences
        with session.lock:
            session.reweight(weights, sequences)

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        - ``pages_loaded``, and ``pages_reloaded``: read again for lack of memory.
        - ``parts_read``: reads of tokens of flat files without the rest of their page.
        - ``index_reads`` and ``payload_reads``: reads for the spans of streams.
        - ``bytes_read``: bytes as stored, by all of these.
        - ``batches``, and ``batches_ready``: those that were ready when asked for.
        - ``tokens`` and ``padding_tokens`` in these batches.
        - ``splits``: places where a packed document that would have fitted into one
          sequence goes on in the next.
        - ``wait_seconds``: time spent waiting for batches.
        - ``peak_bytes``: most memory that the engine held.
        - ``padding_sequences``: rows that fill up last steps with ``drop_last=False``.
        - ``NAME/sequences`` and ``NAME/tokens`` of each dataset of a mixture: delivered
          by the current or last iteration on all ranks. Tokens are counted by the mean
          of a sequence. With ``balance`` and some 256 ranks or more, within a stretch
          as if nothing was moved in it.
        - ``storage/requests``, ``storage/retries``, ``storage/hedges``,
          ``storage/in_flight``, ``storage/bytes_fetched``, ``storage/bytes_wanted`` of
          remote files: of all that uses this storage, indexing included.
        """
        return self._session.stats()

    def view(self) -> RunView:
        """Return the run behind this loader, for adapters and reports.

        It says what is delivered at which position, and where the loader stands; see
        :mod:`pagefeed.contract`.
        """
        return self._session


def as_rank(loader: Loader, rank: int) -> Loader:
    """Return a loader for another rank of the same run, at the position of this one."""
    session = loader.view()
    settings = replace(session.settings, rank=rank)
    return rebuild(Loader, settings, session.position.saved)


name_as_imported(__name__)
