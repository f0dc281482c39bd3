"""Files of a stream's shards, and the manifest. See docs/reference/formats.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core.storage import Storage
from pagefeed.errors import InvalidArgumentError, MissingFileError, UnsupportedError
from pagefeed.flat.flat_file import (
    corrupt,
    sampled_digest,
    token_dtype,
    unsupported,
    whole,
)
from pagefeed.parsing import json_value, parsing
from pagefeed.remote import FileWriter

FORMAT, VERSION, MANIFEST = "pagefeed stream", 2, "stream.json"
TOKENS, INDEX, PAYLOADS = ".in_band.bin", ".out_of_band.index", ".out_of_band.bin"
DOCUMENTS = ".documents.index"
SUFFIXES = (TOKENS, DOCUMENTS, INDEX, PAYLOADS)
TOKEN = "token"  # noqa: S105 - a name


class StreamManifest(NamedTuple):
    """The manifest of a folder of shards."""

    dtype: np.dtype[Any]
    """Type of the user's records: a number, or a structure with a field ``token``."""
    suffixes: tuple[str, ...]
    """Suffixes of the files of a shard."""
    sizes: list[list[int]]
    """Bytes of the files of each shard."""
    digests: list[str]
    """A digest of samples of each shard's tokens."""


def shard_base(number: int) -> str:
    """Return the beginning of the names of a shard's files."""
    return f"{number:07}"


def plain_fields(
    record: np.dtype[Any], before: str = "", begin: int = 0
) -> Iterator[tuple[str, np.dtype[Any], int]]:
    """Yield name, type and byte offset of the fields of records, inner ones too.

    Example:
        >>> inner = np.dtype([("id", "u4"), ("score", "f4", (2,))])
        >>> [name for name, *_ in plain_fields(np.dtype([("word", inner)]))]
        ['word.id', 'word.score']
    """
    fields: Any = record.fields
    for name, (kind, offset, *_) in fields.items():
        if kind.names is None:
            yield before + name, kind, begin + offset
        else:
            yield from plain_fields(kind, f"{before}{name}.", begin + offset)


def parse_records(dtype: object) -> np.dtype[Any]:
    """Return the type of a user's records: tokens alone, or with further fields.

    A structure may be a text, ``"token:uint16,document:int32"``.

    Raises:
        InvalidArgumentError: If NumPy does not know it.
    """
    if isinstance(dtype, str) and ":" in dtype:
        dtype = [tuple(field.split(":")) for field in dtype.split(",")]
    try:
        return np.dtype(dtype).newbyteorder("<")  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError) as problem:
        raise InvalidArgumentError(f"dtype={dtype!r}: {problem}") from problem


def without_payloads(dtype: object) -> tuple[Any, bool]:
    """Return a type of records without numbers of payloads, and whether it had them.

    Raises:
        InvalidArgumentError: If NumPy does not know it.
    """
    record = parse_records(dtype)
    if "metadata" not in (record.names or ()) or record["metadata"].kind not in "iu":
        return dtype, False
    kept = [(name, record[name]) for name in record.names or () if name != "metadata"]
    is_plain = [name for name, _ in kept] == [TOKEN]
    return (record[TOKEN] if is_plain else kept), True


def written_records(dtype: object) -> np.dtype[Any]:
    """Return the type of records that a writer can write, packed.

    Raises:
        InvalidArgumentError: If there is no field of tokens, a field is not one number
            a token, or names the payload of a span.
    """
    record = parse_records(dtype)
    fields = [] if record.names is None else [*plain_fields(record)]
    kinds = {name: kind for name, kind, _ in fields} or {TOKEN: record}
    wrong = [name for name, kind in kinds.items() if kind.base.kind not in "iuf"]
    try:
        token_dtype(kinds[TOKEN], "dtype")
    except (KeyError, UnsupportedError):
        wrong.append(TOKEN)
    if wrong or "metadata" in kinds:
        raise InvalidArgumentError(
            f"dtype={dtype!r}: give a type of integers, or a structure with integers "
            f"called {TOKEN!r} and further numbers (found {wrong}), without "
            "'metadata': numbers of payloads are written if you give serialize=. "
            "Documents of numbers without tokens are a column of Parquet, which "
            "pagefeed.Documents(columns=[...]) reads"
        )
    return record if record.names is None else np.dtype([*kinds.items()])


