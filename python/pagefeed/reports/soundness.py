"""Separate the files of a dataset that can be read from damaged ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from pagefeed.core._base import Work
from pagefeed.core.batches import Batch
from pagefeed.core.dataset import Dataset
from pagefeed.core.loader import Loader
from pagefeed.errors import (
    ColumnNotFoundError,
    DataError,
    FileAccessError,
    PagefeedError,
)
from pagefeed.parquet_files import ParquetDataset

AnyDataset = TypeVar("AnyDataset", bound=Dataset)

UNREADABLE = (DataError, FileAccessError, ColumnNotFoundError)
"""Errors about one file or page; other files may still be readable."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A part of the data that cannot be read."""

    kind: str
    """Class of the error, such as ``"CorruptFileError"``."""
    message: str
    """Message of the error."""
    file: str | None = None
    """Path of the file, if known."""
    row_group: int | None = None
    """Number of the row group, if known."""
    page: int | None = None
    """Page of the column, if known."""
    steps: tuple[int, ...] = ()
    """Steps of a loader that need it, if it was met in a run."""


def damage_of(error: PagefeedError, steps: Iterable[int] = ()) -> Damage:
    """Return the damage that an error reports."""
    return Damage(
        kind=type(error).__name__,
        message=str(error),
        file=error.file,
        row_group=error.row_group,
        page=error.page,
        steps=tuple(steps),
    )


def sound_part(dataset: AnyDataset) -> tuple[AnyDataset, list[Damage]]:
    """Return the files of a dataset that can be indexed, and the damage of the others.

    Where all is well this costs no more than the index. Otherwise each file is indexed
    alone, to find every one that is damaged.

    Args:
        dataset: All rows of some Parquet files. Other datasets, and selections, are
            sound as a whole or not at all.

    Raises:
        PagefeedError: If no file can be indexed, or if every file can, but not all
            together.
    """
    try:
        _ = dataset.index
    except UNREADABLE as error:
        if not isinstance(dataset, ParquetDataset) or dataset.selection is not None:
            raise
        damage_of_file = _damaged_files(dataset)
        sound = tuple(file for file in dataset.files if file not in damage_of_file)
        if not sound or not damage_of_file:
            raise error from None
        rest = replace(dataset, files=sound)
        _ = rest.index
        return rest, list(damage_of_file.values())
    return dataset, []


def sound_batches(
    loader: Loader, damage: list[Damage], *, most: int | None = None
) -> Iterator[Batch]:
    """Yield batches, and skip the steps that need unreadable data.

    Args:
        loader: Iterates from its position, which moves on.
        damage: The damage that is met is added to this list.
        most: Batches to take at most.
    """
    batches, taken = iter(loader), 0
    while most is None or taken < most:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except UNREADABLE as error:
            damage.append(damage_of(error, error.steps))
            loader.skip(error.steps)
            continue
        taken += 1
        yield batch


def _damaged_files(dataset: ParquetDataset) -> dict[str, Damage]:
    def look(file: str) -> Damage | None:
        try:
            _ = replace(dataset, files=(file,), cache_dir=None).index
        except UNREADABLE as error:
            return replace(damage_of(error), file=file)
        return None

    work = Work("looking for damage", total=len(dataset.files), unit="files")
    looks = zip(dataset.files, work.map(look, dataset.files), strict=True)
    return {file: damage for file, damage in looks if damage is not None}
