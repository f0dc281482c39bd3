"""Tickets that are out: in flight, or back and waiting to be taken again."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn, TypeAlias

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
_Back: TypeAlias = tuple[int, int, Key, bool]
"""A ticket that came back: minus its priority, its number as first taken, its key, and
whether it was in flight in the state that was loaded."""


class _Out:
    """A ticket that is out."""

    __slots__ = ("back", "number", "ticket")

    def __init__(self, ticket: Ticket, number: int) -> None:
        self.ticket, self.number = ticket, number
        self.back: _Back | None = None
        """Its entry among those that came back; None in flight."""

    def wait(self, priority: int, *, was_in_flight: bool = False) -> _Back:
        """Let it wait, as another attempt."""
        attempt = self.ticket.attempt + 1
        self.ticket = self.ticket._replace(attempt=attempt)
        self.back = (-priority, self.number, self.ticket.key, was_in_flight)
        return self.back

    def in_state(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers that a state has of it."""
        dataset, position, _, _, attempt, version, _ = self.ticket
        waits, priority = False, 0
        if self.back is not None:
            waits, priority = not self.back[3], -self.back[0]
            attempt -= 1
        return names.index(dataset), position, attempt, version, waits, priority


class Outstanding:
    """The tickets that are out, as first taken."""

    def __init__(self, tickets: Iterable[tuple[Ticket, bool, int]] = ()) -> None:
        """Begin a life.

        Args:
            tickets: Tickets that wait, whether they were in flight before, and their
                priorities.
        """
        self.life = secrets.randbits(62)
        """Random number that marks the tickets of this life."""
        self._out: dict[Key, _Out] = {}
        self._back: list[_Back] = []
        """Tickets that came back; also some that were taken again since."""
        for ticket, was_in_flight, priority in tickets:
            out = self._out[ticket.key] = _Out(ticket, len(self._out))
            self._back.append(out.wait(priority, was_in_flight=was_in_flight))
        heapify(self._back)
        self.waiting = self._num_given = len(self._out)
        """Tickets that came back."""

    def __len__(self) -> int:
        """Return the tickets in flight, and those waiting."""
        return len(self._out)

    @property
    def in_flight(self) -> int:
        """Tickets in flight."""
        return len(self._out) - self.waiting

    def add(self, ticket: Ticket, version: int) -> Ticket:
        """Put a new ticket in flight."""
        out = self._out[ticket.key] = _Out(ticket, self._num_given)
        self._num_given += 1
        out.ticket = ticket._replace(version=version, life=self.life)
        return out.ticket

    def take_back(self, version: int) -> Ticket | None:
        """Put the next ticket that came back in flight again, if there is one."""
        while self._back:
            entry = heappop(self._back)
            out = self._out.get(entry[2])
            if out is not None and out.back is entry:
                return self._in_flight(out, out.ticket._replace(version=version))
        return None

    def _in_flight(self, out: _Out, ticket: Ticket) -> Ticket:
        out.back = None
        self.waiting -= 1
        out.ticket = ticket._replace(life=self.life)
        return out.ticket

    def remove(self, tickets: Iterable[Ticket]) -> None:
        """Take out tickets that were checked."""
        for ticket in tickets:
            del self._out[ticket.key]

    def release(self, tickets: Iterable[Ticket], priority: int) -> None:
        """Let tickets wait."""
        for ticket in self.checked(tickets):
            heappush(self._back, self._out[ticket.key].wait(priority))
            self.waiting += 1

    def claim(self, keys: Iterable[Any]) -> list[Ticket]:
        """Put certain tickets that wait in flight."""
        pairs = [key.key if isinstance(key, Ticket) else tuple(key) for key in keys]
        _check_once(pairs)
        for pair in pairs:
            out = self._out.get(pair)
            if out is None or out.back is None:
                raise TicketError(f"{pair} does not wait. Nothing was changed")
        claimed = []
        for out in map(self._out.__getitem__, pairs):
            ticket, back = out.ticket, out.back
            if back is not None and back[3]:
                ticket = ticket._replace(attempt=ticket.attempt - 1)
            claimed.append(self._in_flight(out, ticket))
        return claimed

    def checked(self, tickets: Iterable[Any]) -> list[Ticket]:
        """Return tickets, if all are in flight and none comes twice."""
        given = [checked_ticket(ticket) for ticket in tickets]
        for ticket in given:
            out = self._out.get(ticket.key)
            if out is None or out.back is not None or out.ticket != ticket:
                self._refuse(ticket, out)
        _check_once([ticket.key for ticket in given])
        return given

    def _refuse(self, ticket: Ticket, out: _Out | None) -> NoReturn:
        why = "given back, or taken again by somebody else"
        if ticket.life != self.life:
            why = "of a life before: claim() takes over those whose answers were saved"
        elif out is None:
            why = "finished already"
        raise TicketError(f"{ticket} is {why}. Nothing was changed")

    def state(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the part of a state that says which tickets are out."""
        rows = [out.in_state(names) for out in self._out.values()]
        table = np.array(rows, dtype=np.int64).reshape(-1, COLUMNS).T
        # Differences are small, and pack to some two bytes a ticket.
        return {"num_out": len(rows), "out": packed(np.diff(table, axis=1, prepend=0))}


def read_outstanding(
    state: Mapping[str, Any], places: Mapping[str, Places]
) -> Iterator[tuple[Ticket, bool, int]]:
    """Yield the tickets that are out in a state.

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
        raise StateMismatchError("a ticket that is out is of no dataset of the state")
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
