"""A loader of texts that are tokenized as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pagefeed.checks import warn_of_texts
from pagefeed.core._base import (
    Facts,
    check_callable,
    check_positive,
    check_seconds,
    check_vocab_size,
    check_whole,
    near_name,
)
from pagefeed.core.any_loader import AnyLoader, Setting
from pagefeed.core.batches import (
    DType,
    FieldName,
    Fields,
    Format,
    check_padding,
    parse_dtype,
)
from pagefeed.core.dataset import ParquetRows
from pagefeed.core.loader import Loader
from pagefeed.core.order import BlockShuffle
from pagefeed.core.ranks import resolve_memory, resolve_rank, resolve_threads
from pagefeed.core.sequences import Packed, Windows
from pagefeed.errors import InvalidArgumentError
from pagefeed.tokenizer import Tokenizer
from pagefeed.uncounted.settings import (
    TextSettings,
    check_cut,
    check_text_fields,
    check_texts,
    parse_shuffle,
)
from pagefeed.uncounted.text_view import TextView


class TextLoader(AnyLoader):
    """Feeds batches of texts that are tokenized as they are read, and never counted.

    Use it if there are too many texts to count their tokens first: it begins at once.
    Every pass shuffles blocks of rows and deals them to lanes. Each lane joins and cuts
    its documents as they are read, or packs the documents of a block. ``state_dict()``
    returns the positions of the lanes of this rank.

    A loop continues where the loop before ended, even if that was left early. Sequences
    have no numbers, so there is no length, ``seek``, ``skip``, ``locate`` or ``plan``.
    For these, use a :class:`Loader` of ``dataset.tokenize(tokenizer)``, which counts
    tokens once. Needs ``pagefeed[pyarrow]``.

    Args:
        dataset: Texts, such as ``pagefeed.parquet("web/", column="text")``, or a
            selection of their rows.
        tokenizer: The :class:`Tokenizer` that encodes them.
        sequences: How to cut them: :class:`Windows` without ``overlap`` and
            ``join="file"``, or :class:`Packed` without ``multiple_of``.
        batch_size: Sequences per step on this rank.
        seed: Seed of the order.
        shuffle: A kind of :class:`Shuffle` that permutes blocks, such as ``"page"``;
            or None for file order. Rows are shuffled inside their block.
        memory: Bytes the loader may hold, such as ``"1GiB"``. It must fit a block for
            each lane of this rank.
        format: ``"numpy"`` or ``"torch"``.
        dtype: ``"int64"``, ``"int32"`` or ``"uint16"``, or that type of NumPy or
            torch.
        padding: Token that fills up packed sequences.
        vocab_size: Rows of the embedding: a token id that is not below it is refused.
            By default the size of the vocabulary of the tokenizer and the separators.
        fields: What a batch carries: names such as ``("input_ids", "position_ids")``,
            or :class:`Fields` with further settings; not ``dataset_ids`` and
            ``metadata``. By default ``input_ids`` and ``labels``.
        transform: Called with every batch, a dict of arrays or tensors that it may
            change in place. The loader delivers what it returns. It may take a second
            argument ``rng``, see :class:`Loader`.
        pin_memory: Return tensors in page-locked memory. Without CUDA the loader only
            warns.
        epochs: Passes of one iteration, which ends when the last lane ends its pass.
            None never ends. Several ranks need None, since their texts have unequal
            numbers of tokens.
        rank: Data-parallel rank. By default from the launcher.
        world_size: Number of data-parallel ranks. By default from the launcher.
        num_threads: Threads that read and encode. By default this rank's share of the
            CPUs.
        warn_after: Seconds of a wait for a batch after which the log tells what it
            waits for, as by :class:`Loader`. None for never.

    Raises:
        InvalidArgumentError: If an argument cannot be right, there are fewer blocks
            than ranks, or ``memory`` is too little.
        MissingDependencyError: If ``format="torch"`` and torch is not installed.

    Example:
        >>> tok = Tokenizer("tokenizer.json")  # doctest: +SKIP
        >>> loader = TextLoader(  # doctest: +SKIP
        ...     parquet("web/", column="text"), tok,
        ...     sequences=Windows(2048, eos=tok.eos), batch_size=8, epochs=None,
        ... )
        >>> batch = next(iter(loader))  # doctest: +SKIP
        >>> batch["input_ids"]  # int64 [8, 2048] # doctest: +SKIP
    """

    _open = TextView
    _session: TextView

    tokenizer = Setting[Tokenizer]()

    def __init__(
        self,
        dataset: ParquetRows,
        tokenizer: Tokenizer,
        *,
        sequences: Windows | Packed,
        batch_size: int,
        seed: int = 0,
        shuffle: BlockShuffle | None = "page",
        memory: int | str = "1GiB",
        format: Format = "numpy",  # noqa: A002 - as others name it
        dtype: DType = "int64",
        padding: int = 0,
        vocab_size: int | None = None,
        fields: Fields | Iterable[FieldName] | None = None,
        transform: Callable[..., Any] | None = None,
        pin_memory: bool = False,
        epochs: int | None = 1,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        warn_after: float | None = 30.0,
    ) -> None:
        check_texts(dataset, tokenizer)
        cut = check_cut(sequences)
        token_dtype = parse_dtype(dtype)
        padding = check_padding(padding, token_dtype, cut)
        fields = Fields.parse(fields, cut)
        fields.check_tokens(token_dtype)
        check_text_fields(fields)
        rank, world_size = resolve_rank(rank, world_size)
        epochs = epochs if epochs is None else check_positive(epochs, "epochs")
        if epochs is not None and world_size > 1:
            raise InvalidArgumentError(
                f"epochs={epochs} with world_size={world_size}: the texts of ranks "
                "come to unequal numbers of tokens, so that ranks would end at "
                "different steps; give epochs=None and end by step"
            )
        settings = TextSettings(
            dataset=dataset,
            tokenizer=tokenizer,
            sequences=cut,
            batch_size=check_positive(batch_size, "batch_size"),
            seed=check_whole(seed, "seed"),
            shuffle=parse_shuffle(shuffle, dataset),
            memory=resolve_memory(memory),
            format=format,
            dtype=token_dtype,
            padding=padding,
            vocab_size=check_vocab_size(vocab_size, padding=padding),
            fields=fields,
            transform=check_callable(transform, "transform"),
            pin_memory=pin_memory,
            epochs=epochs,
            rank=rank,
            world_size=world_size,
            num_threads=resolve_threads(num_threads),
            warn_after=check_seconds(warn_after, "warn_after"),
        )
        warn_of_texts(tokenizer, cut, fields)
        self._session = TextView(settings)

    def load_state_dict(
        self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> None:
        """Make the next iteration continue at ``state``: exactly, lane by lane.

        Batch size, memory and threads may differ from the run that saved the state. An
        empty state changes nothing.

        Args:
            state: What ``state_dict`` returned on this rank. When the number of ranks
                changed, the list of the states of all ranks.

        Raises:
            StateMismatchError: If the state belongs to another run, is not a state, or
                lacks lanes of this rank.
        """
        super().load_state_dict(state)

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        - ``passes`` and ``coverage``: passes that all lanes of this rank have
          completed, and the share of the next pass that they have read.
        - ``pages_loaded``: pages read.
        - ``batches``, and ``batches_ready``: those whose blocks were ready when asked
          for.
        - ``tokens`` of these batches, padding included, and ``padding_tokens``.
        - ``wait_seconds``: time spent making batches.
        - ``peak_bytes``: most tokens that lanes held, in bytes.
        - ``storage/requests``, ``storage/retries`` and so on of remote files, see
          :meth:`Loader.stats`.
        """
        return self._session.stats()

    def view(self) -> TextView:
        """Return the run of this loader, for adapters.

        See :mod:`pagefeed.contract`.
        """
        return self._session

    def _facts(self) -> Facts:
        facts = dict(super()._facts())
        return {"dataset": facts.pop("dataset"), "tokenizer": self.tokenizer, **facts}

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that says how to get an attribute that only a Loader has.

        Raises:
            AttributeError: Always.
        """
        advice = "" if name.startswith("_") else near_name(name, dir(type(self)))
        if hasattr(Loader, name):
            advice = (
                ", as its sequences have no numbers before they come: count the tokens "
                "once, Loader(dataset.tokenize(tokenizer), ...), ahead by `pagefeed "
                "count`"
            )
        error = f"a TextLoader has no {name!r}{advice}"
        raise AttributeError(error, name=name, obj=self)
