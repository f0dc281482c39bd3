"""What a run will do, before it runs: steps, memory, reads, and how well it shuffles.

Computed from the index and the order alone, but for the splits of packed documents,
which need the lengths of rows: those of some blocks are read. Only
stretches of the epoch are looked at where looking at all of it would take long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.batches import steps_ahead
from pagefeed.dataset import Dataset, PageIndex
from pagefeed.errors import InvalidArgumentError
from pagefeed.loader import Loader, session_of
from pagefeed.reports.part_reads import PartReads, are_parts, part_reads
from pagefeed.reports.reuse import (
    needed_bytes,
    share_with_columns,
    simulate_loads,
)
from pagefeed.reports.step_costs import StepCosts, step_costs
from pagefeed.reports.told_reads import ColumnReads, told_reads
from pagefeed.run import EpochSource, Planner
from pagefeed.sequences import Blocks, PackedIndex, Segments, SequenceIndex

__all__ = ["ColumnReads", "Forecast", "forecast"]

SAMPLED_STEPS = 256
SAMPLED_SEQUENCES = 1 << 16
COUNTED_BLOCKS = 1 << 20
SAMPLED_BLOCKS = 16
SAMPLED_PAGES = 1024


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What the first epoch of a run comes to."""

    files: int
    pages: int
    rows: int
    tokens: int
    sequences: int
    """Sequences of an epoch, over all ranks."""
    length: int
    """Tokens of a sequence, padding included."""
    padding_tokens: int
    """Padding in them."""
    dropped_tokens: int
    """Tokens that no sequence holds."""
    splits: int
    """Places at which a packed document goes on in another sequence although it would
    have fitted into one; estimated from some blocks if there are many."""
    steps: int
    """Steps of the epoch, the same on every rank."""
    remainder: int
    """Sequences left for the last, incomplete step."""
    num_lanes: int
    """Lanes that are read side by side."""
    window_sequences: int
    """Sequences that are mixed, over all lanes together."""
    memory_bytes: int
    """What the loader of one rank may hold."""
    needed_bytes: int
    """What pages take, at most, so that none is read twice."""
    loads_per_page: float
    """How often a page is read in the epoch, over all ranks."""
    part_reads: int
    """Reads of parts of pages of flat files, whose pages are not read for them."""
    reads: int
    """Reads in the epoch, over all ranks: of remote files requests, at most."""
    read_bytes: int
    """Bytes of these as stored, by some pages; dictionaries apart."""
    aligned: dict[str, ColumnReads]
    """What columns with a number for every token add, by their names."""
    metadata: dict[str, ColumnReads]
    """What those add that the field ``metadata`` tells of, if it is asked for."""
    same_page_pairs: float
    """Mean pairs of sequences of one page in a batch of one rank."""
    same_page_pairs_random: float
    """The same if batches were drawn at random."""
    same_file_pairs: float
    """Mean pairs of sequences of one file in a batch of one rank."""
    same_file_pairs_random: float
    """The same if batches were drawn at random."""
    step_costs: StepCosts | None
    """What steps cost, with the balance of the loader and without, if it has one."""


