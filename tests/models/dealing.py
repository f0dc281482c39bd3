"""Which rank takes which place of a mixture's turn, place by place."""

import math

from models.hashes import mix_one
from pagefeed.core.order import derive_key, expand_key


def dealt(
    positions: list[int], ranks: int, lanes: int, seed: int, epoch: int
) -> list[int]:
    """Positions of whole turns of all ranks, in the order of ranks within each turn.

    Ranks that share lanes change places in each turn by a hash of its first position.
    """
    key = [int(part) for part in expand_key(_key(seed, epoch), 2)]
    apart, found = math.gcd(ranks, lanes), list[int]()
    for at in range(0, len(positions), ranks):
        turn = positions[at : at + ranks]
        drawn = (mix_one(turn[0], key) >> 32) * (ranks // apart) >> 32
        found += [turn[(rank + drawn * apart) % ranks] for rank in range(ranks)]
    return found


def _key(seed: int, epoch: int) -> bytes:
    return derive_key(seed, epoch, "mixture", "ranks")
