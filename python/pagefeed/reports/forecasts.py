"""Forecast of a run: steps, memory, reads, and how well it shuffles.

Most of it follows from the index and the order. Lengths of rows are read only for the
splits of packed documents, and only in some blocks. Reads come from a rehearsal of the
engine: it takes some hundred thousand sequences from the middle of the epoch, however
long that is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pagefeed.core.loader import Loader
from pagefeed.core.run import Cursor, DatasetRun, Route
from pagefeed.core.sequences import JoinedIndex, PackedIndex, SequenceIndex
from pagefeed.mixture import (
    Component,
    Course,
    MixtureCursor,
    MixtureDivisions,
    last_position,
    totals,
)
from pagefeed.reports.rehearsal import ColumnReads, simulate
from pagefeed.reports.sampling import check_counted, evenly
from pagefeed.reports.sharing import shared_pairs
from pagefeed.reports.step_costs import StepCosts, step_costs
from pagefeed.reports.tables import parts_of_plan
from pagefeed.reports.telling import Part, Told

SAMPLED_SEQUENCES, LEAST_STEPS = 1 << 12, 8


def met_again(cursor: Cursor) -> tuple[float, float] | None:
    """Return the share of pairs of a batch that meet again, and of random pairs.

    Pairs meet again if they share a batch in the next epoch. With batches of a number
    of tokens, all documents of a batch do, since batches are made before they are
    shuffled. Other pairs are counted in batches of this rank from all over the epoch.

    Args:
        cursor: The begin of an epoch.

    Returns:
        None for a mixture, whose datasets have separate epochs; for an epoch in
        which data were added; for a fleet, whose ranks come and go; and if a batch is
        one sequence.
    """
    run, begin = cursor.run, cursor.begin
    if not isinstance(run, DatasetRun) or run.fleet is not None:
        return None
    if run.takes_batches:
        documents = run.documents_each * run.num_sequences
        return 1.0, (run.documents_each - 1) / max(1.0, documents - 1)
    most = max(LEAST_STEPS, SAMPLED_SEQUENCES // run.batch_size)
    steps = evenly(cursor.route.num_steps or 0, most).tolist()
    if run.batch_size == 1 or not steps:
        return None
    batches = np.array([cursor.sequences(step, 1) for step in steps])
    after = run.at(run.beginning(begin.epoch + 1))
    batch = np.full(batches.shape, -1)
    is_here = batches >= 0
    positions = after.positions([(0, batches[is_here])], after.start) - after.start
    turn, rank = np.divmod(positions, run.world_size)
    batch[is_here] = turn // run.batch_size * run.world_size + rank
    same = (batch[:, :, None] == batch[:, None, :]) & is_here[:, :, None]
    rows = is_here.sum(axis=1)
    # A row with itself is not a pair.
    met, pairs = same.sum() - rows.sum(), (rows * (rows - 1)).sum()
    random = (run.batch_size - 1) / max(1, run.num_sequences - 1)
    return float(met / max(1, pairs)), random


SAMPLED_STEPS = 256
SAMPLED_BLOCKS = 16


@dataclass(frozen=True, kw_only=True)
class DatasetForecast:
    """A dataset of a mixture."""

    files: int
    pages: int
    rows: int
    tokens: int
    sequences: int
    """Sequences of an epoch of the dataset."""
    delivered_sequences: int
    """Sequences that the run delivers."""
    delivered_tokens: int
    """Tokens in these, by the mean of a sequence; 0 if tokens are not counted."""
    share: float
    """Share in the run's tokens; in its sequences, if tokens are not counted."""
    epochs: float
    """Epochs of the dataset that the run delivers: how often it is repeated."""
    max_epochs: int | None
    """Epochs at most; None: any number."""
    out_at_step: int | None
    """Step from which on it is left out for that; None: it never is."""
    is_balanced: bool | None
    """Whether its sequences are dealt by cost; None without ``balance``. Those of an
    epoch of fewer than some 64 sequences a rank stay where they are."""


