"""Rows of batches of documents, where a step of a rank has several such batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pagefeed.contract import Cursor, Slot, Step
from pagefeed.errors import InvalidArgumentError

__all__ = ["document_in", "num_documents", "slots_in_batches"]


def num_documents(cursor: Cursor, sequences: Iterable[int]) -> int:
    """Return the documents of sequences, of which padding has none."""
    real = (own for own in sequences if own >= 0)
    return sum(len(cursor.run.documents_of(sequence)) for sequence in real)


def document_in(cursor: Cursor, step: Step, row: int) -> tuple[int, int]:
    """Return the sequence of a row of this rank's batch, and the row's index in it.

    Raises:
        InvalidArgumentError: If there is no such step or row.
    """
    before = 0
    for sequence in cursor.sequences_in(step).tolist():
        count = num_documents(cursor, [sequence])
        if before <= row < before + count:
            return sequence, row - before
        before += count
    if not before:
        raise InvalidArgumentError(f"step={step}, row={row} is padding")
    raise InvalidArgumentError(f"row={row} must lie below {before}")


def slots_in_batches(cursor: Cursor, slots: Iterable[Slot], offset: int) -> list[Slot]:
    """Return the slots of a document, from the slots of the batches that have it.

    Args:
        cursor: Cursor that finds the sequences of steps.
        slots: Slots of the batches within their step and rank.
        offset: Index of the document in each batch.
    """
    return [s._replace(row=_rows_before(cursor, s) + offset) for s in slots]


def _rows_before(cursor: Cursor, slot: Slot) -> int:
    """Return the rows of a rank's batch before those of one of its sequences."""
    if slot.row == 0:
        return 0
    route = replace(cursor.route, rank=slot.rank)
    sequences = cursor.sequences_of(route, route.index_of(Step(slot.step)))
    return num_documents(cursor, sequences[: slot.row].tolist())