def forecast(loader: Loader) -> Forecast:
    """Return what the epoch that ``loader`` stands at comes to.

    Raises:
        InvalidArgumentError: If it is a mixture.

    Example:
        >>> forecast(loader).steps == len(loader)  # doctest: +SKIP
        True
    """
    run, source = session_of(loader).run, _one_dataset(loader)
    begin = run.beginning(loader.epoch)
    spans, sequences = source.dataset.spans, source.index
    whole = run.route(begin)
    route = replace(whole, end=whole.start + sequences.num_sequences)
    planner = run.planner(begin, route)
    steps, remainder = divmod(sequences.num_sequences, route.step_sequences)
    needed, loads, parts, told = _reads(loader, planner)
    num_loads = round(loads * _num_loaded(source))
    stored_bytes = spans.num_pages * _mean_stored_bytes(spans.index)
    read_bytes = loads * stored_bytes + parts.bytes * sequences.num_sequences
    pages = sequences.blocks("page")
    samples = _sampled_batches(planner)
    files = sequences.file_first_sequence
    return Forecast(
        files=len(spans.index.files),
        pages=spans.num_pages,
        rows=spans.num_rows,
        tokens=spans.num_values,
        sequences=sequences.num_sequences,
        length=sequences.length,
        padding_tokens=sequences.num_padding_tokens,
        dropped_tokens=sequences.num_dropped_tokens,
        splits=_splits(sequences),
        steps=steps + (remainder > 0 and not route.drop_last),
        remainder=remainder,
        num_lanes=begin.num_lanes,
        window_sequences=source.orders.window(begin.num_lanes) * begin.num_lanes,
        memory_bytes=loader.memory,
        needed_bytes=needed,
        loads_per_page=loads,
        part_reads=round(parts.reads * sequences.num_sequences),
        reads=num_loads + round(parts.reads * sequences.num_sequences),
        read_bytes=round(read_bytes),
        aligned=_aligned_reads(source.dataset, read_bytes / max(1, stored_bytes)),
        metadata=told,
        same_page_pairs=_mean_pairs([pages.block_of(batch) for batch in samples]),
        same_page_pairs_random=_random_pairs(_block_sizes(pages), route.batch_size),
        same_file_pairs=_mean_pairs(
            [np.searchsorted(files, batch, side="right") for batch in samples]
        ),
        same_file_pairs_random=_random_pairs([np.diff(files)], route.batch_size),
        step_costs=None if loader.balance is None else step_costs(loader),
    )


def _aligned_reads(dataset: Dataset, loads: float) -> dict[str, ColumnReads]:
    """What each column beside the tokens adds, if their bytes are read so often."""
    found = {}
    both = zip(dataset.aligned, dataset.aligned_sources, strict=True)
    for each, source in both:
        if not isinstance(source, PageIndex):  # Read with the tokens.
            size = dataset.spans.num_values * source.value_bytes
            found[each.column] = ColumnReads(bytes=round(size * loads), reads=0)
            continue
        pages = len(source) * dataset.spans.num_rows / max(1, source.num_rows) * loads
        num_bytes = _mean_stored_bytes(source) * pages
        found[each.column] = ColumnReads(bytes=round(num_bytes), reads=round(pages))
    return found


def _one_dataset(loader: Loader) -> EpochSource:
    source = session_of(loader).run.source
    if not isinstance(source, EpochSource):
        raise InvalidArgumentError(
            "this is the forecast of one dataset: see forecast_mixture for a mixture"
        )
    return source


def _sampled_batches(planner: Planner) -> list[Int64Array]:
    """Whole batches of this rank, spread over the epoch."""
    num_steps = planner.route.num_steps or 0
    count = min(SAMPLED_STEPS, num_steps)
    steps = np.linspace(0, num_steps - 1, count).astype(np.int64).tolist()
    batches = [planner.sequences(step, 1) for step in steps]
    return [batch[batch >= 0] for batch in batches]