@dataclass(frozen=True, kw_only=True)
class StageForecast:
    """A stage of a mixture: from one change of the weights to the next."""

    first_step: int
    """First step of the stage."""
    steps: float
    """Steps of the stage."""
    anneal_steps: float
    """Steps in which weights change gradually from the stage before."""
    shares: dict[str, float]
    """Share of each dataset in the stage's tokens as delivered; in its sequences, if
    tokens are not counted."""
    tokens: dict[str, int]
    """Tokens of each dataset; 0 if tokens are not counted."""
    epochs: dict[str, float]
    """Epochs of each dataset from the start of the run to the end of the stage."""


@dataclass(frozen=True, kw_only=True)
class Forecast(Told):
    """Forecast of the epoch of a dataset, or of the whole run of a mixture."""

    files: int
    pages: int
    rows: int
    tokens: int
    """Tokens of the files."""
    sequences: int
    """Sequences that are delivered, over all ranks."""
    length: int
    """Tokens of a sequence, padding included."""
    padding_tokens: int
    """Padding in the sequences."""
    dropped_tokens: int
    """Tokens that no sequence holds."""
    splits: int
    """Splits of packed documents that fit into a row, at ends of sequences and, with
    ``lengths=``, of their rows; estimated from some blocks if there are many."""
    steps: int | None
    """Steps, the same on every rank; None for a mixture without end: then all numbers
    are up to where every dataset was delivered once."""
    remainder: int
    """Sequences left for the last, incomplete step."""
    num_lanes: int
    """Lanes that are read side by side."""
    window_sequences: int
    """Sequences that the window mixes, over all lanes together."""
    memory_bytes: int
    """Memory of the loader of one rank."""
    needed_bytes: int
    """Memory of the loader with which no page is read twice."""
    peak_bytes: int
    """Most bytes that the loader of one rank holds at one time."""
    loads_per_page: float
    """Reads of a page over all ranks, on average."""
    slice_reads: int
    """Reads of page slices, in flat files."""
    reads: int
    """Reads over all ranks; of remote files this is the most requests there can be."""
    bytes_read: int
    """Stored bytes of these reads, estimated from some pages, without dictionaries."""
    columns: dict[str, ColumnReads]
    """Reads of aligned columns, and of columns of metadata if that field is asked for.
    """
    tables: dict[str, ColumnReads]
    """Manifests and deletes of Iceberg tables: files that each process reads before the
    first batch, and their bytes. What deltalake reads of a log it does not tell."""
    pruned_files: int
    """Files of tables that are not opened, as these prove that no row of them is
    selected."""
    same_page_pairs: float
    """Mean pairs of sequences in a batch of one rank that share a page; which sequences
    of a block do is estimated from some blocks."""
    same_page_pairs_random: float
    """``same_page_pairs`` of batches drawn at random."""
    same_file_pairs: float
    """Mean pairs of sequences in a batch of one rank that share a file."""
    same_file_pairs_random: float
    """``same_file_pairs`` of batches drawn at random."""
    met_again: float | None
    """Share of the pairs of rows of a batch of one rank that share a batch again in the
    next epoch; None of a mixture, and where a batch has one row."""
    met_again_random: float | None
    """``met_again`` of batches drawn at random."""
    step_costs: StepCosts | None
    """Costs of steps with the loader's balance and without; None if it has none."""
    datasets: dict[str, DatasetForecast] = field(default_factory=dict)
    """The datasets of a mixture by name; empty for one dataset."""
    stages: list[StageForecast] = field(default_factory=list)
    """The stages of a mixture in order; empty for one dataset."""

    def _parts(self) -> Iterable[Part]:
        """Return what ``pagefeed plan`` shows."""
        return parts_of_plan(self)


