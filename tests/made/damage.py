"""Files made wrong, whatever they are: bytes, numbers, lines, JSON, what is zipped."""

import gzip
import json
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

Damage = Callable[[bytes, random.Random], bytes]

BYTES = [0, 1, 0x7F, 0x80, 0xFF]
NUMBERS = [-1, 0, 1, 2, 127, 255, 1 << 16, 1 << 28, (1 << 31) - 1, 1 << 40, -(1 << 62)]
HOSTILE: list[Any] = [
    *(None, True, "", "\ud800", "\0", "a/../..", [], {}, [None], {"": None}, 0.5),
    *(float("nan"), float("inf"), 10**400, 1 << 31, 1 << 32, 1 << 63, 400_000_000),
    *NUMBERS,
]
"""What a value of JSON becomes."""
DEEP = 20_000


def bit_flipped(data: bytes, at: int, draw: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    """A byte or some are another, or have a bit flipped."""
    out = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4]) if out else 0):
        at = draw.randrange(len(out))
        out[at] = draw.choice([out[at] ^ 1 << draw.randrange(8), draw.choice(BYTES)])
    return bytes(out)


def pieces(data: bytes, draw: random.Random) -> bytes:
    """Some bytes are missing, or there twice or thrice."""
    at, size = draw.randrange(len(data) + 1), draw.randrange(1, 64)
    return data[:at] + data[at : at + size] * draw.choice([0, 2, 3]) + data[at + size :]


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))] if data else data


def grown(data: bytes, draw: random.Random) -> bytes:
    return data + bytes(draw.choice([1, 8, 4096]))


def zeroed(data: bytes, draw: random.Random) -> bytes:
    """A block that never came to the disk."""
    at, size = draw.randrange(len(data) + 1), draw.choice([1, 8, 512, 4096])
    size = min(size, len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def numbers(data: bytes, draw: random.Random) -> bytes:
    """A number of 2, 4 or 8 bytes is another."""
    form, width = draw.choice([("<H", 2), ("<I", 4), ("<Q", 8), (">I", 4)])
    at = draw.randrange(max(1, len(data) - width + 1))
    number = draw.choice(NUMBERS) & ((1 << 8 * width) - 1)
    return data[:at] + struct.pack(form, number) + data[at + width :]


BINARY: dict[str, Damage] = {
    "bytes": bytes_changed,
    "pieces": pieces,
    "cut": cut,
    "grown": grown,
    "zeroed": zeroed,
    "numbers": numbers,
}


def _changed(value: Any, draw: random.Random) -> Any:
    """A value of JSON in which one, at any depth, is another or is gone."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name, kind = draw.choice(sorted(value)), draw.random()
        rest = {key: each for key, each in value.items() if key != name}
        if kind < 0.15:
            return rest
        if kind < 0.2:
            return rest | {str(draw.choice(HOSTILE[:6])): value[name]}
        return value | {name: _changed(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at, kind = draw.randrange(len(value)), draw.random()
        if kind < 0.2:
            return value[:at] + value[at : at + 1] * draw.choice([0, 2, 300])
        return [*value[:at], _changed(value[at], draw), *value[at + 1 :]]
    if isinstance(value, str) and value and draw.random() < 0.3:
        return bytes_changed(value.encode(), draw).decode(errors="surrogateescape")
    return draw.choice(HOSTILE)


def json_changed(data: bytes, draw: random.Random) -> bytes:
    """One value of a JSON document is another, of another type, or very deep."""
    if draw.random() < 0.02:
        return draw.choice([b"[", b'{"a":', b"-", b'"', b"1"]) * DEEP
    try:
        return json.dumps(_changed(json.loads(data), draw)).encode()
    except (ValueError, RecursionError):
        return bytes_changed(data, draw)  # It is damaged already.


def lines(data: bytes, draw: random.Random) -> bytes:
    """One line is damaged, as JSON if it is that, repeated or joined to the next."""
    found = data.split(b"\n")
    at = draw.randrange(len(found))
    kind = draw.choice(["json", "bytes", "joined", "many", "quote"])
    if kind == "json":
        found[at] = json_changed(found[at], draw)
    elif kind == "bytes":
        found[at] = bytes_changed(found[at], draw)
    elif kind == "joined":
        found[at : at + 2] = [b"".join(found[at : at + 2])]
    elif kind == "many":
        found[at] *= 300
    else:
        found[at] = found[at].replace(b",", b'"', 1)
    return b"\n".join(found)


TEXT: dict[str, Damage] = {
    "bytes": bytes_changed,
    "pieces": pieces,
    "cut": cut,
    "lines": lines,
}
JSON: dict[str, Damage] = {"bytes": bytes_changed, "cut": cut, "json": json_changed}


def compressed(data: bytes, codec: str) -> bytes:
    """Bytes as a file of ``gzip`` or ``zstd``."""
    if codec == "gzip":
        return gzip.compress(data, 1)
    return bytes(pa.compress(data, codec, asbytes=True))


def inside(codec: str, damages: Mapping[str, Damage]) -> dict[str, Damage]:
    """Damages of what is compressed, beside those of the compressed bytes."""

    def packed(damage: Damage) -> Damage:
        def damaged(data: bytes, draw: random.Random) -> bytes:
            try:
                with pa.input_stream(
                    pa.BufferReader(data), compression=codec
                ) as stream:
                    inner = stream.read()
            except OSError:
                return damage(data, draw)  # It is damaged already.
            return compressed(damage(inner, draw), codec)

        return damaged

    made = {f"inner {name}": packed(damage) for name, damage in damages.items()}
    return made | {"bytes": bytes_changed, "cut": cut}
