"""What can be read off a loader: its settings, its sizes and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pagefeed._base import Facts, Setting, format_bytes, html_of, text_of
from pagefeed.batches import (
    Batch,
    ContextParallel,
    Fields,
    LoaderSession,
    LoaderSettings,
    Session,
)
from pagefeed.dataset import Dataset
from pagefeed.errors import UncountedError
from pagefeed.mixture import Mixture
from pagefeed.order import Balance, Shuffle
from pagefeed.sequences import SequenceSetting

__all__ = ["LoaderFacts"]


class LoaderFacts:
    """The settings, sizes and position of a loader; none of them can be set."""

    _session: LoaderSession

    dataset = Setting[Dataset | Mixture]()
    sequences = Setting[SequenceSetting]()
    batch_size = Setting[int]()
    seed = Setting[int]()
    shuffle = Setting[Shuffle]()
    balance = Setting[Balance | None]()
    context_parallel = Setting[ContextParallel | None]()
    memory = Setting[int]()
    format = Setting[Literal["numpy", "torch"]]()
    dtype = Setting[str]()
    padding = Setting[int]()
    vocab_size = Setting[int | None]()
    fields = Setting[Fields]()
    transform = Setting[Callable[[Batch], Any] | None]()
    pin_memory = Setting[bool]()
    epochs = Setting[int | None]()
    drop_last = Setting[bool]()
    rank = Setting[int]()
    world_size = Setting[int]()
    num_threads = Setting[int]()

    @property
    def _settings(self) -> LoaderSettings:
        return self._session.settings

    @property
    def _counted(self) -> Session:
        """The session, if sequences have numbers."""
        if isinstance(self._session, Session):
            return self._session
        raise UncountedError(
            "the tokens of these texts are not counted, so that sequences have no "
            "number: length, seek, skip, locate and reports need counts; `pagefeed "
            "count` makes them ahead, and tokenize(tokenizer, count=True) uses them"
        )

    @property
    def epoch(self) -> int:
        """The epoch of the next batch.

        ``epoch``, ``step`` and ``num_steps_left`` always tell of one iteration. A
        running loop tells of its own, also after its last batch: then no step is left,
        and the epoch is its last. Otherwise it is the iteration that the next loop
        begins or goes on with: after a loop, or after ``seek`` or ``load_state_dict``
        led to an end, that is the next one, at step 0.
        """
        return self._session.epoch

    @property
    def step(self) -> int:
        """The step of the next batch: as many are taken or skipped in its iteration.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: then
                this process does not know the position.
        """
        self._session.check_state()
        return int(self._session.state.step)

    @property
    def num_steps_left(self) -> int | None:
        """Steps until the end of the iteration, on every rank.

        None if it never ends, or the tokens are not counted.

        In a loop 0 after its last batch; see :attr:`epoch`.

        Raises:
            InvalidArgumentError: As for :attr:`step`.
        """
        self._session.check_state()
        return self._session.num_steps_left

    def __repr__(self) -> str:
        return text_of(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, self._facts())

    def _facts(self) -> Facts:
        return {
            "dataset": self.dataset,
            "sequences": self.sequences,
            "batch_size": self.batch_size,
            **self._session.facts(),
            "rank": self.rank,
            "world_size": self.world_size,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "memory": format_bytes(self.memory),
        }

    @property
    def num_sequences(self) -> int:
        """Sequences of one epoch, over all ranks; of all datasets of a mixture."""
        return self._counted.run.source.index.num_sequences

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens of an epoch that no sequence holds (``tail="drop"``)."""
        return self._counted.run.source.index.num_dropped_tokens

    @property
    def num_padding_tokens(self) -> int:
        """Padding in the sequences of an epoch."""
        return self._counted.run.source.index.num_padding_tokens

    def __len__(self) -> int:
        """Return the steps of a whole iteration, the same on every rank.

        Raises:
            TypeError: If it never ends.
        """
        run = self._counted.run
        steps = run.route(run.beginning(0)).num_steps
        if steps is None:
            raise TypeError(
                "this loader has no length: it never ends; give it epochs, or a "
                "mixture stop, max_steps or max_tokens"
            )
        return steps