def forecast(loader: Loader) -> Forecast:
    """Return the forecast for the present epoch of ``loader``.

    For a mixture it covers the whole run. It reads the index, up to two pages of each
    kind to learn their size in memory, and for packed documents lengths in some blocks.

    Example:
        >>> forecast(loader).steps == len(loader)  # doctest: +SKIP
        True
    """
    check_counted(loader, "forecast")
    session = loader.view()
    run, joined = session.run, session.run.index
    indexes = joined.parts
    begin = session.run.first_of(session.position.start)
    track = run.at(begin)
    datasets, stages = dict[str, DatasetForecast](), list[StageForecast]()
    if isinstance(track, MixtureCursor):
        orders = track.run.orders(begin.epoch)
        end = last_position(track.course, track.end)
        datasets = _datasets(track, end)
        delivered = [data.delivered_sequences for data in datasets.values()]
        stages = _stages(track.course, end, run.step_sequences)
    else:
        begin, end = run.beginning(loader.epoch), joined.num_sequences
        orders = [run.orders] if isinstance(run, DatasetRun) else []
        delivered = [end]
    whole = run.at(begin).route
    is_endless = bool(stages) and whole.end is None
    cursor = replace(run.at(begin), until=whole.start + end)
    route = cursor.route
    spans = [data.spans for data in run.datasets]
    recipes = [stored.index.recipe for stored in spans]
    tables = [recipe.table for recipe in recipes if recipe.table]
    lanes = begin.num_lanes
    epochs = [
        n / max(1, own.num_sequences) for n, own in zip(delivered, indexes, strict=True)
    ]

    def over_epochs(numbers: Iterable[float]) -> int:
        return round(sum(n * times for n, times in zip(numbers, epochs, strict=True)))

    shares = [count / max(1, end) for count in delivered]
    met, lengths = met_again(cursor), _shares_of_lengths(loader, whole)
    figures = simulate(loader, cursor) | _pairs(joined, cursor, shares)
    return Forecast(
        files=sum(len(stored.index.files) for stored in spans),
        pages=sum(stored.num_pages for stored in spans),
        rows=sum(stored.num_rows for stored in spans),
        tokens=sum(each.num_values for each in spans if each.index.value_bytes),
        sequences=end,
        length=joined.length,
        padding_tokens=over_epochs(own.num_padding_tokens for own in indexes),
        dropped_tokens=over_epochs(own.num_dropped_tokens for own in indexes),
        splits=over_epochs(_splits(own, lengths) for own in indexes),
        steps=None if is_endless else route.num_steps,
        remainder=end % route.step_sequences,
        num_lanes=lanes,
        window_sequences=sum(order.mixed(lanes) for order in orders),
        memory_bytes=loader.memory,
        tables=_table_reads(tables),
        pruned_files=sum(len(table.pruned) for table in tables),
        **figures,
        met_again=None if met is None else met[0],
        met_again_random=None if met is None else met[1],
        step_costs=None if loader.balance is None else step_costs(loader),
        datasets=datasets,
        stages=stages,
    )


def _table_reads(tables: Iterable[Any]) -> dict[str, ColumnReads]:
    """Return the reads of tables before their first row."""
    counters = defaultdict[str, Counter[str]](Counter)
    for table in tables:
        for name, (reads, size) in table.reads.items():
            counters[name].update(reads=reads, bytes=size)
    return {name: ColumnReads(**counts) for name, counts in counters.items()}


def _datasets(track: MixtureCursor, end: int) -> dict[str, DatasetForecast]:
    """Return the datasets of a mixture, in the order of their numbers."""
    forecasts, balanced = {}, _are_balanced(track, end)
    given = {total.name: total for total in totals(track.course, end)}
    components = track.course.schedule.components
    sizes = {component.name: component.num_sequences for component in components}
    for name in track.run.names:
        spans, total = track.run.mixture.datasets[name].spans, given[name]
        out = None if total.out_at is None else total.out_at // track.run.step_sequences
        forecasts[name] = DatasetForecast(
            files=len(spans.index.files),
            pages=len(spans.index),
            rows=spans.num_rows,
            tokens=spans.num_values,
            sequences=sizes[name],
            delivered_sequences=total.sequences,
            delivered_tokens=total.tokens,
            share=total.share,
            epochs=total.epochs,
            max_epochs=total.max_epochs,
            out_at_step=out,
            is_balanced=balanced.get(name),
        )
    return forecasts


def _are_balanced(track: MixtureCursor, end: int) -> dict[str, bool]:
    """Return whether datasets are dealt by cost, under all weights up to a position.

    Empty without balance.
    """
    schedule, ranks = track.course.schedule, track.begin.ranks
    if ranks is None:
        return {}
    divisions = MixtureDivisions(
        track.course, ranks=ranks, cuts=track.begin.parts.get("cuts", ())
    )
    starts = [change.start for change in schedule.changes if change.start < end]
    stay = np.any([divisions.staying(start) for start in starts], axis=0)
    return dict(zip(schedule.names, (~stay).tolist(), strict=True))