def _mean_pairs(groups: list[Int64Array]) -> float:
    """Mean number of pairs of equal numbers."""
    if not groups:
        return 0.0
    pairs = [np.unique(group, return_counts=True)[1] for group in groups]
    return float(np.mean([(n * (n - 1) // 2).sum() for n in pairs]))


def _random_pairs(
    sizes: list[Int64Array] | Iterator[Int64Array], batch_size: int
) -> float:
    """Expected pairs from one group in a random batch, by the groups' sizes."""
    total, pairs = 0, 0.0
    for part in sizes:
        total += int(part.sum())
        pairs += float((part.astype(np.float64) * (part - 1)).sum()) / 2
    possible = total * (total - 1) / 2
    return pairs / possible * batch_size * (batch_size - 1) / 2 if possible else 0.0


def _block_sizes(blocks: Blocks) -> Iterator[Int64Array]:
    """Sequences of every block, some at a time."""
    for first in range(0, len(blocks), COUNTED_BLOCKS):
        stop = min(first + COUNTED_BLOCKS, len(blocks))
        yield np.diff(blocks.first_sequence(np.arange(first, stop + 1)))


def _splits(sequences: SequenceIndex) -> int:
    """Splits of an epoch, from the lengths of the rows of some blocks."""
    if not isinstance(sequences, PackedIndex):
        return 0
    count = min(SAMPLED_BLOCKS, len(sequences))
    found = 0
    for block in np.linspace(0, len(sequences) - 1, count).astype(np.int64).tolist():
        packing = sequences.packing(block)
        lengths = np.bincount(packing.row, weights=packing.num_tokens)
        fits = lengths[packing.row] <= sequences.length
        found += int((fits & (packing.first_token > 0)).sum())
    return round(found * len(sequences) / max(1, count))


class _Reads(NamedTuple):
    """What is read, by a stretch of this rank's epoch."""

    needed_bytes: int
    """Bytes needed at most so that no page is read twice."""
    loads: float
    """Reads of a page, of all ranks."""
    parts: PartReads
    """Of each sequence."""
    told: dict[str, ColumnReads]
    """What metadata adds, of all ranks."""


def _reads(loader: Loader, planner: Planner) -> _Reads:
    """Return what is read, and needed for it.

    Of a part of the epoch the first half only brings the pages into memory; reads are
    counted in the second.
    """
    route, source = planner.route, _one_dataset(loader)
    num_steps = route.num_steps or 0
    horizon = planner.track.horizon(loader.memory)
    ahead = route.batch_size * steps_ahead(horizon, route.batch_size)
    wanted = max(SAMPLED_SEQUENCES, 2 * ahead) // route.batch_size + 1
    # A stretch that is most of the epoch would count what the other half brought.
    count = num_steps if 2 * wanted >= num_steps else wanted
    if count == 0:
        return _Reads(0, 0.0, PartReads(0.0, 0.0), {})
    sequences = planner.sequences((num_steps - count) // 2, count)
    index, data = source.index, source.dataset
    segments = index.segments(sequences[sequences >= 0])
    in_parts = are_parts([data], index, segments)
    pages = segments.page[~in_parts]
    tells_metadata = "metadata" in session_of(loader).settings.fields.names
    share = share_with_columns([data], tells_metadata=tells_metadata)
    sizes = (index.loaded_bytes(pages) * share).astype(np.int64)
    places = segments.sequence[~in_parts]
    # Batches are made ahead up to where as much again is planned.
    is_load = simulate_loads(
        pages, sizes, loader.memory, places=places, horizon=ahead // 2
    )
    counted_from = 0 if count == num_steps else len(segments.page) // 2
    loads = np.zeros(len(in_parts), dtype=np.bool_)
    loads[~in_parts] = is_load
    num_sequences = len(np.unique(segments.sequence[counted_from:]))
    per_sequence = loads[counted_from:].sum() / num_sequences
    chosen = np.flatnonzero(in_parts[counted_from:]) + counted_from
    some = Segments._make(each[chosen] for each in segments)
    parts = part_reads(data.index, some, route.batch_size, index.layout.per_row)
    # Sequences of others are read with their pages.
    share = len(np.unique(some.sequence)) / num_sequences
    parts = PartReads(parts.reads * share, parts.bytes * share)
    told = (
        {}
        if not tells_metadata
        else told_reads(
            source,
            segments.page[loads],
            np.flatnonzero(loads) >= counted_from,
            part_reads=parts.reads * loader.num_sequences,
            memory=loader.memory,
            scale=loader.num_sequences / num_sequences,
        )
    )
    per_page = per_sequence * loader.num_sequences / max(1, _num_loaded(source))
    return _Reads(needed_bytes(pages, sizes), float(per_page), parts, told)


def _num_loaded(source: EpochSource) -> int:
    """What is loaded as one: pages, or bundles of them."""
    if source.index.layout.packing is not None:
        return len(source.index.blocks("page"))
    return source.dataset.spans.num_pages


def _mean_stored_bytes(index: PageIndex) -> float:
    """Bytes of a page as stored, by some of them."""
    count = min(SAMPLED_PAGES, len(index))
    pages = np.linspace(0, len(index) - 1, count).astype(np.int64).tolist()
    sizes = [index.locate(page).compressed_size for page in pages]
    return float(np.mean(sizes)) if sizes else 0.0
