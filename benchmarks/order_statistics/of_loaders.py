"""The battery on any loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from order_statistics.battery import findings
from order_statistics.deliveries import Draw, Seen, Taken, Units
from order_statistics.findings import Float64Array, OrderStatistics
from pagefeed.balance import Balance, SequenceCosts
from pagefeed.core._base import Int64Array, finished, lazy
from pagefeed.core.batches import make_run
from pagefeed.core.loader import Loader
from pagefeed.core.run import gathered
from pagefeed.core.sequences import PackedRuns
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import MixtureCursor

__all__ = ["order_statistics"]

MOST_UNITS = 1 << 21
LEAST_SEEDS, MOST_SEEDS, DELIVERIES = 12, 128, 1 << 21
"""Seeds that are drawn, so that about ``DELIVERIES`` units are delivered."""
MOST_STEPS = 1 << 12
"""Steps of a mixture without end that are looked at."""
MATES_WITH_BALANCE, MATES_IN_BUCKETS = 3.0, 15.0
"""Times by which batch mates may meet more often than by chance: similar costs are
spread over batches, or kept together in buckets."""


def order_statistics(
    order: Loader | Draw,
    units: Units | None = None,
    *,
    seeds: int | None = None,
    limits: Mapping[str, float | None] | None = None,
) -> OrderStatistics:
    """Test, over many seeds, that the order of a loader keeps what users are promised.

    Args:
        order: A loader, of which only the index is read, or a function of a seed and an
            epoch. The function returns the numbers of the delivered units, [steps,
            rows] or [steps, ranks, rows], with -1 for padding; or a :class:`Taken`.
        units: What is known of the units, for such a function.
        seeds: Number of seeds, with two epochs each; by default 12 to 128, fewer for
            more units.
        limits: Limits that replace the defaults, by the name of the test, as a multiple
            of what a random order gives; None allows anything.

    Raises:
        InvalidArgumentError: If nothing or too much is delivered.

    Example:
        >>> def draw(seed, epoch):
        ...     order = np.random.default_rng([seed, epoch]).permutation(640)
        ...     return order.reshape(40, 16)
        >>> order_statistics(draw, Units(num_units=640)).ok
        True
    """
    given = dict(limits or {})
    draw: Draw
    if isinstance(order, Loader):
        ordered = _Loaded(order)
        draw, units = ordered.draw, ordered.units()
        given = ordered.limits | given
    elif units is None:
        raise InvalidArgumentError("a function needs units=Units(num_units=...)")
    else:
        draw = order
    if seeds is None:
        wanted = DELIVERIES // (2 * max(1, units.num_units))
        seeds = min(max(LEAST_SEEDS, wanted), MOST_SEEDS)
    seen = Seen.of(draw, units, range(seeds))
    results = [*findings(seen, given)]
    return OrderStatistics(num_units=units.num_units, num_seeds=seeds, findings=results)


class _Loaded:
    """Deliveries of a loader under other seeds, computed from its index alone."""

    def __init__(self, loader: Loader) -> None:
        self._settings = loader.view().settings
        self._run, self._saved = loader.view().run, loader.view().position.saved
        if self._run.index.num_sequences > MOST_UNITS:
            raise InvalidArgumentError(
                f"{self._run.index.num_sequences} sequences are too many to follow "
                f"each: take at most {MOST_UNITS}, dataset.take(share=...)"
            )

    @property
    def limits(self) -> dict[str, float | None]:
        """Allowed multiples of chance for this order."""
        if self._run.takes_batches:  # What shares one is of a block, by its lengths.
            return {"mates": None, "sources": None, "datasets by rank": None}
        balance = self._settings.balance
        if balance is None:
            return {}
        in_buckets = balance.bucket > 1
        return {"mates": MATES_IN_BUCKETS if in_buckets else MATES_WITH_BALANCE}

    def draw(self, seed: int, epoch: int) -> Taken:
        """Return what all ranks get."""
        run = make_run(replace(self._settings, seed=seed, epochs=1))
        begin, step = run.beginning(epoch), run.step_sequences
        # Of a run that goes on on other ranks the lanes stay as they are.
        begin = replace(begin, num_lanes=self._saved.num_lanes, ranks=self._saved.ranks)
        cursor = run.at(begin)
        start, end = cursor.start, cursor.end
        whole = MOST_STEPS if end is None else (end - start) // step
        positions = range(start, start + whole * step)
        sequences = finished(gathered(cursor.at(positions))).numbers
        index, rank, _ = cursor.route.dealt(np.arange(positions.start, positions.stop))
        taken = Taken(sequences, index, rank)
        return self._documents(taken) if run.takes_batches else taken

    def _documents(self, batches: Taken) -> Taken:
        """Return the documents of batches whose units hold several."""
        index, unit, which = self._run.index, [], []
        sequences = np.asarray(batches.unit, dtype=np.int64)
        dataset = index.dataset_of(sequences)
        for member, own in enumerate(index.parts):
            mine = np.flatnonzero(dataset == member)
            local = sequences[mine] - index.first_sequence[member]
            documents, order_of = cast("PackedRuns", own).documents_of(local)
            unit.append(documents + self._first_row[member])
            which.append(mine[order_of])
        deliveries = np.concatenate(which)
        order = np.argsort(deliveries, kind="stable")
        deliveries = deliveries[order]
        units = np.concatenate(unit)[order]
        return Taken(units, batches.step[deliveries], batches.rank[deliveries])

    @lazy
    def _first_row(self) -> Int64Array:
        """Rows before each dataset, and of all datasets."""
        rows = [own.spans.num_rows for own in self._run.index.parts]
        return np.cumsum([0, *rows])

    def units(self) -> Units:
        """Return what the index knows of the units."""
        run, index = self._run, self._run.index
        first = self._first_row if run.takes_batches else index.first_sequence
        pages, sources, begun = [], [], 0
        for own in index.parts:
            if run.takes_batches:
                rows = np.arange(own.spans.num_rows)
                page = own.spans.places(own.spans.spans_of_rows(rows))[0]
                files = own.spans.file_first_row
            else:
                rows = np.arange(own.num_sequences)
                page = own.blocks("page").block_of(rows)
                files = own.file_first_sequence
            pages.append(page + begun)
            sources.append(np.searchsorted(files, rows, side="right") + begun)
            begun += len(own.spans.index) + len(files)
        dataset = np.repeat(np.arange(len(index.parts)), np.diff(first))
        is_mixture = isinstance(run.at(run.initial), MixtureCursor)
        return Units(
            num_units=int(first[-1]),
            page=np.concatenate(pages),
            source=np.concatenate(sources),
            dataset=dataset if is_mixture else None,
            overlap=run.initial.num_lanes * self._most_each if is_mixture else 0,
            shares=self._shares(),
            costs={} if run.takes_batches else self._costs(),
        )

    @property
    def _most_each(self) -> int:
        """Units of a sequence at most."""
        parts = self._run.index.parts
        return max(getattr(own, "most_documents", 1) for own in parts)

    def _costs(self) -> dict[str, Float64Array]:
        """Return tokens and squares of the lengths of documents, where these differ."""
        index = self._run.index
        try:
            sequence_costs = SequenceCosts(index)
        except InvalidArgumentError:  # Of columns there are no lengths.
            return {}
        units = np.arange(index.num_sequences)
        costs = {"squares": sequence_costs.squares(units)}
        balance = self._settings.balance
        if isinstance(balance, Balance) and balance.images:
            costs["images"] = sequence_costs.beside("images", units)
        return costs

    def _shares(self) -> Float64Array | None:
        """Return the shares of a mixture, if they never change and nothing runs out."""
        cursor = self._run.at(self._run.initial)
        if not isinstance(cursor, MixtureCursor) or self._run.takes_batches:
            return None
        changes, mixture = cursor.course.schedule.changes, cursor.run.mixture
        if len(changes) > 1 or mixture.stop is not None or mixture.max_epochs:
            return None
        weights = np.array(changes[0].weights, dtype=np.float64)
        return weights / weights.sum()
