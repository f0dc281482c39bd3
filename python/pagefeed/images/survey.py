"""What sequences have of images, looked at before the first batch is planned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pagefeed.contract import LoaderSettings, Run
from pagefeed.core._base import format_bytes
from pagefeed.core.sequences import document_lengths
from pagefeed.errors import InvalidArgumentError
from pagefeed.images.numbers import ImageNumbers

__all__ = ["Room", "check_cut", "check_images", "told_long"]

AT_ONCE = 1 << 20
"""Sequences or rows looked at together."""
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


class Room(NamedTuple):
    """How the memory for images is divided."""

    engine: int
    """Bytes for pages, and images as they are stored."""
    ahead: int
    """Bytes for images that are decoded ahead."""
    of_step: tuple[int, int]
    """Bytes of the images of the largest step, as stored and decoded."""


def check_images(
    settings: LoaderSettings, run: Run, parts: dict[int, Any], memory: int
) -> Room:
    """Refuse rows whose images would be cut, and steps that do not fit the memory.

    Args:
        settings: Of the loader.
        run: What it delivers.
        parts: The datasets with images, by their numbers.
        memory: Bytes for images.

    Raises:
        InvalidArgumentError: If an image would be cut, or a step does not fit.
    """
    for number, part in parts.items():
        _check_lengths(settings, run.indexes[number], part.numbers)
    indexes = [run.indexes[number] for number in parts]
    stored = _of_step(indexes, "bytes", settings.batch_size)
    is_decoded = any(part.decode is not None for part in parts.values())
    made = _of_step(indexes, "decoded", settings.batch_size) if is_decoded else 0
    sources = [part.numbers.source for part in parts.values()]
    sizes = [source.stored_bytes(np.arange(len(source))) for source in sources]
    page = int(np.concatenate(sizes).max(initial=0))
    ahead = stored + made if is_decoded else 0
    needed = stored + PAGES_HELD * page + ahead
    if needed > memory:
        decoded = (
            f", {format_bytes(made)} decoded (say decoded_bytes= if decode makes less)"
        )
        enough = settings.memory + 2 * (needed - memory)
        raise InvalidArgumentError(
            f"images of a step may have {format_bytes(stored)}{decoded * is_decoded}, "
            f"and a page of their column {format_bytes(page)}, two of which are held "
            f"as stored and as decoded, and memory={format_bytes(settings.memory)} "
            f"leaves {format_bytes(memory)} for them: give "
            f"memory='{format_bytes(enough)}' or smaller batches"
        )
    if is_decoded:
        ahead += (memory - needed) // 2
    return Room(memory - ahead, ahead, (stored, made))


def told_long(numbers: ImageNumbers, count: int, row: int, most: int) -> str:
    """Return how many rows are too long, and which is the first, for people."""
    file, number = numbers.place(row)
    return (
        f"{count:,} rows have more than {most:,} tokens, the first is row {number} of "
        f"{file}"
    )


def _check_lengths(settings: LoaderSettings, index: Any, numbers: ImageNumbers) -> None:
    """Refuse rows with images that are longer than a sequence."""
    room = getattr(settings.sequences, "max_length", None)
    room = room or index.length - index.layout.per_row
    lengths, long = document_lengths(index.spans), [np.zeros(0, dtype=np.int64)]
    for begin in range(0, len(lengths), AT_ONCE):
        is_long = lengths[begin : begin + AT_ONCE] > room
        long.append(begin + np.flatnonzero(is_long))
    rows = index.spans.rows_of_index(np.concatenate(long))
    rows = rows[numbers.first[rows + 1] > numbers.first[rows]]
    if len(rows):
        raise InvalidArgumentError(
            f"{told_long(numbers, len(rows), int(rows[0]), room)}, and "
            f"{settings.sequences!r} would cut their images: give "
            f"with_images(max_tokens={room}, long='drop') to leave such rows out, or "
            "longer sequences"
        )


def _of_step(indexes: list[Any], name: str, batch_size: int) -> int:
    """Return the sum of the largest that sequences of a step may bring along."""
    largest = np.zeros(0)
    for index in indexes:
        sums = index.stored_sums(name)
        for begin in range(0, len(sums), AT_ONCE):
            some = np.concatenate([largest, sums[begin : begin + AT_ONCE]])
            largest = np.sort(some)[-batch_size:]
    return int(largest.sum())
