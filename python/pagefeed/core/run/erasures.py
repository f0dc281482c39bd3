"""What states record of erased rows: these must stay erased in all that load them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pagefeed.core.dataset import Dataset
from pagefeed.errors import InvalidArgumentError, StateMismatchError

__all__ = ["Records", "checked_records", "records_after", "records_of"]

Records: TypeAlias = tuple[tuple[str, str], ...]
"""Records of :class:`~pagefeed.dataset.Erased` by the name of the dataset, or ""."""


def records_of(names: Sequence[str | None], datasets: Sequence[Dataset]) -> Records:
    """Return the records of the datasets of which something was erased."""
    found = {
        name or "": dataset.spans.erased.records[-1]
        for name, dataset in zip(names, datasets, strict=True)
        if dataset.spans.erased is not None
    }
    return tuple(sorted((name, record) for name, record in found.items() if record))


def records_after(
    then: Records, names: Sequence[str | None], datasets: Sequence[Dataset]
) -> Records:
    """Return what is erased now: all that was then, and perhaps more.

    Raises:
        StateMismatchError: If erased documents would come again.
    """
    now = dict(records_of(names, datasets))
    known = {name or "": data for name, data in zip(names, datasets, strict=True)}
    for name, record in then:
        if name not in known:  # A mixture may have the dataset again.
            now[name] = record
            continue
        erased = known[name].spans.erased
        if erased is None or record not in erased.records:
            of = f" of {name!r}" if name else ""
            raise StateMismatchError(
                f"{record.split()[0]} documents{of} were erased when the state was "
                "saved, and this loader would deliver them: erase the same ones, by "
                "the same calls of dataset.erase() in their order, and others after"
            )
    return tuple(sorted(now.items()))


def checked_records(given: Any) -> Records:
    """Return the records that a state has.

    Raises:
        InvalidArgumentError: If they are none.
    """
    are_texts = isinstance(given, Mapping) and all(
        isinstance(text, str) and text for text in given.values()
    )
    if not are_texts or not all(isinstance(name, str) for name in given):
        raise InvalidArgumentError(f"erased={given!r:.60} must be records by name")
    return tuple(sorted(given.items()))