def _stages(course: Course, end: int, step_sequences: int) -> list[StageForecast]:
    """Return the stages of a mixture that begin before its end."""
    changes = [change for change in course.schedule.changes if change.start < end]
    components, names, stages = course.schedule.components, course.schedule.names, []
    stops = [*(change.start for change in changes[1:]), end]
    for change, stop in zip(changes, stops, strict=True):
        after = course.counts(stop)
        sequences = after - course.counts(change.start)
        tokens = np.array(list(map(_tokens_in, components, sequences.tolist())))
        has_tokens = all(component.num_tokens for component in components)
        counted = tokens if has_tokens else sequences
        epochs = after / np.array([component.num_sequences for component in components])
        shares = counted / max(1, int(counted.sum()))
        stages.append(
            StageForecast(
                first_step=-(-change.start // step_sequences),
                steps=(stop - change.start) / step_sequences,
                anneal_steps=change.anneal / step_sequences,
                shares=dict(zip(names, shares.tolist(), strict=True)),
                tokens=dict(zip(names, tokens.tolist(), strict=True)),
                epochs=dict(zip(names, epochs.tolist(), strict=True)),
            )
        )
    return stages


def _tokens_in(component: Component, sequences: int) -> int:
    return round(sequences * component.sequence_tokens) if component.num_tokens else 0


def _shares_of_lengths(loader: Loader, route: Route) -> dict[int, float]:
    """Return the share of the steps of a route that has rows of each length."""
    stages = loader.view().settings.lengths
    if stages is None:
        return {loader.view().run.index.length: 1.0}
    first, num_steps = route.first_step, route.num_steps
    if not num_steps:
        return {stages.stages[-1][1]: 1.0}
    begins = np.clip([step for step, _ in stages.stages], first, first + num_steps)
    counts = np.diff(begins, append=first + num_steps)
    shares = defaultdict[int, float](float)
    for (_, length), count in zip(stages.stages, counts.tolist(), strict=True):
        shares[length] += count / num_steps
    return shares


def _splits(sequences: SequenceIndex, shares: Mapping[int, float]) -> float:
    """Return the splits of an epoch, from the lengths of the rows of some blocks.

    Args:
        sequences: The sequences.
        shares: Share of the steps with rows of each length.
    """
    if not isinstance(sequences, PackedIndex):
        return 0
    splits, chosen = 0.0, evenly(len(sequences), SAMPLED_BLOCKS)
    for block in chosen.tolist():
        packing = sequences.packing(block)
        lengths = np.bincount(packing.row, weights=packing.num_tokens)[packing.row]
        last = np.maximum(packing.num_tokens.astype(np.int64) - 1, 0)
        for length, share in shares.items():
            borders = (packing.offset % length + last) // length
            own = ((packing.first_token > 0) + borders)[lengths <= length]
            splits += share * int(own.sum())
    return splits * len(sequences) / max(1, len(chosen))


def _pairs(
    joined: JoinedIndex, cursor: Cursor, shares: list[float]
) -> dict[str, float]:
    """Return pairs of sequences that share a page, or a file, in a batch of this rank.

    Counted in batches from all over the route, or of its first stage of steps, and
    expected for batches at random.
    """
    route, alike = cursor.route, cursor.route.num_alike(0)
    num_steps = route.num_steps or 0
    chosen = evenly(min(num_steps, alike or num_steps), SAMPLED_STEPS)
    steps = [cursor.sequences(step, 1) for step in chosen.tolist()]
    sequences = np.array(steps, np.int64).reshape(len(chosen), route.batch_size)
    batch = np.broadcast_to(np.arange(len(chosen))[:, None], sequences.shape)
    batch, sequences = batch[sequences >= 0], sequences[sequences >= 0]
    possible = route.batch_size * (route.batch_size - 1) / 2
    shared, random = shared_pairs(joined, batch, sequences, shares, possible)
    page, file = (shared / max(1, len(chosen))).tolist()
    return {
        "same_page_pairs": page,
        "same_page_pairs_random": float(random[0]),
        "same_file_pairs": file,
        "same_file_pairs_random": float(random[1]),
    }