def stored_dtype(record: np.dtype[Any], *, has_spans: bool) -> np.dtype[Any]:
    """Return the type of stored records: with spans, the payload's number first."""
    return np.dtype([("index", "<i4"), ("user", record)]) if has_spans else record


def write_manifest(
    folder: str, dtype: np.dtype[Any], suffixes: Sequence[str], count: int
) -> None:
    """Write the manifest of shards that are complete."""
    storage, names = Storage(), [f"{folder}/{shard_base(n)}" for n in range(count)]
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": dtype.str if dtype.names is None else dtype.descr,
        "suffixes": suffixes,
        "sizes": [[storage.size(name + s) for s in suffixes] for name in names],
        "digests": [sampled_digest(storage, name + TOKENS).hex() for name in names],
    }
    with FileWriter(f"{folder}/{MANIFEST}") as out:
        outer = {"digest": _digest(content), "content": content}
        out.write(json.dumps(outer).encode())


def read_manifest(storage: Storage, folder: str) -> StreamManifest:
    """Read a manifest, once for each version of its file.

    Raises:
        CorruptFileError: If it is damaged.
        UnsupportedError: If it is of another version.
    """
    path = f"{folder}/{MANIFEST}"
    # A thousand shards ask for it: size and time cost less than Storage.version.
    return _parsed(storage, path, (storage.size(path), storage.written(path)))


@lru_cache(maxsize=64)
def _parsed(storage: Storage, path: str, state: tuple[int, ...]) -> StreamManifest:  # noqa: ARG001 - a key
    with parsing(path, "no manifest of a stream, or damaged"):
        outer = json_value(storage.read_all(path), path)
        content, digest = outer["content"], outer.get("digest")
        kind = (content["format"], content["version"])
    if kind != (FORMAT, VERSION):
        raise unsupported(
            path,
            f"{kind[0]!r} of version {kind[1]!r}, and {FORMAT!r} of version {VERSION} "
            "is read: write it again by StreamWriter or convert(..., to='stream'); "
            "tokens('stream.bin', dtype=...) reads tokens of version 1",
        )
    if _digest(content) != digest:
        raise corrupt(path, "its digest does not match: the manifest is damaged")
    with parsing(path, "its manifest lacks something"):
        dtype, suffixes = content["dtype"], tuple(content["suffixes"])
        if suffixes not in (SUFFIXES, SUFFIXES[:2]):
            raise ValueError(f"files {suffixes}")
        try:
            record = written_records(
                dtype
                if isinstance(dtype, str)
                else [(name, kind, *map(tuple, shape)) for name, kind, *shape in dtype]
            )
        except InvalidArgumentError as problem:
            raise ValueError(f"{problem}") from problem
        sizes = [[whole(size) for size in shard] for shard in content["sizes"]]
        digests = [bytes.fromhex(digest).hex() for digest in content["digests"]]
        if {*map(len, sizes)} != {len(suffixes)} or len(digests) != len(sizes):
            raise ValueError(f"{len(sizes)} shards, {len(digests)} digests")
        return StreamManifest(record, suffixes, sizes, digests)


def check_shards(
    folder: str, names: Sequence[str], count: int, suffixes: Sequence[str]
) -> None:
    """Check that a folder has the files of its shards, and no others.

    Raises:
        MissingFileError: If a file is missing.
        CorruptFileError: If one belongs to no shard.
    """
    expected = {shard_base(n) + suffix for n in range(count) for suffix in suffixes}
    found = {name for name in names if name.endswith(SUFFIXES)}
    for name in sorted(expected ^ found):
        path = f"{folder}/{name}"
        if name in found:
            raise corrupt(path, f"belongs to none of {count} shards: move it away")
        raise MissingFileError(
            f"{path} does not exist, and the folder has {count} shards: put it back"
        ).at(file=path)


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()
