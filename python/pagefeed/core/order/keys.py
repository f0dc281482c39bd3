"""Keys and hashes, from which the randomness of an order is derived.

A key is a keyed hash of names and numbers, never arithmetic on a seed: with ``seed +
epoch`` the pairs (seed 1, epoch 0) and (seed 0, epoch 1) would be one shuffle.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pagefeed import _core
from pagefeed.core._base import UInt64Array
from pagefeed.errors import InvalidArgumentError

KeyPart: TypeAlias = SupportsIndex | str | bytes

ORDER_VERSION = 2
"""Changes whenever the same arguments give a different order."""

HALF = np.uint64(32)
_EMPTY = hashlib.blake2b(digest_size=32, person=b"pagefeed.order.%d" % ORDER_VERSION)


def derive_key(seed: KeyPart, *parts: KeyPart) -> bytes:
    """Return a key derived from a seed, and from names and numbers for its purpose.

    Every part is hashed with its type and its length, so that only equal lists of parts
    have equal keys: ``("a", "b")`` is not ``("ab",)``, ``1`` is not ``"1"``.

    Args:
        seed: An int of any size and sign, a str, or bytes (such as another key).
        *parts: What the key is for: epoch, dataset name, purpose.

    Returns:
        32 bytes.

    Raises:
        InvalidArgumentError: A part is neither an int, a str nor bytes.

    Example:
        >>> derive_key(42, "epoch", 1) == derive_key(43, "epoch", 0)
        False
    """
    digest = _EMPTY.copy()
    digest.update(b"".join(map(_encode, (seed, *parts))))
    return digest.digest()


def _encode(value: KeyPart) -> bytes:
    if isinstance(value, bytes):
        tag, payload = b"b", value
    elif isinstance(value, str):
        tag, payload = b"s", value.encode()
    else:
        try:
            whole = operator.index(value)
        except TypeError:
            raise InvalidArgumentError(
                "a seed and the parts of a key are int, str or bytes, "
                f"found {type(value).__name__}: {value!r}"
            ) from None
        tag = b"i"
        payload = whole.to_bytes(whole.bit_length() // 8 + 1, "little", signed=True)
    return tag + len(payload).to_bytes(8, "little") + payload


def expand_key(key: bytes, count: int) -> list[np.uint64]:
    """Turn a key into ``count`` independent 64-bit numbers."""
    digests = b"".join(derive_key(key, index) for index in range((count + 3) // 4))
    return list(np.frombuffer(digests, dtype="<u8")[:count].astype(np.uint64))


def hash64(values: NDArray[Any], key: tuple[np.uint64, np.uint64]) -> UInt64Array:
    """Hash 64-bit integers to 64 bits; the upper half is the more random one."""
    mixed: UInt64Array = values.astype(np.uint64)
    _core.mix(mixed, int(key[0]), int(key[1]))
    return mixed
