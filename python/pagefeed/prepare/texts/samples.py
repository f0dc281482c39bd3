"""Samples: MosaicML's MDS shards, and WebDataset's tar files."""

from __future__ import annotations

import json
import struct
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pagefeed.errors import ColumnNotFoundError, CorruptFileError, UnsupportedError
from pagefeed.prepare.texts.records import (
    Batch,
    Piece,
    Rejected,
    Wanted,
    arrow,
    of_objects,
    shown,
)
from pagefeed.prepare.texts.streams import COMPRESSION, codec_of, opened
from pagefeed.storage import Storage

__all__ = ["Mds", "Tar"]

KEY = "__key__"
"""The column of a sample's name in tar files."""


class Samples:
    """Files that are read from the begin to the end."""

    name = ""

    def pieces(self, storage: Storage, file: str, most: int) -> Iterator[Piece]:
        """Return the file as one."""
        del most
        times = 1 if codec_of(file) is None else COMPRESSION
        yield Piece(self.name, file, 0, None, storage.size(file) * times)


class Tar(Samples):
    """Files of a tar with one name before the first dot are a sample."""

    name = "tar"
    suffixes = (".tar", ".tar.gz", ".tgz", ".tar.zst")

    def types(self, storage: Storage, file: str) -> None:
        """Samples may have any files: texts."""
        del storage, file

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the samples."""
        gathered = _Gathered(piece.file, wanted)
        with opened(storage, piece.file) as stream:
            try:
                for key, parts in _samples(stream):
                    gathered.take(f"sample {key}", *_of_tar(key, parts, wanted))
                    if gathered.is_full:
                        yield gathered.batch()
            except (tarfile.TarError, OSError):
                yield gathered.batch()  # What came whole is not lost with the rest.
                raise
        yield gathered.batch()


def _samples(stream: Any) -> Iterator[tuple[str, dict[str, bytes]]]:  # noqa: ANN401
    """The files of each sample, by what follows the first dot of their names."""
    last, parts = "", dict[str, bytes]()
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not member.isreg():
                continue
            folder, slash, name = member.name.rpartition("/")
            begin, _, kind = name.partition(".")
            key = folder + slash + begin
            if key != last and parts:
                yield last, parts
                parts = {}
            last = key
            file = archive.extractfile(member)
            parts[kind] = b"" if file is None else file.read()
    if parts:
        yield last, parts


def _of_tar(
    key: str, parts: dict[str, bytes], wanted: Wanted
) -> tuple[dict[str, Any] | None, str, bytes | None]:
    row: dict[str, Any] = {}
    for name in wanted.columns:
        kind, _, field = name.partition(".")
        if name == KEY:
            row[name] = key
        elif name in parts:
            row[name] = parts[name]
        elif field and kind in parts:  # A field of a JSON file.
            try:
                row[name] = json.loads(parts[kind])[field]
            except (ValueError, KeyError, TypeError) as problem:
                return None, f"no {field!r} in its {kind}: {problem!r}", parts[kind]
        elif name == wanted.source:
            return None, f"there is no {name!r}, only {shown([*parts])}", None
    return row, "", None


class Mds(Samples):
    """MDS shards; each says itself what columns it has."""

    name = "mds"
    suffixes = (".mds", ".mds.zstd", ".mds.gz")

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of a shard."""
        with opened(storage, file) as stream:
            config, _ = _head(stream.read(), file)
        names, encodings = config["column_names"], config["column_encodings"]
        return {
            name: _types()[_kind(encoding)]
            for name, encoding in zip(names, encodings, strict=True)
            if _kind(encoding) in _types()
        }

    def read(self, storage: Storage, piece: Piece, wanted: Wanted) -> Iterator[Batch]:
        """Yield the samples of a shard."""
        gathered = _Gathered(piece.file, wanted)
        with opened(storage, piece.file) as stream:
            data = stream.read()
        config, offsets = _head(data, piece.file)
        for name in wanted.columns:
            if name not in config["column_names"]:
                raise ColumnNotFoundError(
                    f"{piece.file}: there is no column {name!r}; it has "
                    f"{shown(config['column_names'])}"
                )
        for number, begin in enumerate(offsets[:-1]):
            sample = data[begin : offsets[number + 1]]
            row, error = _of_mds(sample, config, wanted)
            gathered.take(f"sample {number}", row, error, sample)
            if gathered.is_full:
                yield gathered.batch()
        yield gathered.batch()


