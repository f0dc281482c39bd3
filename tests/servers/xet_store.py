"""What the hub's buckets keep: chunks in xorbs, and files as ranges of these."""

import json
import struct
import time
from pathlib import Path

import pyarrow as pa

FILE_HEADER, ENTRY = 48, 48
"""Bytes of the record of a file in a shard, and of each range of chunks."""
HAS_VERIFICATION, HAS_METADATA = 1 << 31, 1 << 30
END = b"\xff" * 32


def as_hash(data: bytes) -> str:
    """A hash as text: four numbers of 64 bits."""
    return "".join(f"{part:016x}" for part in struct.unpack("<4Q", data))


def in_groups(data: bytes) -> bytes:
    """Undo the grouping of bytes by their place in numbers of four."""
    out, at = bytearray(len(data)), 0
    for place in range(4):
        count = len(out[place::4])
        out[place::4] = data[at : at + count]
        at += count
    return bytes(out)


def chunks_of(xorb: bytes) -> list[bytes]:
    """The chunks of a xorb, each behind a header of 8 bytes; a footer may follow."""
    chunks, at = [], 0
    while at + 8 <= len(xorb) and xorb[at] == 0:
        stored = int.from_bytes(xorb[at + 1 : at + 4], "little")
        size = int.from_bytes(xorb[at + 5 : at + 8], "little")
        kind, data = xorb[at + 4], xorb[at + 8 : at + 8 + stored]
        if kind:
            data = pa.Codec("lz4").decompress(data, size, asbytes=True)
        chunks.append(in_groups(data) if kind == 2 else data)
        at += 8 + stored
    return chunks


class XetStore:
    """Takes xorbs and shards, and tells the contents of files by their hashes."""

    def __init__(self) -> None:
        self.xorbs: dict[str, list[bytes]] = {}
        self.files: dict[str, bytes] = {}

    def connection(self, url: str) -> bytes:
        """Where uploads go, and with which token."""
        until = int(time.time()) + 3600
        return json.dumps({"casUrl": url, "accessToken": "cas", "exp": until}).encode()

    def take(self, path: str, body: bytes) -> bytes:
        """The answer to an upload."""
        if "/xorbs/" in path:
            self.xorbs[path.rpartition("/")[2]] = chunks_of(body)
            return b'{"was_inserted": true}'
        self.take_shard(body)
        return b'{"result": 1}'

    def take_shard(self, shard: bytes) -> None:
        """Note the contents of the files of a shard."""
        at = 48  # Behind its header.
        while shard[at : at + 32] != END:
            name = as_hash(shard[at : at + 32])
            flags, count = struct.unpack_from("<2I", shard, at + 32)
            at, parts = at + FILE_HEADER, []
            for _ in range(count):
                xorb = as_hash(shard[at : at + 32])
                first, end = struct.unpack_from("<2I", shard, at + 40)
                parts += self.xorbs[xorb][first:end]
                at += ENTRY
            at += ENTRY * count * bool(flags & HAS_VERIFICATION)
            at += ENTRY * bool(flags & HAS_METADATA)
            self.files[name] = b"".join(parts)

    def change(self, root: Path, body: bytes) -> None:
        """Add and delete files of a bucket."""
        for line in body.splitlines():
            change = json.loads(line)
            path = root / change["path"]
            if change["type"] == "addFile":
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path.with_name(f"{path.name}.draft")
                draft.write_bytes(self.files[change["xetHash"]])
                draft.replace(path)
            else:
                path.unlink()
