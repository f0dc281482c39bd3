"""Outstanding tickets: in flight, or back and waiting to be taken again."""

from __future__ import annotations

import secrets
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from pagefeed.core._base import check_whole
from pagefeed.errors import InvalidArgumentError, StateMismatchError, TicketError
from pagefeed.prompts.packed import packed, unpacked
from pagefeed.prompts.places import Places
from pagefeed.prompts.ticket import Ticket

MOST_IN_FLIGHT = 1 << 16
COLUMNS = 6
"""Numbers of a ticket in states."""

Key: TypeAlias = tuple[str, int]


class _Waiting(NamedTuple):
    """A ticket that came back. The greatest is taken first."""

    priority: int
    order: int
    """Minus its number as first taken."""
    ticket: Ticket
    """As it is taken again, with the next attempt."""
    was_in_flight: bool
    """Whether it was in flight in the state that was loaded."""


class Outstanding:
    """The outstanding tickets: in flight, or waiting to be taken again."""

    def __init__(self, tickets: Iterable[tuple[Ticket, bool, int]] = ()) -> None:
        """Begin with a new random number, which marks the tickets of this life.

        Args:
            tickets: Tickets that wait, as first taken; whether they were in flight
                before, and their priorities.
        """
        self.life = secrets.randbits(62)
        """Random number that marks the tickets of this life."""
        self._flying: dict[Key, tuple[int, Ticket]] = {}
        """Numbers as first taken, and tickets."""
        self._waiting = sorted(
            _Waiting(priority, -number, _next_attempt(ticket), was_in_flight)
            for number, (ticket, was_in_flight, priority) in enumerate(tickets)
        )
        self._num_given = len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Tickets in flight."""
        return len(self._flying)

    @property
    def waiting(self) -> int:
        """Tickets that came back."""
        return len(self._waiting)

    def add(self, ticket: Ticket, version: int) -> Ticket:
        """Put a new ticket in flight."""
        self._num_given += 1
        return self._put(self._num_given - 1, ticket._replace(version=version))

    def take_back(self, version: int) -> Ticket | None:
        """Put the next ticket that came back in flight again, if there is one."""
        if not self._waiting:
            return None
        _, order, ticket, _ = self._waiting.pop()
        return self._put(-order, ticket._replace(version=version))

    def _put(self, number: int, ticket: Ticket) -> Ticket:
        ticket = ticket._replace(life=self.life)
        self._flying[ticket.key] = number, ticket
        return ticket

    def remove(self, tickets: Iterable[Ticket]) -> None:
        """Take out tickets that were checked."""
        for ticket in tickets:
            del self._flying[ticket.key]

    def release(self, tickets: Iterable[Ticket], priority: int) -> None:
        """Let tickets wait."""
        for ticket in self.checked(tickets):
            number, _ = self._flying.pop(ticket.key)
            again = _next_attempt(ticket)
            insort(
                self._waiting, _Waiting(priority, -number, again, was_in_flight=False)
            )

    def claim(self, keys: Iterable[Any]) -> list[Ticket]:
        """Put waiting tickets in flight, chosen by their keys."""
        pairs = [key.key if isinstance(key, Ticket) else tuple(key) for key in keys]
        _check_once(pairs)
        waiting = {each.ticket.key: each for each in self._waiting}
        if unknown := [pair for pair in pairs if pair not in waiting]:
            raise TicketError(f"{unknown[0]} is not waiting. Nothing was changed")
        claimed = [waiting.pop(pair) for pair in pairs]
        self._waiting = [*waiting.values()]
        return [
            self._put(-order, ticket._replace(attempt=ticket.attempt - was_in_flight))
            for _, order, ticket, was_in_flight in claimed
        ]

    def checked(self, tickets: Iterable[Any]) -> list[Ticket]:
        """Return tickets, if all are in flight and none comes twice."""
        given = [checked_ticket(ticket) for ticket in tickets]
        for ticket in given:
            if self._flying.get(ticket.key, (0, None))[1] != ticket:
                self._refuse(ticket)
        _check_once([ticket.key for ticket in given])
        return given

    def _refuse(self, ticket: Ticket) -> NoReturn:
        out = {*self._flying, *(each.ticket.key for each in self._waiting)}
        why = "given back, or taken again by somebody else"
        if ticket.life != self.life:
            why = "from before a state was loaded: claim() takes over saved answers"
        elif ticket.key not in out:
            why = "finished already"
        raise TicketError(f"{ticket} is {why}. Nothing was changed")

    def state(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the part of a state that lists the outstanding tickets."""
        out = [(number, ticket, 0, 0) for number, ticket in self._flying.values()]
        for priority, order, ticket, was_in_flight in self._waiting:
            before = ticket._replace(attempt=ticket.attempt - 1)
            out.append((-order, before, not was_in_flight, priority))
        rows = [
            (names.index(t.dataset), t.position, t.attempt, t.version, waits, priority)
            for _, t, waits, priority in sorted(out)
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, COLUMNS).T
        # Differences are small, and pack to some two bytes a ticket.
        return {"num_out": len(rows), "out": packed(np.diff(table, axis=1, prepend=0))}


def _next_attempt(ticket: Ticket) -> Ticket:
    return ticket._replace(attempt=ticket.attempt + 1)


def read_outstanding(
    state: Mapping[str, Any], places: Mapping[str, Places]
) -> Iterator[tuple[Ticket, bool, int]]:
    """Yield the outstanding tickets of a state.

    Args:
        state: What :meth:`Outstanding.state` returned, and more.
        places: The datasets, at the positions of the state.

    Yields:
        Tickets, whether they were in flight, and their priorities.

    Raises:
        StateMismatchError: If there cannot be such tickets.
    """
    size = check_whole(state["num_out"], "num_out", least=0, most=2 * MOST_IN_FLIGHT)
    flat = unpacked(state["out"], np.int64, COLUMNS * size, "out")
    table = flat.reshape(COLUMNS, size).cumsum(axis=1)
    names = list(state["datasets"])
    rows = np.full(size, -1)
    for number, name in enumerate(names):
        ours = table[0] == number
        rows[ours] = places[name].rows_of(table[1, ours])
    if rows.min(initial=0) < 0 or table[2].min(initial=0) < 0:
        raise StateMismatchError("an outstanding ticket of the state names no dataset")
    _check_once(list(zip(*table[:2].tolist(), strict=True)))
    for row, numbers in zip(rows.tolist(), table.T.tolist(), strict=True):
        number, at, tries, version, waits, priority = numbers
        name = names[number]
        epoch = at // places[name].num_rows
        yield Ticket(name, at, epoch, row, tries, version, 0), not waits, priority


def checked_ticket(ticket: Any) -> Ticket:
    """Return a ticket; refuse anything else."""
    if not isinstance(ticket, Ticket):
        raise InvalidArgumentError(
            f"{ticket!r:.60} is not a Ticket: Ticket(*values) makes one of JSON"
        )
    return ticket


def _check_once(keys: list[Any]) -> None:
    if len(set(keys)) < len(keys):
        raise InvalidArgumentError("a ticket is named twice: name it once")