def _head(data: bytes, file: str) -> tuple[dict[str, Any], list[int]]:
    """What a shard says of itself, and where its samples begin."""
    try:
        [count] = struct.unpack_from("<I", data)
        offsets = np.frombuffer(data, "<u4", count + 1, 4).tolist()
        config = json.loads(data[4 * (count + 2) : offsets[0]])
        if config["format"] != "mds" or offsets[-1] != len(data):
            raise CorruptFileError(f"{file} is truncated, or no MDS shard")
    except (struct.error, ValueError, KeyError, TypeError) as problem:
        raise CorruptFileError(f"{file} is no MDS shard: {problem}") from problem
    return config, offsets


def _of_mds(
    sample: bytes, config: dict[str, Any], wanted: Wanted
) -> tuple[dict[str, Any] | None, str]:
    row: dict[str, Any] = {}
    sizes = list(config["column_sizes"])
    variable = [place for place, size in enumerate(sizes) if not size]
    at = 4 * len(variable)
    try:
        for place, size in zip(
            variable, struct.unpack_from(f"<{len(variable)}I", sample), strict=True
        ):
            sizes[place] = size
        if at + sum(sizes) != len(sample):
            return None, "its columns do not fill the sample"
        for name, encoding, size in zip(
            config["column_names"], config["column_encodings"], sizes, strict=True
        ):
            if name in wanted.columns:
                value = sample[at : at + size]
                is_source = name == wanted.source
                row[name] = value if is_source else _decoders(encoding)(value)
            at += size
    except (struct.error, ValueError) as problem:
        return None, str(problem)
    return row, ""


def _kind(encoding: str) -> str:
    return encoding.partition(":")[0]


def _types() -> dict[str, Any]:
    pa = arrow()
    whole = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    names = {name: name for name in (*whole, "float16", "float32", "float64")}
    plain = {"str": "string", "json": "string", "bytes": "binary", "int": "int64"}
    found = {**plain, **names}
    return {name: pa.type_for_alias(alias) for name, alias in found.items()}


def _decoders(encoding: str) -> Callable[[bytes], Any]:
    kind = _kind(encoding)
    if kind in ("str", "json"):
        return bytes.decode
    if kind == "bytes":
        return bytes
    if kind not in _types():
        raise UnsupportedError(f"columns encoded as {encoding!r} cannot be kept")
    dtype = np.dtype("int64" if kind == "int" else kind)
    return lambda value: np.frombuffer(value, dtype)[0].item()


class _Gathered:
    """Samples on their way into a batch."""

    def __init__(self, file: str, wanted: Wanted) -> None:
        self._file = file
        self._wanted = wanted
        self._clear()

    def _clear(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._places: list[str] = []
        self._rejected: list[Rejected] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._wanted.batch_bytes

    def take(
        self, place: str, row: dict[str, Any] | None, error: str, record: bytes | None
    ) -> None:
        """Add a sample, unless it is none."""
        if row is not None:
            try:
                row = self._checked(row)
            except (arrow().ArrowException, UnicodeError) as problem:
                row, error = None, str(problem)
        if row is None:
            self.reject(place, error, record, 1)
            return
        self._rows.append(row)
        self._places.append(place)
        self._bytes += len(row[self._wanted.source] or b"")

    def _checked(self, row: dict[str, Any]) -> dict[str, Any]:
        pa, source = arrow(), self._wanted.source
        found = dict(row)
        if isinstance(found[source], str):
            found[source] = found[source].encode()
        elif not isinstance(found[source], bytes | None):
            found[source] = json.dumps(found[source]).encode()
        for name, kind in self._wanted.kept.items():
            if isinstance(found.get(name), bytes) and pa.types.is_string(kind):
                found[name] = found[name].decode()
        of_objects([found], self._wanted)
        return found

    def reject(
        self, place: str, error: str, record: bytes | None, count: int | None
    ) -> None:
        self._rejected.append(Rejected(self._file, place, error, record, count))

    def batch(self) -> Batch:
        """Return what was gathered, and begin anew."""
        places = self._places
        made = Batch(
            of_objects(self._rows, self._wanted),
            places.__getitem__,
            tuple(self._rejected),
        )
        self._clear()
        return made
