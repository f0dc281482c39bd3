"""The header of a shard of a stream. See docs/reference/formats.md."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagefeed.core.storage import Storage
from pagefeed.errors import ChecksumError, UnsupportedError
from pagefeed.flat.flat_file import corrupt, parsing, token_dtype, unsupported, whole

FORMAT = "pagefeed stream"
VERSION = 1

HEADER = "stream.json"
TOKENS = "stream.bin"
DOCUMENTS = "documents.index"
INDEX = "metadata.index"
PAYLOADS = "metadata.bin"
FILES = (TOKENS, DOCUMENTS, INDEX, PAYLOADS)
SERIALIZATIONS = ("bytes", "numpy", "msgpack", "custom")

TOKEN = "token"  # noqa: S105 - a name
METADATA = "metadata"
NO_PAYLOAD = 0xFFFFFFFF
"""The id of tokens without a payload."""


@dataclass(frozen=True, kw_only=True)
class StreamHeader:
    """The header of a shard."""

    path: str
    """Path of the header."""
    dtype: np.dtype[Any]
    """Type of a record: a number, or a structure with a field ``token``."""
    num_tokens: int
    """Tokens of the shard."""
    num_documents: int
    """Documents of the shard."""
    num_payloads: int
    """Payloads of its spans."""
    serialization: str
    """Serialization of payloads: ``bytes``, ``numpy``, ``msgpack`` or ``custom``."""
    files: dict[str, tuple[int, int]]
    """Bytes and CRC-32 of each file by name."""

    @property
    def has_payloads(self) -> bool:
        """Whether tokens name payloads."""
        return METADATA in (self.dtype.names or ())

    def offset_of(self, field: str) -> int:
        """Return the bytes of a record before a field."""
        fields: Any = self.dtype.fields
        return int(fields[field][1])

    def text(self) -> bytes:
        """Return the header as the bytes of its file."""
        content = json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "dtype": _listed(self.dtype),
                "num_tokens": self.num_tokens,
                "num_documents": self.num_documents,
                "num_payloads": self.num_payloads,
                "serialization": self.serialization,
                "files": {
                    name: {"bytes": size, "crc32": crc32}
                    for name, (size, crc32) in self.files.items()
                },
            },
            indent=1,
        )
        checksum = zlib.crc32(content.encode())
        return f'{{"checksum": {checksum}, "content": {content}}}\n'.encode()

    def file(self, name: str) -> str:
        """Return the path of a file of the shard."""
        return self.path.removesuffix(HEADER) + name

    def check_sizes(self, storage: Storage) -> None:
        """Check that files of the shard have the sizes in the header.

        Raises:
            CorruptFileError: If a size differs, or the header contradicts itself.
            MissingFileError: If a file is gone.
        """
        expected = {
            TOKENS: self.num_tokens * self.dtype.itemsize,
            DOCUMENTS: 8 * (self.num_documents + 1),
        }
        if self.has_payloads:
            expected |= {INDEX: 8 * (self.num_payloads + 1)}
            expected |= {PAYLOADS: self.files.get(PAYLOADS, (0, 0))[0]}
        for name, size in expected.items():
            if self.files.get(name, (-1, 0))[0] != size:
                raise corrupt(self.path, f"its numbers do not fit the size of {name}")
            num_bytes = storage.size(self.file(name))
            if num_bytes != size:
                raise corrupt(
                    self.file(name),
                    f"has {num_bytes:,} bytes, its header promises {size:,}: it is "
                    "truncated, or of another shard",
                )

    def check_contents(self, storage: Storage) -> None:
        """Verify the checksums of all files.

        Raises:
            ChecksumError: For the first file that is not as it was written.
        """
        for name, (size, expected) in self.files.items():
            crc32, path = 0, self.file(name)
            for chunk in storage.parts(path, 0, size):
                crc32 = zlib.crc32(chunk, crc32)
            if crc32 != expected:
                raise corrupt(
                    path,
                    f"its checksum is {crc32:08x}, that of what was written "
                    f"{expected:08x}: put the file of this shard back",
                    ChecksumError,
                )


def record_dtype(dtype: object) -> np.dtype[Any]:
    """Return the type of records: tokens alone, or tokens and further fields.

    Raises:
        TypeError: If NumPy does not know it.
        UnsupportedError: If tokens are not integers, or ids of payloads not ``u4``.
    """
    record: np.dtype[Any] = np.dtype(dtype)  # type: ignore[call-overload]
    if record.names is None:
        token_dtype(record, "dtype")
        return record
    if TOKEN not in record.names:
        raise UnsupportedError(
            f"dtype={_listed(record)} has no field {TOKEN!r}: that of the tokens is "
            "called so"
        )
    token_dtype(record[TOKEN], "dtype")
    for name in record.names:
        if (
            record[name].kind not in "iuf"
            or record[name].newbyteorder("<") != record[name]
        ):
            raise UnsupportedError(
                f"dtype={_listed(record)}: field {name!r} must be one number a token, "
                "little-endian"
            )
    if METADATA in record.names and record[METADATA] != np.dtype("<u4"):
        raise UnsupportedError(
            f"dtype={_listed(record)}: {METADATA!r} is the number of a payload, and of "
            "type 'u4'"
        )
    return record


def read_header(storage: Storage, path: str) -> StreamHeader:
    """Read a header.

    Raises:
        CorruptFileError: If it is damaged.
        UnsupportedError: If it is of another version.
    """
    data = storage.read_all(path)
    with parsing(path, "no header of a stream, or damaged"):
        outer = json.loads(data)
        text = data[data.index(b'"content": ') + 11 : -2]
        content, checksum = outer["content"], outer.get("checksum")
        kind, version = content["format"], content["version"]
    if kind != FORMAT or version != VERSION:
        raise unsupported(
            path,
            f"{kind!r} of version {version!r}; only {FORMAT!r} of version {VERSION} is "
            "known",
        )
    if zlib.crc32(text) != checksum:
        raise corrupt(path, "its checksum does not match: the header is damaged")
    with parsing(path, "its header lacks something"):
        return StreamHeader(
            path=path,
            dtype=record_dtype(_numpy_form(content["dtype"])),
            num_tokens=whole(content["num_tokens"]),
            num_documents=whole(content["num_documents"]),
            num_payloads=whole(content["num_payloads"]),
            serialization=_one_of(content["serialization"], SERIALIZATIONS),
            files={
                _one_of(name, FILES): (whole(file["bytes"]), whole(file["crc32"]))
                for name, file in content["files"].items()
            },
        )


def _listed(dtype: np.dtype[Any]) -> str | list[list[str]]:
    if dtype.names is None:
        return dtype.newbyteorder("<").str
    return [[name, dtype[name].str] for name in dtype.names]


def _one_of(name: object, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ValueError(f"{name!r:.40} must be one of {names}")
    return str(name)


def _numpy_form(listed: str | list[list[str]]) -> Any:
    return listed if isinstance(listed, str) else [(n, kind) for n, kind in listed]
