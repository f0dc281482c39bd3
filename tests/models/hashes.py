"""Hashes and permutations number by number, as the data plane makes them of many."""

import math

WORD = (1 << 64) - 1
# Odd 64-bit constants with well spread bits (the multipliers of two known mixers).
FIRST, SECOND = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def mix_one(value, key):
    """Hash a number to 64 bits."""
    value = (value + key[0]) * FIRST & WORD
    value ^= value >> 32
    value = (value + key[1]) * SECOND & WORD
    return value ^ value >> 32


def permute_one(x, n, tweak, round_keys):
    """Return where a number in [0, n) goes: a Feistel network over a square grid."""
    rows = (math.isqrt(max(n - 1, 0)) + 2) // 2 * 2
    columns = -(-n // rows) or 1
    while True:
        pair = list(divmod(x, columns))
        for index, round_key in enumerate(round_keys):
            target = index % 2
            mixed = (pair[1 - target] + round_key + tweak) * FIRST & WORD
            mixed ^= mixed >> 32
            mixed = (mixed * SECOND & WORD) >> 32
            extent = columns if target else rows
            pair[target] = (pair[target] + (mixed * extent >> 32)) % extent
        x = pair[0] * columns + pair[1]
        if x < n:
            return x
