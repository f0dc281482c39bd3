"""What sequences have of images, looked at before the first batch is planned."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagefeed.contract import LoaderSettings, Run
from pagefeed.core._base import ArrayFolder, ArrayWriter, Int64Array, Work, format_bytes
from pagefeed.core.dataset import derived_arrays, derived_key
from pagefeed.core.sequences import document_lengths, with_erased
from pagefeed.errors import InvalidArgumentError
from pagefeed.images.numbers import ImageNumbers

__all__ = ["check_cut", "check_images", "rows_of", "told_long"]

VERSION = 1
SEQUENCES_AT_ONCE = 1 << 12
MOST_LARGEST = 1 << 12
"""Sequences with most bytes of images of which the bytes are kept."""
ROWS_AT_ONCE = 1 << 16
PAGES_HELD = 4


def check_cut(settings: LoaderSettings) -> None:
    """Refuse sequences that would cut images, and slices of them.

    Raises:
        InvalidArgumentError: Saying what to give.
    """
    cut: Any = settings.sequences
    if cut.delivers == "tokens" and not (cut.packs and cut.layout.never_split):
        raise InvalidArgumentError(
            f"{cut!r} may cut a document inside an image: give Packed({cut.length}, "
            "split='never') or Documents(max_length=...)"
        )
    if cut.delivers == "rows":
        raise InvalidArgumentError(
            f"images lie in tokens, and {cut!r} makes none: give a max_length, or the "
            "dataset without with_images() for columns as they are"
        )
    if settings.context_parallel is not None:
        raise InvalidArgumentError(
            "context_parallel= cuts sequences inside images: leave it out"
        )
    if cut.delivers == "tokens" and "input_ids" not in settings.fields.names:
        raise InvalidArgumentError(
            f"fields={settings.fields.names} lack input_ids, in which images lie: add "
            "it"
        )


def rows_of(index: Any, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the rows of the index that sequences have, in the order of their tokens.

    Rows that were erased are left out.

    Returns:
        Rows among all rows of the files, and which of the sequences each is in, rising:
        int64 [rows] each.
    """
    rows, which = sequences, np.arange(len(sequences))
    if hasattr(index, "documents_of"):  # Else every row is a sequence.
        rows, which = index.documents_of(sequences)
        order = np.argsort(which, kind="stable")
        rows, which = rows[order], which[order]
    if index.erased is not None:
        is_left = ~index.erased.holds(rows)
        rows, which = rows[is_left], which[is_left]
    return index.spans.rows_of_index(rows), which


def check_images(
    settings: LoaderSettings, run: Run, parts: dict[int, Any], memory: int
) -> None:
    """Refuse rows whose images would be cut, and steps that do not fit the memory.

    Args:
        settings: Of the loader.
        run: What it delivers.
        parts: The datasets with images, by their numbers.
        memory: Bytes for images.

    Raises:
        InvalidArgumentError: If an image would be cut, or a step does not fit.
    """
    page = 0
    largest = [np.zeros(0, dtype=np.int64)]
    for number, part in parts.items():
        index, numbers = run.indexes[number], part.numbers
        room = getattr(settings.sequences, "max_length", None)
        room = room or index.length - index.layout.per_row
        known = _surveyed(index, numbers, f"{settings.sequences.identity} {room}", room)
        if len(known["long"]):
            count, first = len(known["long"]), int(known["long"][0])
            raise InvalidArgumentError(
                f"{told_long(numbers, count, first, room)}, and {settings.sequences!r} "
                f"would cut their images: give with_images(max_tokens={room}, "
                "long='drop') to leave such rows out, or longer sequences"
            )
        largest.append(known["largest"])
        stored = numbers.source.stored_bytes(np.arange(len(numbers.source)))
        page = max(page, int(stored.max(initial=0)))
    of_step = int(np.sort(np.concatenate(largest))[-settings.batch_size :].sum())
    needed = of_step + PAGES_HELD * page
    if needed > memory:
        enough = settings.memory + 2 * (needed - memory)
        raise InvalidArgumentError(
            f"images of a step may have {format_bytes(of_step)} and a page of their "
            f"column {format_bytes(page)}, two of which are held as stored and as "
            f"decoded, and memory={format_bytes(settings.memory)} leaves "
            f"{format_bytes(memory)} for them: give memory='{format_bytes(enough)}' or "
            "smaller batches"
        )


def told_long(numbers: ImageNumbers, count: int, row: int, most: int) -> str:
    """Return how many rows are too long, and which is the first, for people."""
    file, number = numbers.place(row)
    return (
        f"{count:,} rows have more than {most:,} tokens, the first is row {number} of "
        f"{file}"
    )


def _surveyed(index: Any, numbers: ImageNumbers, cut: str, room: int) -> ArrayFolder:
    """Map what sequences have of images, or look at all of them first.

    Returns:
        The ``largest`` bytes of images of sequences, and the ``long`` rows of the
        files, whose images would be cut.
    """
    whole, spans = with_erased(index), index.spans
    told = str(VERSION), spans.fingerprint, cut, numbers.source.fingerprint
    lengths = document_lengths(spans)
    first, size = numbers.first, numbers.bytes

    def look(begin: int) -> Int64Array:
        count = min(SEQUENCES_AT_ONCE, index.num_sequences - begin)
        rows, which = rows_of(whole, np.arange(begin, begin + count))
        sizes = size[first[rows + 1]] - size[first[rows]]
        return np.bincount(which, sizes, count).astype(np.int64)

    def write(writer: ArrayWriter) -> None:
        largest = np.zeros(0, dtype=np.int64)
        begins = range(0, index.num_sequences, SEQUENCES_AT_ONCE)
        work = Work("images of sequences", total=len(begins), unit="pieces")
        for sizes in work.each(look, begins):
            largest = np.sort(np.concatenate([largest, sizes]))[-MOST_LARGEST:]
        writer.append("largest", largest)
        writer.append("long", [])
        for begin in range(0, spans.num_rows, ROWS_AT_ONCE):
            end = min(begin + ROWS_AT_ONCE, spans.num_rows)
            rows = spans.rows_of_index(np.arange(begin, end))
            is_long = lengths[begin:end] > room
            writer.append("long", rows[is_long & (first[rows + 1] > first[rows])])

    key = derived_key(spans.index, *told)
    return derived_arrays(spans.index, "images-of-sequences", key, write)
