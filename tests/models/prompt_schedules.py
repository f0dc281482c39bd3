"""Random schedules of a prompt queue, held against sets of what was finished.

A life takes, commits, drops and gives back tickets at random, and is killed. What the
model of the last checkpoint knows stays; all else is forgotten, as in a real run.
"""

import json
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pagefeed import PromptQueue, parquet
from pagefeed.errors import TicketError
from pagefeed.run import Ticket

Make = Callable[[int], PromptQueue]
"""Makes a queue with some tickets in flight at most."""


@dataclass
class Known:
    """What is true of a run, in sets and lists of keys alone."""

    finished: list[tuple[str, int]] = field(default_factory=list)
    flying: dict[tuple[str, int], Ticket] = field(default_factory=dict)
    back: list[tuple[int, int, tuple[str, int], int]] = field(default_factory=list)
    """Minus priority, number as first taken, key and attempt of those that wait."""
    first: list[tuple[str, int]] = field(default_factory=list)
    """All keys, as first taken."""
    committed: int = 0


class Schedule:
    """One run, from its beginning to the end of the last pass.

    Args:
        make: Makes a queue.
        sizes: Rows of each dataset.
        epochs: Passes.
        seed: Chooses what happens.
    """

    def __init__(
        self, make: Make, sizes: Mapping[str, int], epochs: int, seed: int
    ) -> None:
        self.make, self.sizes, self.epochs = make, sizes, epochs
        self.draw = random.Random(seed)
        self.queue = make(self.draw.choice([1, 2, 5, 40]))
        self.known = Known()
        self.zombies: list[Ticket] = []
        self.saved = json.dumps(self.queue.state_dict()), deepcopy(self.known)
        self.version = 0

    def run(self) -> None:
        moves = [self.take] * 5 + [self.commit] * 4 + [self.drop, self.release]
        moves += [self.refused, self.save, self.kill]
        for _ in range(4_000):
            if self.queue.done:
                break
            self.draw.choice(moves)()
            self.check()
        assert self.queue.done
        self.check_end()

    def check(self) -> None:
        known, queue = self.known, self.queue
        assert queue.in_flight == len(known.flying)
        assert queue.waiting == len(known.back)
        counts = queue.counts
        for name in self.sizes:
            taken = sum(key[0] == name for key in known.first)
            assert counts[name]["taken"] == taken
        assert sum(c["committed"] for c in counts.values()) == known.committed

    def check_end(self) -> None:
        every = {
            (name, place)
            for name, size in self.sizes.items()
            for place in range(self.epochs * size)
        }
        assert len(self.known.finished) == len(every)
        assert set(self.known.finished) == every

    def take(self) -> None:
        known, queue, n = self.known, self.queue, self.draw.randint(1, 9)
        self.version += 1
        room = max(0, queue.max_in_flight - len(known.flying))
        total = sum(self.sizes.values()) * self.epochs
        left = len(known.back) + total - len(known.first)
        tickets = queue.take(n, version=self.version)
        assert len(tickets) == min(n, room, left)
        known.back.sort()
        expected = [entry[2:] for entry in known.back[: len(tickets)]]
        del known.back[: len(expected)]
        for number, ticket in enumerate(tickets):
            if number < len(expected):
                assert (ticket.key, ticket.attempt) == expected[number]
            else:
                before = sum(key[0] == ticket.dataset for key in known.first)
                assert (ticket.position, ticket.attempt) == (before, 0)
                known.first.append(ticket.key)
            assert ticket.epoch == ticket.position // self.sizes[ticket.dataset]
            assert ticket.version == self.version
            assert ticket.key not in known.flying
            known.flying[ticket.key] = ticket

    def some(self) -> list[Ticket]:
        flying = list(self.known.flying.values())
        return self.draw.sample(flying, self.draw.randint(0, min(len(flying), 5)))

    def commit(self) -> None:
        tickets = self.some()
        self.queue.commit(tickets)
        self.known.committed += len(tickets)
        self.finish(tickets)

    def drop(self) -> None:
        tickets = self.some()
        self.queue.drop(tickets)
        self.finish(tickets)

    def finish(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            del self.known.flying[ticket.key]
            self.known.finished.append(ticket.key)
        self.zombies += tickets

    def wait(self, ticket: Ticket, priority: int) -> None:
        number = self.known.first.index(ticket.key)
        entry = -priority, number, ticket.key, ticket.attempt + 1
        self.known.back.append(entry)

    def release(self) -> None:
        tickets, priority = self.some(), self.draw.choice([0, 0, 3, -2])
        self.queue.release(tickets, priority)
        for ticket in tickets:
            del self.known.flying[ticket.key]
            self.wait(ticket, priority)
            # Nobody was given the next attempt yet.
            self.zombies.append(ticket._replace(attempt=ticket.attempt + 1))
        self.zombies += tickets

    def refused(self) -> None:
        """Tickets that are not in flight change nothing, beside good ones too."""
        # The attempt that was guessed may be right by now.
        wrong = [t for t in self.zombies if self.known.flying.get(t.key) != t]
        if not wrong:
            return
        before = json.dumps(self.queue.state_dict())
        tickets = [*self.some(), self.draw.choice(wrong)]
        queue = self.queue
        for refuse in (queue.commit, queue.drop, queue.release):
            try:
                refuse(tickets)
            except TicketError:
                assert json.dumps(queue.state_dict()) == before
            else:
                raise AssertionError(f"{tickets[-1]} was not refused")

    def save(self) -> None:
        self.saved = json.dumps(self.queue.state_dict()), deepcopy(self.known)

    def kill(self) -> None:
        """Begin a new life where the last one was saved."""
        self.zombies = [*self.zombies[-20:], *self.known.flying.values()]
        if self.draw.random() < 0.7:  # Else the same object goes back.
            self.queue = self.make(self.draw.choice([1, 3, 8, 40]))
        text, known = self.saved
        self.queue.load_state_dict(json.loads(text))
        self.known = deepcopy(known)
        flying, self.known.flying = list(self.known.flying.values()), {}
        kept = self.draw.sample(flying, self.draw.randint(0, len(flying)) // 2)
        keys: list[Any] = [self.draw.choice([t, t.key]) for t in kept]
        claimed = self.queue.claim(keys)
        for before, now in zip(kept, claimed, strict=True):
            assert now._replace(life=0) == before._replace(life=0)
            self.known.flying[now.key] = now
        for ticket in flying:
            if ticket.key not in self.known.flying:
                self.wait(ticket, 0)
        assert json.loads(json.dumps(self.queue.state_dict())) == json.loads(text)


class SimulatedPrompts:
    """A whole run on datasets of any size, weights, pages and passes.

    Args:
        seed: Chooses them, and what happens.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._draw = seed, random.Random(seed)

    def live(self) -> int:
        """Run to the end; returns the number of passes."""
        draw = self._draw
        names = ["code", "math", "science", "tools"][: draw.randint(1, 4)]
        sizes = {name: draw.choice([1, 2, draw.randint(3, 60)]) for name in names}
        epochs = draw.randint(1, 3)
        shuffle: Any = draw.choice(["page", "row", None])
        with TemporaryDirectory() as folder:
            data = {}
            for name, size in sizes.items():
                path = Path(folder) / f"{name}.parquet"
                table = pa.table({"n": range(size)})
                pq.write_table(table, path, row_group_size=draw.randint(1, 20))
                data[name] = parquet(path, column="n"), draw.choice([0.1, 1, 3])

            def make(max_in_flight: int) -> PromptQueue:
                return PromptQueue(
                    data,
                    seed=self._seed,
                    epochs=epochs,
                    max_in_flight=max_in_flight,
                    shuffle=shuffle,
                )

            Schedule(make, sizes, epochs, self._seed).run()
        return epochs * len(names)
