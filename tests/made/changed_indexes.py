"""Indexes that are changed on purpose: their checksums and digests are right."""

import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

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
