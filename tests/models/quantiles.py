"""Quantiles of balanced orders, number by number: Sobol's, scrambled by Owen."""

from functools import cache, reduce
from operator import xor

from models.hashes import mix_one
from pagefeed.core.order import expand_key

LEVELS = 24

# The second of Sobol's sequences, by its recurrence of direction numbers.
DIRECTIONS = [1 << 63]
for _ in range(63):
    DIRECTIONS.append(DIRECTIONS[-1] ^ DIRECTIONS[-1] >> 1)


@cache
def keys(key: bytes) -> list[tuple[int, int]]:
    """Keys of quantiles, of buckets, of ranks and of costs."""
    numbers = [int(number) for number in expand_key(key, 8)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@cache
def quantile(count: int, key: bytes, bucket: int = 1) -> tuple[int, int]:
    """Return the quantile of the k-th sequence, and its place in the bucket."""
    of_quantiles, of_buckets, *_ = keys(key)
    number, within = divmod(count, bucket)
    bits = [direction for bit, direction in enumerate(DIRECTIONS) if number >> bit & 1]
    plain = reduce(xor, bits, 0) >> (64 - LEVELS)
    turned = plain
    for behind in range(LEVELS):
        before = plain >> behind >> 1 | 1 << (LEVELS - 1 - behind)
        turned ^= mix_one(before, of_quantiles) >> 63 << behind
    if bucket > 1:
        within ^= mix_one(number, of_buckets) >> (64 - (bucket - 1).bit_length())
    return turned, within
