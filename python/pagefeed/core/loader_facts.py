"""The attributes of a loader: its settings, its sizes and its position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, overload

from pagefeed.core._base import Facts, format_bytes, html_of, text_of
from pagefeed.core.batches import Batch, Fields, Format, LoaderSettings, RunView
from pagefeed.core.order import Shuffle
from pagefeed.core.sequences import Cut

__all__ = ["LoaderFacts", "Setting"]


Value = TypeVar("Value")


class Setting(Generic[Value]):
    """A setting of an object, read from its ``_settings``.

    Example:
        >>> class Reader:
        ...     _settings = range(2)
        ...     start = Setting[int]()
        >>> Reader().start
        0
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Set the name of the setting."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return its value."""
        if instance is None:
            return self
        return getattr(instance._settings, self._name)  # noqa: SLF001 - its owner's

    def __set__(self, instance: object, value: object) -> NoReturn:
        """Refuse to change a setting of an existing object.

        Raises:
            AttributeError: Always.
        """
        name = type(instance).__name__
        raise AttributeError(
            f"{self._name} of a {name} cannot be set: make another {name} with "
            f"{self._name}={value!r:.60}"
        )


class LoaderFacts:
    """The settings, sizes and position of a loader; none of them can be set."""

    _session: RunView

    dataset = Setting[Any]()
    sequences = Setting[Cut]()
    batch_size = Setting[int]()
    batch_tokens = Setting[int | None]()
    global_batch_size = Setting[Any]()
    seed = Setting[int]()
    shuffle = Setting[Shuffle]()
    balance = Setting[Any]()
    context_parallel = Setting[Any]()
    memory = Setting[int]()
    format = Setting[Format]()
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
    def epoch(self) -> int:
        """The epoch of the next batch.

        ``epoch``, ``step`` and ``num_steps_left`` describe one iteration. While a loop
        runs, that is its own, also after its last batch: then no step is left, and the
        epoch is its last. Without a loop it is the iteration that the next loop begins
        or continues. After a loop, and where ``seek`` or ``load_state_dict`` led to an
        end, that is the next iteration at step 0.
        """
        return self._session.epoch

    @property
    def step(self) -> int:
        """The number of the next step in its iteration. Skipped steps count.

        Raises:
            InvalidArgumentError: If worker processes of a ``DataLoader`` iterate: this
                process does not know their position.
        """
        self._session.check_state()
        return int(self._session.position.now.step)

    @property
    def num_steps_left(self) -> int | None:
        """Steps until the end of the iteration, the same on every rank.

        None if it never ends, or the tokens are not counted. 0 in a loop after its last
        batch; see :attr:`epoch`.

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
