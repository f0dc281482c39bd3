"""MosaicML's MDS shards: samples with a column of tokens."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, check_column
from pagefeed.core.storage import PathLike, Paths, Storage
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    UnsupportedError,
)
from pagefeed.flat.flat_dataset import FlatDataset
from pagefeed.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    corrupt,
    given_dtype,
    sampled_digest,
    token_dtype,
    unsupported,
    whole,
)
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.pages import apart
from pagefeed.parsing import json_value, parsing
from pagefeed.remote import FileWriter, make_folder

_INDEX = "index.json"
_ARRAY = "ndarray"
_SIZES_AT_ONCE = 16 << 20
_MOST_BYTES = (1 << 32) - 1
"""Most bytes of a shard: offsets have 32 bits."""


class _Shard(NamedTuple):
    """The entry of a shard in an index."""

    name: str
    size: int
    samples: int
    columns: tuple[tuple[str, str, int | None], ...]
    """Name, encoding and bytes of each column; None for bytes that vary."""
    entry: str
    """The entry as JSON."""


@dataclass(frozen=True, slots=True)
class MdsFormat(FlatFormat):
    """Format of MDS shards."""

    column: str
    """The column of the tokens, in the shards."""
    dtype: str | None
    """Type of the tokens where the column is plain bytes."""

    def sides(self, path: str) -> tuple[str, ...]:
        """Return the index, which names the columns."""
        return (_index_of(path),)

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return a digest of the shard and of its entry in the index."""
        entry = _described(storage, path).entry
        text = hashlib.blake2b(entry.encode(), digest_size=16).digest()
        return sampled_digest(storage, path, text)

    def read(self, storage: Storage, path: str) -> FlatFile:
        """Find the tokens of the samples."""
        shard = _described(storage, path)
        names = [name for name, _, _ in shard.columns]
        if self.column not in names:
            raise ColumnNotFoundError(
                f"{path}: there is no column {self.column!r}; it has {names}"
            )
        column_number = names.index(self.column)
        encoding = shard.columns[column_number][1]
        sizes = [size for _, _, size in shard.columns]
        begins = _sample_begins(storage, path, shard.samples)
        dtype, shape_known = _token_type(encoding, self.dtype, path)
        starts, num_bytes = _values(storage, path, begins, sizes, column_number)
        if not shape_known:
            # An array begins with a byte for its axes, then its length in 1 to 8 bytes.
            heads = _bytes_at(storage, path, starts)
            if (heads >> 2 != 1).any():
                message = f"{self.column!r} holds arrays of several axes"
                raise unsupported(path, message)
            head = 1 + (1 << (heads & 3).astype(np.int64))
            starts, num_bytes = starts + head, num_bytes - head
        if (num_bytes < 0).any() or (num_bytes % dtype.itemsize).any():
            raise corrupt(path, f"samples of {self.column!r} are no {dtype.name}")
        pages = apart(starts, num_bytes // dtype.itemsize, dtype.itemsize)
        records = Records(dtype.name, dtype.itemsize)
        return records, pages


def _index_of(path: str) -> str:
    return path[: path.rindex("/") + 1] + _INDEX


def _shards(storage: Storage, index: str) -> dict[str, _Shard]:
    """Return the entries of an index by the names of their files, in order."""
    return _entries(storage, index, storage.version(index))


@lru_cache(maxsize=16)
def _entries(storage: Storage, index: str, version: str) -> dict[str, _Shard]:  # noqa: ARG001
    text = storage.read_all(index)
    with parsing(index, "no index of MDS shards"):
        entries = json_value(text, index)["shards"]
        kinds = {(str(shard["format"]), str(shard["version"])) for shard in entries}
        if kinds - {("mds", "2")}:
            raise UnsupportedError(
                f"{index}: shards are {sorted(kinds)}; only 'mds' of version 2 is read"
            )
        shards = {shard.name: shard for shard in map(_shard, entries)}
        if len(shards) < len(entries):
            raise ValueError("a shard is named twice")
        return shards


def _shard(entry: dict[str, Any]) -> _Shard:
    name = entry["raw_data"]["basename"]
    if not isinstance(name, str) or "/" in name:
        raise ValueError(f"{name!r:.40} is not the name of a file in the same folder")
    parts = (entry[f"column_{field}"] for field in ("names", "encodings", "sizes"))
    return _Shard(
        name,
        whole(entry["raw_data"]["bytes"]),
        whole(entry["samples"]),
        tuple(
            (str(column), str(encoding), whole(size, _MOST_BYTES) if size else None)
            for column, encoding, size in zip(*parts, strict=True)
        ),
        json.dumps(entry, sort_keys=True),
    )


def _described(storage: Storage, path: str) -> _Shard:
    """Return the entry of a shard, which must have the size that the index gives."""
    shard = _shards(storage, _index_of(path)).get(path[path.rindex("/") + 1 :])
    if shard is None:
        raise corrupt(path, f"{_index_of(path)} does not name it any more")
    num_bytes = storage.size(path)
    if shard.size != num_bytes:
        raise corrupt(
            path,
            f"has {num_bytes:,} bytes, its index promises {shard.size:,}: it is "
            "truncated, or of another dataset",
        )
    return shard


def _token_type(
    encoding: str, dtype: str | None, path: str
) -> tuple[np.dtype[np.generic], bool]:
    """Return the type of the tokens, and whether they have no shape before them."""
    kind, *how = encoding.split(":")
    if kind == "bytes":
        if dtype is None:
            raise InvalidArgumentError(
                f"{path}: its tokens are plain bytes: say of what type they are, "
                "pagefeed.mds(..., dtype='int64')"
            )
        return np.dtype(dtype), True
    if kind != _ARRAY or not how:
        raise unsupported(
            path,
            f"tokens encoded as {encoding!r} are not read: write them as "
            "'ndarray:uint16', another type, or bytes",
        )
    with parsing(path, f"its tokens are encoded as {encoding!r:.60}"):
        token = np.dtype(how[0])
    token_dtype(token, path)
    return token, len(how) > 1


def _sample_begins(storage: Storage, path: str, num_samples: int) -> Int64Array:
    """Return the offsets of the samples in the shard, and the end."""
    size = storage.size(path)
    end = 4 * (num_samples + 2)
    if end > size:
        raise corrupt(path, f"{num_samples:,} samples do not fit in {size:,} bytes")
    head = storage.numbers(path, "<u4", 0, num_samples + 2).astype(np.int64)
    begins = head[1:]
    if head[0] != num_samples or (np.diff(begins) < 0).any() or begins[-1] != size:
        raise corrupt(
            path,
            f"its head speaks of {head[0]:,} samples up to byte {begins[-1]:,}, the "
            f"index of {num_samples:,} in {size:,} bytes",
        )
    return begins


def _values(
    storage: Storage,
    path: str,
    begins: Int64Array,
    sizes: list[int | None],
    column: int,
) -> tuple[Int64Array, Int64Array]:
    """Return the offset and size of a column in each sample."""
    samples, ends = begins[:-1], begins[1:]
    unknown = [other_column for other_column, size in enumerate(sizes) if size is None]
    at = samples + 4 * len(unknown)
    if (at > ends).any():
        raise corrupt(path, "samples are too short for the sizes of their columns")
    width = ends - at
    for other_column, size in enumerate(sizes[: column + 1]):
        if size is not None:
            width = np.full_like(at, size)
        elif unknown == [column]:
            # The only column of varying size has the bytes that the others leave.
            width = ends - at - sum(other or 0 for other in sizes[column:])
        else:
            at_size = samples + 4 * unknown.index(other_column)
            every = (at_size[:, None] + np.arange(4)).reshape(-1)
            width = _bytes_at(storage, path, every).view("<u4").astype(np.int64)
        if other_column < column:
            at = at + width
    if (at + width > ends).any() or (width < 0).any():
        raise corrupt(path, "a column reaches beyond the end of its sample")
    return at, width


def _bytes_at(
    storage: Storage, path: str, offsets: Int64Array
) -> npt.NDArray[np.uint8]:
    """Return the bytes at rising offsets; the file is read in runs."""
    values = np.empty(len(offsets), dtype=np.uint8)
    size, step = storage.size(path), _SIZES_AT_ONCE
    if len(offsets) and int(offsets.max()) >= size:
        raise corrupt(path, "a sample ends after the end of the file")
    for block in np.unique(offsets // step).tolist():
        begin, end = block * step, min(size, (block + 1) * step)
        here = np.flatnonzero(offsets // step == block)
        data = storage.numbers(path, "u1", begin, end - begin)
        values[here] = data[offsets[here] - begin]
    return values


def mds(
    folders: Paths,
    *,
    column: str | None = None,
    dtype: npt.DTypeLike | None = None,
    cache_dir: PathLike | None = None,
) -> FlatDataset:
    """Return a dataset of MosaicML's MDS shards, which are read in place.

    Args:
        folders: Folders with an ``index.json`` in them or below, or a list, whose order
            is kept. Compressed shards must be decompressed first.
        column: The column of the tokens: one-dimensional arrays of integers, or bytes.
            By default ``"input_ids"``, or ``"tokens"`` if the shards have that instead.
        dtype: Type of the tokens where they are plain bytes.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is no index, or a shard of it is gone.
        UnsupportedError: If an index is of another format.
        InvalidArgumentError: If tokens do not come in ``dtype``.

    Example:
        >>> mds("corpus/mds", column="tokens")  # doctest: +SKIP
    """
    storage = Storage()
    files, names = [], set[str]()
    for index in storage.list_files(folders, (_INDEX,)):
        for shard in _shards(storage, index).values():
            files.append(index.removesuffix(_INDEX) + shard.name)
            names.update(name for name, _, _ in shard.columns)
    if column is None:
        is_other = "tokens" in names and "input_ids" not in names
        column = "tokens" if is_other else "input_ids"
    return FlatDataset(
        files=tuple(storage.list_files(files)),
        format=MdsFormat(check_column(column, "column"), given_dtype(dtype)),
        column=column,
        cache_dir=cache_dir,
    )


class MdsOutput(Output):
    """MDS shards with one column of arrays, and their index."""

    signs = (_INDEX, ".mds")

    def begin(self) -> None:
        """Make the folder."""
        make_folder(self.path)
        self._samples: list[bytes] = []
        self._size = 0
        self._most = min(self.shard_bytes, 1 << 31)  # Offsets in a shard have 32 bits.
        self._shards: list[dict[str, Any]] = []
        self._encoding = f"{_ARRAY}:{self.dtype.name}"
        self.files = [self.path]

    def put(self, rows: TokenRows) -> None:
        """Write documents; MDS cannot hold empty ones, which it leaves out."""
        for tokens in rows.documents():
            if not len(tokens):
                self.num_left_out += 1
                continue
            width = next(w for w in range(4) if len(tokens) < 1 << (8 << w))
            shape = len(tokens).to_bytes(1 << width, "little")
            value = bytes([1 << 2 | width]) + shape + tokens.tobytes()
            sample = struct.pack("<I", len(value)) + value
            if self._samples and self._size + len(sample) > self._most:
                self._write_shard()
            self._samples.append(sample)
            self._size += len(sample) + 4

    def _write_shard(self) -> None:
        about: dict[str, Any] = {
            "column_encodings": [self._encoding],
            "column_names": [self.column],
            "column_sizes": [None],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": self._most,
            "version": 2,
        }
        config = json.dumps(about, sort_keys=True).encode()
        count = len(self._samples)
        begins = np.cumsum([0, *map(len, self._samples)])
        begins += 4 * (count + 2) + len(config)
        name = f"shard.{len(self._shards):05}.mds"
        file = self.stack.enter_context(FileWriter(f"{self.path}/{name}"))
        file.write(struct.pack("<I", count) + begins.astype("<u4").tobytes() + config)
        for sample in self._samples:
            file.write(sample)
        file.commit()
        raw = {"basename": name, "bytes": file.size, "hashes": {}}
        self._shards.append(
            about | {"raw_data": raw, "samples": count, "zip_data": None}
        )
        self._samples, self._size = [], 0

    def finish(self) -> None:
        """Write the last shard, and the index."""
        if self._samples:
            self._write_shard()
        text = json.dumps({"version": 2, "shards": self._shards}, sort_keys=True)
        index = self.stack.enter_context(FileWriter(f"{self.path}/{_INDEX}"))
        index.write(text.encode())
