"""The queue of prompts: which tickets are out, and which comes next."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from functools import partial
from typing import Any, TypeAlias

from pagefeed.contract import Dataset, derive_key
from pagefeed.core._base import MOST, check_number, check_whole
from pagefeed.core.order import ShuffleLike
from pagefeed.core.run import reading_state
from pagefeed.documents import Documents
from pagefeed.errors import (
    EmptySelectionError,
    InvalidArgumentError,
    StateMismatchError,
    UnsupportedError,
)
from pagefeed.launch import gather_from
from pagefeed.mixture import check_weights, mix
from pagefeed.prompts.curriculum import Curriculum
from pagefeed.prompts.outstanding import (
    MOST_IN_FLIGHT,
    Outstanding,
    checked_ticket,
    read_outstanding,
)
from pagefeed.prompts.places import Places
from pagefeed.prompts.shares import Shares
from pagefeed.prompts.ticket import Ticket

VERSION = 1

Tickets: TypeAlias = Iterable[Ticket]
Numbers: TypeAlias = Iterable[float] | None


class PromptQueue:
    """Hands out prompts ahead of training, and takes them back in any order.

    A ticket is a position in the shuffled order of a dataset, which continues pass
    after pass. It ends when it is committed: the model was trained on it. So a
    straggler stops nothing, and ``state_dict()`` saved with the model forgets nothing:
    after a kill the tickets that were out are taken again, and no other. See
    docs/explanation/prompts.md.

    Threads may share a queue. Ranks that call alike may each have a replica, see
    :meth:`check_ranks`. A pickled copy reads tickets in another process, and takes
    none.

    Args:
        data: A dataset; or several by name, each alone or with its weight:
            ``{"math": (math, 0.6), "code": (code, 0.4)}``. All weights are 1 if none is
            given.
        columns: Columns of a row, as for :class:`Documents`.
        max_length: Most tokens of a row. The dataset's column then comes as
            ``input_ids``, int64 [tokens], without padding.
        seed: Seed of the order.
        epochs: Passes over each dataset; None never ends.
        max_in_flight: Most tickets in flight. ``(S + 1) * B`` for steps of B prompts
            bounds the staleness of their answers by S steps.
        curriculum: Takes prompts by their scores.
        shuffle: As for :class:`Loader`.
        memory: Bytes that reading may hold for each dataset, such as ``"256MiB"``.
        num_threads: Threads that read, for each dataset.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    Example:
        >>> queue = PromptQueue(dataset, epochs=2, max_in_flight=3 * 64)
        >>> tickets = queue.take(64, version=7)
        >>> rows = queue.read(tickets)
        >>> queue.release(tickets[:2])
        >>> queue.commit(tickets[2:])
        >>> queue.in_flight, queue.waiting
        (0, 2)
    """

    def __init__(
        self,
        data: Dataset | Mapping[str, Dataset | tuple[Dataset, float]],
        *,
        columns: Iterable[str] | None = None,
        max_length: int | None = None,
        seed: int = 0,
        epochs: int | None = None,
        max_in_flight: int,
        curriculum: Curriculum | None = None,
        shuffle: ShuffleLike = "page",
        memory: int | str = "256MiB",
        num_threads: int = 2,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self._lock = threading.RLock()
        documents = Documents(columns=columns, max_length=max_length)
        self._given = given | {"columns": documents.columns}
        check_whole(seed, "seed")
        if epochs is not None:
            check_whole(epochs, "epochs", least=1, most=MOST)
        check_whole(max_in_flight, "max_in_flight", least=1, most=MOST_IN_FLIGHT)
        self.max_in_flight = max_in_flight
        """Most tickets in flight."""
        self.epochs = epochs
        """Passes over each dataset; None without end."""
        self._curriculum = _checked(curriculum or Curriculum([], [1.0]))
        settings = {"shuffle": shuffle, "memory": memory, "num_threads": num_threads}
        mixture = mix(data) if isinstance(data, Mapping) else None
        datasets: Any = {"": data} if mixture is None else mixture.datasets
        self._places = {
            n: Places(n, d, documents, seed, epochs, self._curriculum, settings)
            for n, d in sorted(datasets.items())
        }
        given_weights = mixture and mixture.weights
        weights = given_weights or dict.fromkeys(self._places, 1.0)
        self._shares = Shares(self._check_weights(weights))
        self._out, self._can_take = Outstanding(), True

    # Tickets in flight.

    @property
    def in_flight(self) -> int:
        """Tickets that were taken, and neither finished nor given back."""
        return self._out.in_flight

    @property
    def waiting(self) -> int:
        """Tickets that came back, and are taken next."""
        return self._out.waiting

    @property
    def done(self) -> bool:
        """Whether all passes over all datasets with a weight are finished."""
        weights = self._shares.weights
        is_left = (weights[n] and not p.has_ended for n, p in self._places.items())
        return not (self.in_flight or self.waiting or any(is_left))

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Tickets ``taken`` (the first time), ``committed``, ``dropped``, by dataset.

        A dataset without a name is called ``""``.
        """
        return {name: dict(places.counts) for name, places in self._places.items()}

    def tiers(self) -> dict[str, tuple[int, ...]]:
        """Return how many prompts have no score, and are in each tier, by dataset."""
        return {name: tuple(p.scores.counts) for name, p in self._places.items()}

    # Taking.

    def take(self, n: int, *, version: int = 0) -> list[Ticket]:
        """Return up to ``n`` tickets; none while ``max_in_flight`` are in flight.

        Tickets that came back are first, by their priority and then as first taken. New
        ones follow, from the dataset that lacks most of its share.

        Args:
            n: Number of tickets.
            version: A number that the tickets carry, such as the step of the policy.

        Returns:
            The tickets. There are fewer than ``n`` also at the end of the last pass:
            see :attr:`done`.

        Raises:
            EmptySelectionError: If the curriculum takes no prompt of a dataset, and no
                ticket is in flight whose score could change that.
        """
        check_whole(n, "n", least=1, most=MOST_IN_FLIGHT)
        check_whole(version, "version", least=-MOST, most=MOST)
        if not self._can_take:
            raise UnsupportedError(
                "this queue is a pickled copy, which only reads tickets: take and "
                "finish tickets with the original queue"
            )
        with self._lock:
            taken: list[Ticket] = []
            while len(taken) < n and self.in_flight < self.max_in_flight:
                try:
                    ticket = self._out.take_back(version) or self._next_new(version)
                except EmptySelectionError:
                    if self.in_flight:
                        break
                    raise
                if ticket is None:
                    break
                taken.append(ticket)
            return taken

    def _next_new(self, version: int) -> Ticket | None:
        """Return a new ticket; None if all passes have ended."""
        while True:
            left = [name for name, p in self._places.items() if not p.has_ended]
            name = self._shares.next(left)
            if name is None:
                return None
            places = self._places[name]
            ticket = places.take()
            self._shares.count(name)
            if places.has_ended:
                self._shares.restart()
            if ticket is not None:
                return self._out.add(ticket, version)

    def read(self, tickets: Sequence[Ticket]) -> list[dict[str, Any]]:
        """Return the rows of tickets, as dicts of columns.

        It needs no state: a queue with the same arguments, or a pickled copy, reads
        them in any process. Pages stay in memory as long as there is room. Up to some
        hundred tickets at a time are fastest.

        Raises:
            StateMismatchError: If tickets are of other data or another seed.
        """
        rows: list[dict[str, Any]] = [{}] * len(tickets)
        for name in {checked_ticket(ticket).dataset for ticket in tickets}:
            if name not in self._places:
                raise StateMismatchError(
                    f"a ticket is of dataset {name!r}: this queue has {[*self._places]}"
                )
            numbers = [n for n, ticket in enumerate(tickets) if ticket.dataset == name]
            found = self._places[name].read([tickets[number] for number in numbers])
            for number, row in zip(numbers, found, strict=True):
                rows[number] = row
        return rows

    # Finishing.

    def commit(self, tickets: Tickets, scores: Numbers = None) -> None:
        """Finish tickets: the model was trained on them.

        All of them, or none if one is wrong.

        Args:
            tickets: Tickets in flight.
            scores: A number in 0..1 for each, for the curriculum, such as the share of
                right answers.

        Raises:
            TicketError: If one is not in flight: it was finished or given back, or was
                taken before the state was loaded.
            InvalidArgumentError: If scores are wrong, or a ticket comes twice.
        """
        self._finish(tickets, scores, "committed")

    def drop(self, tickets: Tickets, scores: Numbers = None) -> None:
        """Finish tickets without training, such as groups without variance.

        Others are drawn in their place. Arguments and errors are those of
        :meth:`commit`.
        """
        self._finish(tickets, scores, "dropped")

    def _finish(self, tickets: Tickets, scores: Numbers, how: str) -> None:
        with self._lock:
            given = self._out.checked(tickets)
            checked = [None] * len(given) if scores is None else list(scores)
            for score in () if scores is None else checked:
                check_number(score, "a score", "a number", least=0, most=1)
            if len(checked) != len(given):
                raise InvalidArgumentError(
                    f"{len(checked)} scores for {len(given)} tickets: give one for each"
                )
            self._out.remove(given)
            for ticket, score in zip(given, checked, strict=True):
                places = self._places[ticket.dataset]
                places.counts[how] += 1
                if score is not None:
                    places.score(ticket.row, float(score))

    def release(self, tickets: Iterable[Ticket], priority: int = 0) -> None:
        """Give tickets back: they are taken again before any new one.

        Each then has another ``attempt``, and its earlier ticket is refused.

        Args:
            tickets: Tickets in flight, such as those of a worker that died.
            priority: Those with the highest are taken first.

        Raises:
            TicketError: As for :meth:`commit`; then none is given back.
        """
        check_whole(priority, "priority", least=-MOST, most=MOST)
        with self._lock:
            self._out.release(tickets, priority)

    def claim(self, keys: Iterable[Ticket | tuple[str, int]]) -> list[Ticket]:
        """Take certain tickets after a resume: those whose answers were saved.

        Call it before :meth:`take`. It may take more than ``max_in_flight``.

        Args:
            keys: Tickets that were out when the state was saved, or their ``key``:
                dataset and position.

        Returns:
            Valid tickets for the same prompts, with the same ``attempt`` and
            ``version``.

        Raises:
            TicketError: If one is not waiting; then none is taken.
        """
        with self._lock:
            return self._out.claim(keys)

    # Settings that change.

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Change the shares of datasets in coming tickets.

        Args:
            weights: A weight for each dataset, not all 0.

        Raises:
            InvalidArgumentError: If a dataset is missing, or a weight is wrong.
        """
        with self._lock:
            self._shares = Shares(self._check_weights(weights))

    def _check_weights(self, weights: Any) -> dict[str, float]:
        checked = check_weights(weights, self._places)
        if missing := [name for name in self._places if name not in checked]:
            raise InvalidArgumentError(f"{missing} have no weight: give all one, or 0")
        return {name: float(checked[name]) for name in self._places}

    def set_curriculum(self, curriculum: Curriculum) -> None:
        """Take prompts by other tiers or weights from now on; scores stay."""
        with self._lock:
            self._curriculum = _checked(curriculum)
            for places in self._places.values():
                places.scores.follow(curriculum)
                places.go_to(places.position)

    # States.

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain JSON types: save it with the model.

        What is committed must be in that model. Save both at one moment: with
        asynchronous saving, when the model is copied. It has next positions, the
        tickets that are out, and weights; with a curriculum the score of each prompt.
        ``max_in_flight`` and ranks do not belong to it.
        """
        with self._lock:
            return {
                "version": VERSION,
                "datasets": {n: p.state_dict() for n, p in self._places.items()},
                "weights": dict(self._shares.weights),
                "turns": dict(self._shares.turns),
                "curriculum": asdict(self._curriculum),
                **self._out.state(list(self._places)),
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a state: the tickets that were out wait to be taken again.

        Tickets that were taken earlier are refused. Datasets may be added: the
        arguments then give the weights of all. ``max_in_flight`` may change, and
        ``epochs`` grow.

        Raises:
            StateMismatchError: If the state is of other data, seed or shuffle, or no
                state of a queue; then nothing is changed.
        """
        with self._lock, reading_state(state, {"version": VERSION}):
            try:
                self._load(state)
            except (AttributeError, KeyError) as error:
                raise StateMismatchError(f"it has no {error}") from error

    def _load(self, state: Mapping[str, Any]) -> None:
        """Continue at a state; copies are changed, and taken at the end."""
        saved, curriculum = state["datasets"], Curriculum(**state["curriculum"])
        if gone := [name for name in saved if name not in self._places]:
            raise StateMismatchError(
                f"the state is of datasets {[*saved]}, and this queue lacks {gone}: "
                "to end a dataset, keep it and give it the weight 0"
            )
        all_places = {name: copy(places) for name, places in self._places.items()}
        for name, places in all_places.items():
            places.load(saved.get(name), curriculum)
        out = Outstanding(read_outstanding(state, all_places))
        shares = Shares(self._shares.weights)
        if len(saved) == len(all_places):
            shares = Shares(self._check_weights(state["weights"]))
            for name in all_places:
                turns = check_whole(state["turns"][name], "turns", least=0, most=MOST)
                shares.turns[name] = turns
        self._places, self._shares, self._out = all_places, shares, out
        self._curriculum = curriculum

    def check_ranks(self, group: Any = None) -> None:
        """Check that the replicas of all ranks are equal; they then share tickets.

        Ranks that call the methods of their replicas alike keep them equal. Call it on
        all ranks before the first ``take``, and after each ``load_state_dict``.

        Args:
            group: A process group of torch; None for all processes.

        Raises:
            InvalidArgumentError: If two replicas differ.
        """
        with self._lock:
            facts = [self.state_dict(), self.max_in_flight, self.epochs]
            digest = derive_key(0, json.dumps(facts, sort_keys=True)).hex()
            lives = gather_from(group)((digest, self._out.life))
            for process, (other, life) in enumerate(lives):
                if other != digest or (self.in_flight and life != self._out.life):
                    raise InvalidArgumentError(
                        f"the queue of process {process} is in another state: make all "
                        "alike, and call check_ranks() before the first take()"
                    )
            self._out.life = lives[0][1]

    def close(self) -> None:
        """End the threads that read."""
        for places in self._places.values():
            places.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: a copy reads tickets, and takes none."""
        return partial(PromptQueue, **self._given), (), {"_can_take": False}

    def __repr__(self) -> str:
        flying = f"{self.in_flight} of {self.max_in_flight} in flight"
        return f"PromptQueue({[*self._places]}: {flying}, {self.waiting} waiting)"


def _checked(curriculum: Any) -> Curriculum:
    if not isinstance(curriculum, Curriculum):
        raise InvalidArgumentError(
            f"curriculum={curriculum!r:.60} must be a Curriculum"
        )
    return curriculum
