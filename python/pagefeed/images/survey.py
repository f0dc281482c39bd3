"""Checks of a loader with images, before its first batch: cuts, lengths and memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagefeed.caches import document_lengths
from pagefeed.contract import LoaderSettings, Run
from pagefeed.core._base import format_bytes
from pagefeed.errors import InvalidArgumentError
from pagefeed.images.numbers import ImageNumbers

PAGES_HELD = 4
"""Two pages of images, each as it is stored and as it is decoded."""


def check_images_uncut(settings: LoaderSettings) -> None:
    """Raise an error for cuts and context parallelism that would cut images.

    Raises:
        InvalidArgumentError: If so; the message says what to give.
    """
    cut: Any = settings.sequences
    if cut.delivers == "tokens" and not (cut.packs and cut.layout.never_split):
        raise InvalidArgumentError(
            f"{cut!r} may cut a document inside an image: give Packed({cut.length}, "
            "split='never') or Documents(max_length=...)"
        )
    if cut.delivers == "rows":
        raise InvalidArgumentError(
            f"{cut!r} delivers columns, and images are delivered between tokens: give "
            "a max_length, or the dataset without with_images()"
        )
    if settings.context_parallel is not None or settings.lengths is not None:
        name = "lengths" if settings.context_parallel is None else "context_parallel"
        raise InvalidArgumentError(
            f"{name}= cuts sequences inside images: leave it out"
        )
    if cut.delivers == "tokens" and "input_ids" not in settings.fields.names:
        raise InvalidArgumentError(
            f"fields={settings.fields.names} lack input_ids: images need it, add it"
        )


def check_images(
    settings: LoaderSettings, run: Run, datasets: dict[int, Any], memory: int
) -> tuple[int, int, tuple[int, int]]:
    """Raise an error if images would be cut, or a step does not fit the memory.

    Args:
        settings: The settings of the loader.
        run: The run to deliver.
        datasets: The datasets with images, by their numbers in the run.
        memory: Bytes for images.

    Returns:
        Bytes for the engine that reads images, bytes for images that are decoded ahead,
        and the bytes of the images of the largest step, as stored and as decoded.

    Raises:
        InvalidArgumentError: If an image would be cut, or a step does not fit.
    """
    for member, dataset in datasets.items():
        _check_broken(run.indexes[member].spans, dataset)
        _check_lengths(settings, run.indexes[member], dataset.numbers)
    is_decoded = any(dataset.decode is not None for dataset in datasets.values())

    def of_largest_step(name: str) -> int:
        indexes: list[Any] = [run.indexes[member] for member in datasets]
        numbers = [index.spans.index.numbers_beside[name] for index in indexes]
        sums = [of.sums(index)[:] for of, index in zip(numbers, indexes, strict=True)]
        largest = np.sort(np.concatenate(sums))[-settings.batch_size :]
        return int(largest.sum(dtype=np.float64))

    stored = of_largest_step("bytes")
    decoded = of_largest_step("decoded") if is_decoded else 0
    columns = [dataset.numbers.source for dataset in datasets.values()]
    pages = [column.stored_bytes(np.arange(len(column))) for column in columns]
    page = int(np.concatenate(pages).max(initial=0))
    ahead = stored + decoded if is_decoded else 0
    needed = stored + PAGES_HELD * page + ahead
    if needed > memory:
        also = f" and {format_bytes(decoded)} decoded (decoded_bytes= may say less)"
        enough = settings.memory + 2 * (needed - memory)
        raise InvalidArgumentError(
            f"memory={format_bytes(settings.memory)} leaves {format_bytes(memory)} for "
            f"images, and {format_bytes(needed)} are needed: the images of a step have "
            f"up to {format_bytes(stored)}{also * is_decoded}, and a page of "
            f"their column {format_bytes(page)}. Give "
            f"memory='{format_bytes(enough)}' or smaller batches"
        )
    if is_decoded:
        ahead += (memory - needed) // 2
    return memory - ahead, ahead, (stored, decoded)


def long_rows(numbers: ImageNumbers, count: int, row: int, most: int) -> str:
    """Return a message: how many rows are longer than ``most``, and the first one."""
    file, file_row = numbers.file_of(row)
    return (
        f"{count:,} rows have more than {most:,} tokens, the first is row {file_row} "
        f"of {file}"
    )


def _check_broken(spans: Any, dataset: Any) -> None:
    """Refuse rows with broken images that are selected and not erased."""
    empty = np.flatnonzero(document_lengths(spans)[:] == 0)
    if spans.erased is not None:
        empty = empty[~spans.erased.holds(empty)]
    dataset.numbers.check(spans.rows_of_index(empty), drops=dataset.drops)


def _check_lengths(settings: LoaderSettings, index: Any, numbers: ImageNumbers) -> None:
    """Refuse rows with images that are longer than a sequence."""
    most = settings.sequences.max_length
    most = most or index.length - index.layout.per_row
    is_long = document_lengths(index.spans)[:] > most
    rows = index.spans.rows_of_index(np.flatnonzero(is_long))
    rows = rows[numbers.first[rows + 1] > numbers.first[rows]]
    if len(rows):
        raise InvalidArgumentError(
            f"{long_rows(numbers, len(rows), int(rows[0]), most)}, and "
            f"{settings.sequences!r} would cut their images: give "
            f"with_images(max_tokens={most}, long='drop') to leave such rows out, or "
            "longer sequences"
        )
