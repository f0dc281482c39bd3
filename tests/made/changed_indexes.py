"""Indexes that are changed on purpose: their checksums and digests are right."""

import hashlib
import io
import json
import random
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

HEAD = 16 << 10
"""Bytes of a shared index before what a cache folder has."""
Columns = dict[str, list[list[Any]]]
"""Numbers of each column of an index: a list for each leaf."""


def head_and_body(data: bytes) -> tuple[dict[str, Any], bytes]:
    return json.loads(data[:HEAD]), data[HEAD:]


def shared(head: dict[str, Any], body: bytes) -> bytes:
    """A shared index with a head that fits its body."""
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    head = head | {"digest": digest, "num_bytes": len(body)}
    return json.dumps(head).encode().ljust(HEAD) + body


def sealed(data: bytes) -> bytes:
    """An index, as in a cache folder, with the checksum of its bytes."""
    found = re.search(rb"\x08\0\0\0([0-9a-f]{8})\0", data)
    if found is None:
        return data
    begin, end = found.span(1)
    checksum = zlib.crc32(data[:begin] + b"00000000" + data[end:])
    return data[:begin] + b"%08x" % checksum + data[end:]


def changed(data: bytes, change: Callable[[Columns], object], **about: str) -> bytes:
    """An index, as in a cache folder, with other numbers, and entries of its schema."""
    reader = pa.ipc.open_file(pa.BufferReader(data))
    batch, schema = reader.get_batch(0), reader.schema
    columns = {name: batch.column(name).to_pylist() for name in schema.names}
    change(columns)
    new = {f"pagefeed.{name}".encode(): text for name, text in about.items()}
    schema = schema.with_metadata({**(schema.metadata or {}), **new})
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    sink, unsealed = io.BytesIO(), {"pagefeed.checksum": "00000000"}
    with pa.ipc.new_file(sink, schema, metadata=unsealed) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sealed(sink.getvalue())


ODD = [0, 1, 2, 255, 1 << 16, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1]
NAMES = ["", "\0", "..", "/etc/passwd", "http://127.0.0.1:9/a.parquet", "x" * 3000]


def entry_changed(columns: Columns, draw: random.Random) -> None:
    """One number, name or footer is another, or is left out, or is there twice."""
    leaf: list[Any] = []
    while not leaf:
        leaf = draw.choice(columns[draw.choice(sorted(columns))])
    at = draw.randrange(len(leaf))
    old = leaf[at]
    if isinstance(old, int):
        near = [old + 1, max(0, old - 1), 2 * old, old ^ 1 << draw.randrange(20)]
        leaf[at] = draw.choice([*near, *near, draw.choice(leaf), draw.choice(ODD)])
    elif isinstance(old, str):
        leaf[at] = draw.choice(
            [*NAMES, f"{old}x", f"{old}/../{old}", draw.choice(leaf)]
        )
    else:
        cut = draw.randrange(len(old) + 1)
        leaf[at] = old[:cut] + bytes([draw.randrange(256)]) + old[cut + 1 :]
    if draw.random() < 0.1:
        leaf[at : at + 1] = draw.choice([[], [leaf[at]] * 2])


def index_changed(data: bytes, draw: random.Random) -> bytes:
    """An index, as in a cache folder, with another entry or byte; it is sealed anew."""
    if draw.random() < 0.8:
        # Other changes do not fit its type, or what was changed before is no index.
        with suppress(Exception):
            return changed(data, lambda columns: entry_changed(columns, draw))
    at = draw.randrange(8, len(data) - 10)
    return sealed(data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :])


def shared_changed(data: bytes, draw: random.Random) -> bytes:
    """A shared index with another entry, of its head or behind it; all sums fit."""
    head, body = head_and_body(data)
    if draw.random() < 0.2:
        name = draw.choice(sorted(head))
        head[name] = draw.choice([*ODD, *NAMES, -1, None, [], {}, [[]], head["column"]])
        return json.dumps(head).encode().ljust(HEAD) + body
    return shared(head, index_changed(body, draw))


def arrays_changed(data: bytes, draw: random.Random) -> bytes:
    """The description of a folder of arrays with another entry, sealed anew."""
    content = json.loads(data)["content"]
    inside, name = content, draw.choice(sorted(content))
    while isinstance(inside[name], dict) and inside[name] and draw.random() < 0.7:
        inside = inside[name]
        name = draw.choice(sorted(inside))
    inside[name] = draw.choice([*ODD, *NAMES, -1, None, [], {}, [1.5], inside[name]])
    return _described(content)


def numbers_changed(cache: Path, draw: random.Random) -> None:
    """Change a number of the arrays in a cache folder, and seal them anew."""
    abouts = sorted(cache.rglob("about.json"))
    about = draw.choice(abouts)
    content = json.loads(about.read_bytes())["content"]
    numbers = np.fromfile(about.parent / "numbers", np.int64)
    if not len(numbers):
        return
    view = numbers.view(draw.choice([np.int64, np.int64, np.uint32, np.float32]))
    at = draw.randrange(len(view))
    old = view[at].item()
    near = [old + 1, old - 1, 2 * old, -old, draw.choice(view.tolist())]
    with suppress(OverflowError):  # Others do not fit.
        view[at] = draw.choice([*near, *near, *ODD, -1])
    content["checksums"] = [
        zlib.crc32(numbers[begin : begin + (1 << 17)].data)
        for begin in range(0, len(numbers), 1 << 17)
    ]
    numbers.tofile(about.parent / "numbers")
    about.write_bytes(_described(content))


def _described(content: Any) -> bytes:
    text = json.dumps(content)
    return f'{{"checksum": {zlib.crc32(text.encode())}, "content": {text}}}'.encode()
