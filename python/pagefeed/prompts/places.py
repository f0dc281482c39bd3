"""The prompts of a dataset: the order of its places, and its rows by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pagefeed.contract import (
    Dataset,
    LoaderState,
    Permutation,
    RunView,
    Sequences,
    derive_key,
)
from pagefeed.core._base import MOST, Int64Array, check_whole
from pagefeed.core.loader import Loader
from pagefeed.documents import Documents, in_records
from pagefeed.errors import EmptySelectionError, StateMismatchError
from pagefeed.prompts.curriculum import Curriculum, Scores
from pagefeed.prompts.ticket import Ticket

AT_ONCE = 1 << 10
"""Places whose prompts are looked up together."""
LOOKED_AT = 1 << 7
"""Places that are compared with scores together."""
DRAWS = 1 << 53
COUNTED = ("taken", "committed", "dropped")


class Places:
    """The endless order of a dataset's prompts, pass after pass.

    Args:
        name: Name of the dataset in the queue.
        dataset: The dataset.
        documents: What a row has.
        seed: Seed of the order, also of the curriculum's draws.
        epochs: Passes; None without end.
        curriculum: Chooses prompts by their scores.
        settings: More of :class:`Loader`.
    """

    def __init__(
        self,
        name: str,
        dataset: Dataset,
        documents: Documents,
        seed: int,
        epochs: int | None,
        curriculum: Curriculum,
        settings: Mapping[str, Any],
    ) -> None:
        # One dataset has the order of a loader. Several datasets need different seeds.
        if name:
            key = derive_key(seed, "prompts", name)
            seed = int.from_bytes(key[:7], "little")
        fields = ("input_ids",) if documents.makes_tokens else None
        fixed: dict[str, Any] = {"batch_size": 1, "rank": 0, "world_size": 1}
        fixed |= {"sequences": documents, "epochs": None, "fields": fields}
        loader = Loader(dataset, seed=seed, **fixed, **settings)
        self.name = name
        self._seed = seed
        self._documents = documents
        self._view: RunView = loader.view()
        run = self._view.run
        self.num_rows = run.num_sequences
        self.end = None if epochs is None else epochs * self.num_rows
        """Places of all passes."""
        self._begin = run.beginning(0)
        self._cursor = run.at(self._begin)
        self.scores = Scores(self.num_rows, curriculum)
        """Scores of prompts, by which they are taken."""
        self._chunk = lru_cache(maxsize=2)(self._look_up)
        self.position = 0
        """The place after the last prompt taken."""
        self._ahead = self._taken_from(0)
        self.counts = dict.fromkeys(COUNTED, 0)
        self._checked: set[int] = set()
        """Lives whose tickets were compared with the order."""

    @property
    def has_ended(self) -> bool:
        """Whether no place is left."""
        return self.position == self.end

    def take(self) -> Ticket | None:
        """Return the next prompt that is taken; None at the end of the last pass.

        Raises:
            EmptySelectionError: If the curriculum takes none.
        """
        try:
            position, row = next(self._ahead)
        except StopIteration:
            return None
        except EmptySelectionError:
            self.go_to(self.position)
            raise
        self.position = position + 1
        self.counts["taken"] += 1
        return Ticket(self.name, position, position // self.num_rows, row, 0, 0, 0)

    def _taken_from(self, place: int) -> Iterator[tuple[int, int]]:
        """Yield later places whose prompts are taken, and their rows."""
        while place != self.end:
            if not np.dot(self.scores.counts, self.scores.weights):
                raise EmptySelectionError(
                    f"the curriculum takes no prompt of dataset {self.name!r}: its "
                    f"{self.num_rows} prompts without a score, and in each tier, are "
                    f"{self.scores.counts}, and weights of those tiers are 0. Give "
                    "one a weight by set_curriculum, or the dataset the weight 0"
                )
            epoch, begin = divmod(place, self.num_rows)
            chunk = self._chunk(epoch, begin // AT_ONCE)
            first = begin % AT_ONCE
            rows, draws = (values[first : first + LOOKED_AT] for values in chunk)
            taken = np.flatnonzero(draws < self.scores.weights_of(rows))
            yield from zip((place + taken).tolist(), rows[taken].tolist(), strict=True)
            place += len(rows)
        self.position = place

    def _look_up(self, epoch: int, chunk: int) -> tuple[Int64Array, Any]:
        """Return the rows at some places of a pass, and their draws in [0, 1)."""
        begin = epoch * self.num_rows
        places = range(begin, begin + self.num_rows)[chunk * AT_ONCE :][:AT_ONCE]
        rows = self.rows_at(places)
        key = derive_key(self._seed, "curriculum", epoch)
        return rows, Permutation(DRAWS, key)[rows] / DRAWS

    def rows_at(self, positions: range | Int64Array) -> Int64Array:
        """Return the rows at rising positions: int64 [positions]."""
        return np.concatenate([p.numbers for p in self._cursor.at(positions) if p])

    def rows_of(self, positions: Int64Array) -> Int64Array:
        """Return the rows at positions that were taken, in any order: int64.

        Raises:
            StateMismatchError: If one was not.
        """
        rising, which = np.unique(positions, return_inverse=True)
        if len(rising) and (rising[0] < 0 or rising[-1] >= self.position):
            raise StateMismatchError("a ticket of the state was never taken")
        return self.rows_at(rising)[which] if len(rising) else rising

    def go_to(self, position: int) -> None:
        """Go to a place, and look at later places again."""
        self.position = position
        self._ahead = self._taken_from(position)

    def score(self, row: int, score: float) -> None:
        """Record the score of a row, and look at later places again."""
        self.scores.add(row, score)
        self.go_to(self.position)

    def state_dict(self) -> dict[str, Any]:
        """Return counts, scores, and the state of a loader at the next place."""
        epoch, position = divmod(self.position, self.num_rows)
        return {
            "next": replace(self._begin, epoch=epoch, position=position).to_dict(),
            "counts": dict(self.counts),
            "scores": self.scores.to_text(),
        }

    def load(self, saved: Any, curriculum: Curriculum) -> None:
        """Continue where :meth:`state_dict` was called; None begins again.

        Raises:
            StateMismatchError: If it is of other data, or another order.
        """
        self.scores, position = Scores(self.num_rows, curriculum), 0
        self.counts = dict.fromkeys(COUNTED, 0)
        if saved is not None:
            state = self._view.run.accept(LoaderState.from_dict(saved["next"]))
            position = state.epoch * self.num_rows + state.position
            for name in COUNTED:
                count = check_whole(saved["counts"][name], name, least=0, most=MOST)
                self.counts[name] = count
            self.scores.load(saved["scores"])
        if self.end is not None and position > self.end:
            raise StateMismatchError(f"pass {state.epoch} needs epochs={state.epoch}")
        self.go_to(position)

    def read(self, tickets: Sequence[Ticket]) -> list[dict[str, Any]]:
        """Return the rows of tickets, each page read once.

        Raises:
            StateMismatchError: If a ticket is of other data or of another order.
        """
        rows = np.array([ticket.row for ticket in tickets])
        is_ours = rows.min() >= 0 and rows.max() < self.num_rows
        # One ticket of each life shows whether the orders are the same.
        first = tickets[0]
        if is_ours and first.life not in self._checked:
            place = range(first.position, first.position + 1)
            is_ours = first.position >= 0 and self.rows_at(place)[0] == first.row
        if not is_ours:
            raise StateMismatchError(
                f"dataset {self.name!r} has another prompt than {first} at its "
                "position: read with the data, shuffle and seed of its queue"
            )
        self._checked.add(first.life)
        epochs = np.array([ticket.epoch for ticket in tickets], dtype=np.uint32)
        [batch] = self._view.rows(Sequences(rows, epochs).reshape(1, -1))
        if self._documents.makes_tokens:
            lengths = batch.pop("lengths").tolist()
            for name, values in batch.items():
                if isinstance(values, np.ndarray) and values.ndim > 1:
                    both = zip(values, lengths, strict=True)
                    batch[name] = [row[:length].copy() for row, length in both]
        return in_records(batch)

    def close(self) -> None:
        """End the threads that read."""
        self._view.close()
