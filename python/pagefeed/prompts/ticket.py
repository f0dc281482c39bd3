"""Tickets: which prompt is trained at which position."""

from __future__ import annotations

from typing import NamedTuple


class Ticket(NamedTuple):
    """A prompt that was taken of a :class:`PromptQueue`; plain values, any JSON.

    ``Ticket(*json.loads(text))`` is equal to the ticket that was written. The same
    position is the same row in every life of a run.

    Example:
        >>> ticket = Ticket("math", 1234, 1, 56, 0, 7, 99)
        >>> ticket.key
        ('math', 1234)
    """

    dataset: str
    """Name of the dataset; empty if the queue has one without a name."""
    position: int
    """Place in the order of the dataset, counted through all passes."""
    epoch: int
    """Pass of the dataset, from 0."""
    row: int
    """Number of the row among the rows of the dataset."""
    attempt: int
    """Number of times it was given back before: 0 at first."""
    version: int
    """The argument of ``take``, such as the step of the policy that answers."""
    life: int
    """Random number of the process that took it, until a state is loaded."""

    @property
    def key(self) -> tuple[str, int]:
        """Dataset and position, which stay the same in all lives of a run."""
        return self.dataset, self.position
