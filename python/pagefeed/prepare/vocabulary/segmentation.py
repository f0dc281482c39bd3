"""Choose neighbouring tokens to join so that the fewest tokens remain."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Pair: TypeAlias = tuple[str, str]


class Join(NamedTuple):
    """Two neighbouring tokens that become one."""

    left: str
    right: str
    token: str
    gain: int
    """Tokens that it saves in the texts, after the joins before it."""


def best_joins(
    words: Mapping[tuple[str, ...], int],
    most: int,
    *,
    joined: Callable[[str, str], str | None],
    existing: Iterable[str] = (),
    least_gain: int = 2,
) -> list[Join]:
    """Choose joins one at a time, always the one that saves the most tokens.

    Args:
        words: How often each word occurs, by the tokens that it consists of.
        most: How many joins to choose at most.
        joined: Returns the token that two tokens make; None if they must not join.
        existing: Existing tokens. Joins that would make one of them are left out.
        least_gain: Tokens that a join must save at least.

    Returns:
        The joins in their order; joins of equal gain are ordered by their tokens.

    Example:
        >>> best_joins({("a", "b"): 3}, 9, joined=lambda a, b: a + b)
        [Join(left='a', right='b', token='ab', gain=3)]
    """
    taken = set(existing)
    text = _Words(words)
    heap = [(-gain, pair) for pair, gain in text.gains.items()]
    heapq.heapify(heap)
    chosen: list[Join] = []
    while heap and len(chosen) < most:
        negative, pair = heapq.heappop(heap)
        gain = text.gains.get(pair, 0)
        if gain < least_gain or gain != -negative:
            if least_gain <= gain < -negative:  # It was worth more: in its place.
                heapq.heappush(heap, (-gain, pair))
            continue
        token = joined(*pair)
        if token is None or token in taken:
            continue
        taken.add(token)
        chosen.append(Join(*pair, token, gain))
        for other in text.join(pair, token):
            heapq.heappush(heap, (-text.gains[other], other))
    return chosen


class _Words:
    """Words as tokens, and the saving of each possible join."""

    def __init__(self, words: Mapping[tuple[str, ...], int]) -> None:
        several = sorted((word, n) for word, n in words.items() if len(word) > 1)
        self._tokens = [list(word) for word, _ in several]
        self._counts = [count for _, count in several]
        self.gains: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        for word_number in range(len(several)):
            self._add(word_number, 1)

    def join(self, pair: Pair, token: str) -> set[Pair]:
        """Join two neighbours everywhere; return the new pairs.

        Every new pair contains the joined token: no other pair occurs more often.
        """
        new: set[Pair] = set()
        for word_number in sorted(self._where.pop(pair, ())):
            self._add(word_number, -1)
            self._tokens[word_number] = _replaced(
                self._tokens[word_number], pair, token
            )
            self._add(word_number, 1)
            tokens = self._tokens[word_number]
            new.update(two for two in itertools.pairwise(tokens) if token in two)
        return new

    def _add(self, word_number: int, sign: int) -> None:
        """Add the pairs of a word to the counts, or take them out."""
        tokens, count = self._tokens[word_number], self._counts[word_number]
        for pair, times in _pairs(tokens).items():
            self.gains[pair] += sign * count * times
            if sign > 0:
                self._where[pair].add(word_number)


def _pairs(tokens: Sequence[str]) -> Counter[Pair]:
    """Count how often two neighbours can be joined; of three equal ones, once."""
    counts: Counter[Pair] = Counter()
    last: tuple[Pair, int] | None = None
    for index, pair in enumerate(itertools.pairwise(tokens)):
        if last == (pair, index - 1):
            last = None
            continue
        counts[pair] += 1
        last = pair, index
    return counts


def _replaced(tokens: list[str], pair: Pair, token: str) -> list[str]:
    replaced: list[str] = []
    index = 0
    while index < len(tokens):
        if index + 1 < len(tokens) and (tokens[index], tokens[index + 1]) == pair:
            replaced.append(token)
            index += 2
        else:
            replaced.append(tokens[index])
            index += 1
    return replaced
