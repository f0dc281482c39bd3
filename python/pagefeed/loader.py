"""The loader: a dataset, cut and shuffled, as batches on this rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.extras import require
from pagefeed.iteration import Iteration
from pagefeed.launch import available_cpus, resolve_rank
from pagefeed.order import Blocks, Order, Shuffle, choose_num_lanes
from pagefeed.planner import NO_UNIT, Planner, Route
from pagefeed.provenance import Source, sources_of_unit
from pagefeed.sequences import Sequences, Units
from pagefeed.sizes import parse_bytes
from pagefeed.state import LoaderState

__all__ = ["Batch", "Loader"]

FORMATS = ("numpy", "torch")
DTYPES = ("int64", "int32", "uint16")

OPTIONS = (
    "sequences",
    "batch_size",
    "seed",
    "shuffle",
    "memory",
    "format",
    "dtype",
    "padding",
    "epochs",
    "drop_last",
    "rank",
    "world_size",
    "num_threads",
)
"""What a loader is made of, beside its dataset."""

Batch = dict[str, Any]
"""Arrays or tensors by name; ``input_ids`` is [batch_size, length]."""


class Loader:
    """Feeds shuffled batches of token sequences, straight from Parquet.

    ``for batch in loader`` runs through one epoch, the next loop through the next one,
    shuffled anew. ``state_dict()`` between two batches is the position of what was
    consumed; ``load_state_dict`` makes the next loop continue there, on any number of
    ranks. A loop that is left early begins its epoch again.

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
        epochs: int | None = 1,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
    ) -> None:
        self.dataset = dataset
        self.sequences = sequences
        self.batch_size = _positive(batch_size, "batch_size")
        self.seed = seed
        self.shuffle = Shuffle.parse(shuffle)
        self.memory = parse_bytes(memory, name="memory")
        self.format = _one_of(format, FORMATS, "format")
        self.dtype = _one_of(dtype, DTYPES, "dtype")
        self.padding = padding
        self.epochs = epochs if epochs is None else _positive(epochs, "epochs")
        self.drop_last = drop_last
        self.rank, self.world_size = resolve_rank(rank, world_size)
        self.num_threads = _positive(num_threads or available_cpus(), "num_threads")
        self._convert = _converter(self.format)

        self._units: Units = sequences.bind(dataset.index)
        if self._units.num_units == 0:
            raise InvalidArgumentError(
                f"{dataset!r} holds no sequence of {sequences!r}: it has "
                f"{dataset.index.num_values} tokens in {len(dataset)} rows"
            )
        self._order = lru_cache(maxsize=2)(self._make_order)
        self._begin = self._beginning(0)
        """Where the next iteration begins, or the running one began."""
        self._iteration: Iteration | None = None
        self._engine: tuple[int, _core.Engine] | None = None

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
        steps = self._route(self._beginning(0)).num_steps
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
            self._stop(self._beginning(self._begin.first_epoch))
        route = replace(
            self._route(self._begin), worker=worker, num_workers=num_workers
        )
        iteration = Iteration(
            engine=self._running_engine(),
            planner=self.planner(route),
            route=route,
            horizon_units=self._horizon_units(),
        )
        self._iteration = iteration
        return self._batches(iteration)

    def _batches(self, iteration: Iteration) -> Iterator[Batch]:
        shape = (self.batch_size, self._units.length)
        for buffer in iteration:
            tokens = np.frombuffer(memoryview(buffer), dtype=self.dtype).reshape(shape)
            yield {"input_ids": self._convert(tokens)}
        if iteration is self._iteration and self.epochs is not None:
            self._stop(self._beginning(self._begin.first_epoch + self.epochs))

    def share(self, num_shares: int) -> Loader:
        """Return a loader at the same place with a part of the memory and threads."""
        options = self._options()
        options["memory"] = max(1, self.memory // num_shares)
        options["num_threads"] = max(1, self.num_threads // num_shares)
        return _rebuild(self.dataset, options, self._state())

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle as configuration and place: threads and files stay here."""
        return _rebuild, (self.dataset, self._options(), self._state())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OPTIONS}

    def state_dict(self) -> dict[str, Any]:
        """Return the consumed position as plain JSON types, under 1 KB.

        The same on every rank that has taken as many steps.
        """
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

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration run epoch ``epoch``; a no-op if it will anyway."""
        if self._state().epoch != epoch:
            self._stop(self._beginning(epoch))

    def locate(self, step: int, row: int) -> list[Source]:
        """Return where a row of this rank's batches comes from, without running.

        Args:
            step: Step of the current iteration, counted from its first epoch's start.
            row: Row of the batch.

        Raises:
            InvalidArgumentError: If there is no such row, or it lies before a resume
                with other sizes, which this loader knows nothing of.
        """
        return sources_of_unit(self.dataset.index, self._units, self._unit(step, row))

    def _unit(self, step: int, row: int) -> int:
        begin, route = self._begin, self._route(self._begin)
        known = 0 if self._same_sizes() else begin.step
        last = route.num_steps
        beyond = last is not None and step >= begin.step + last
        if step < known or beyond or not 0 <= row < self.batch_size:
            end = "" if last is None else f" and below {begin.step + last}"
            raise InvalidArgumentError(
                f"step={step}, row={row} is not in this iteration: steps are at least "
                f"{known}{end}, rows below {self.batch_size}"
            )
        unit = int(self.planner(route).units(step - begin.step, 1)[row])
        if unit == NO_UNIT:
            raise InvalidArgumentError(f"step={step}, row={row} is padding")
        return unit

    def _same_sizes(self) -> bool:
        """Whether all steps so far had this loader's world size and batch size."""
        begin = self._begin
        consumed = (begin.epoch - begin.first_epoch) * self.num_units + begin.position
        return consumed == begin.step * self.batch_size * self.world_size

    def stats(self) -> dict[str, float]:
        """Return counters since the loader first ran in this process.

        ``pages_loaded``, ``pages_reloaded`` (read again for lack of memory),
        ``batches``, ``tokens``, ``wait_seconds`` (spent waiting for a batch) and
        ``peak_bytes``.
        """
        return self._running_engine().stats()

    def _state(self) -> LoaderState:
        if self._iteration is None:
            return self._begin
        epoch, position = divmod(self._iteration.position, self.num_units)
        return self._begin.advanced(
            epoch=epoch,
            position=position,
            step=self._begin.step + self._iteration.num_steps_done,
            num_lanes=self._num_lanes(epoch),
        )

    def _beginning(self, epoch: int) -> LoaderState:
        return LoaderState(
            epoch=epoch,
            position=0,
            step=0,
            first_epoch=epoch,
            num_lanes=self._chosen_lanes(),
            seed=self.seed,
            dataset=self.dataset.fingerprint,
            sequences=repr(self.sequences),
            shuffle=repr(self.shuffle),
        )

    def _stop(self, begin: LoaderState) -> None:
        """End the running iteration; the next begins at ``begin``."""
        if self._iteration is not None:
            self._iteration.close()
        self._iteration, self._begin = None, begin

    def _route(self, state: LoaderState) -> Route:
        end = None
        if self.epochs is not None:
            end = (state.first_epoch + self.epochs) * self.num_units
        return Route(
            start=state.epoch * self.num_units + state.position,
            end=end,
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            drop_last=self.drop_last,
        )

    def planner(self, route: Route) -> Planner:
        """Return what plans the batches of a route through this run's order."""
        return Planner(self._units, self._order_of, route)

    def _running_engine(self) -> _core.Engine:
        """This process's engine: threads do not survive a fork."""
        if self._engine is None or self._engine[0] != os.getpid():
            engine = _core.Engine(
                [self.dataset.index.core],
                num_threads=self.num_threads,
                memory=self.memory,
                dtype=self.dtype,
                batch_rows=self.batch_size,
                row_length=self._units.length,
                padding=self.padding,
                verify_checksums=self.dataset.verify_checksums,
            )
            self._engine = os.getpid(), engine
        return self._engine[1]

    def _blocks(self) -> Blocks:
        kind = "row_group" if self.shuffle.block == "row_group" else "page"
        return self._units.blocks(kind)

    def _unit_bytes(self) -> float:
        """Mean decoded size of a unit, in the column's own type."""
        index = self.dataset.index
        return index.num_values * index.value_bytes / self.num_units

    def _chosen_lanes(self) -> int:
        num_blocks = len(self._blocks())
        return choose_num_lanes(
            num_blocks=num_blocks,
            block_bytes=self._unit_bytes() * self.num_units / max(1, num_blocks),
            world_size=self.world_size,
            file_order=self.shuffle.block is None,
        )

    def _num_lanes(self, epoch: int) -> int:
        """Lanes of an epoch: those the state names, chosen anew for later epochs."""
        begin = self._begin
        return begin.num_lanes if epoch == begin.epoch else self._chosen_lanes()

    def _window(self, num_lanes: int) -> int:
        return self.shuffle.delay(
            num_units=self.num_units,
            num_blocks=len(self._blocks()),
            unit_bytes=self._unit_bytes(),
            num_lanes=num_lanes,
        )

    def _horizon_units(self) -> int:
        """Units of this rank between the first and the last use of a page."""
        num_lanes = self._begin.num_lanes
        return 2 * self._window(num_lanes) * num_lanes // self.world_size

    def _order_of(self, epoch: int) -> Order:
        return self._order(epoch, self._num_lanes(epoch))

    def _make_order(self, epoch: int, num_lanes: int) -> Order:
        return Order(
            self._blocks(),
            seed=self.seed,
            epoch=epoch,
            name="",
            shuffle=self.shuffle,
            num_lanes=num_lanes,
            window=self._window(num_lanes),
            fingerprint=f"{self.dataset.fingerprint} {self.sequences!r}",
            cache_dir=self.dataset.cache_dir,
        )


def _rebuild(
    dataset: ParquetDataset, options: dict[str, Any], state: LoaderState
) -> Loader:
    loader = Loader(dataset, **options)
    loader.load_state_dict(state.to_dict())
    return loader


def _positive(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(
            f"{name}={value!r} must be a whole number, at least 1"
        )
    return value


def _one_of(value: str, choices: tuple[str, ...], name: str) -> str:
    if value not in choices:
        raise InvalidArgumentError(
            f"{name}={value!r} is unknown: choose one of {', '.join(choices)}"
        )
    return value


def _converter(format_name: str) -> Callable[[npt.NDArray[Any]], Any]:
    if format_name == "numpy":
        return lambda array: array
    torch = require("torch", extra="torch", purpose="format='torch'")
    return cast("Callable[[npt.NDArray[Any]], Any]", torch.from_numpy)
