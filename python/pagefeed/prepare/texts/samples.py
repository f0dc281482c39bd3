"""Samples: MosaicML's MDS shards, and WebDataset's tar files."""

from __future__ import annotations

import json
import struct
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError, UnsupportedError
from pagefeed.prepare.texts.json_lines import parse_record
from pagefeed.prepare.texts.kept import Sample, batch_of
from pagefeed.prepare.texts.records import (
    RECORD_BYTES,
    Batch,
    FileRange,
    Wanted,
    arrow,
    shown,
    too_long,
)
from pagefeed.prepare.texts.streams import Reader, opened, read_some
from pagefeed.prepare.texts.tables import check_columns_of

__all__ = ["Mds", "Tar"]

KEY = "__key__"
"""Column with the name of a sample in tar files."""


class Tar(Reader):
    """Reads tar files. Members with the same name before the first dot are a sample."""

    suffixes = (".tar", ".tar.gz", ".tgz", ".tar.zst")

    def types(self, storage: Storage, file: str) -> None:
        """Return None: samples may have any members."""
        del storage, file

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the samples."""
        with opened(storage, file_range.file) as stream:
            members = _samples(stream, wanted)
            samples = (_of_tar(key, contents, wanted) for key, contents in members)
            yield from _batches(file_range.file, wanted, samples)


class _Header(tarfile.TarInfo):
    """A header of a member; the standard library takes a broken one for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Return the next header; a broken one is a CorruptFileError."""
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as problem:
            raise CorruptFileError(
                f"no header of a tar file at byte {archive.offset}, and no end blocks: "
                f"{problem}"
            ) from problem

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Return the header in a block; limit the length of names."""
        header = super().frombuf(buf, encoding, errors)
        if header.type not in _PLAIN_TYPES and header.size > MOST_NAME_BYTES:
            raise CorruptFileError(
                f"a header of a tar file of {header.size} bytes: {MOST_NAME_BYTES} are "
                "read at most"
            )
        return header


MOST_NAME_BYTES = 1 << 20
_PLAIN_TYPES = (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE, tarfile.LNKTYPE)


def _samples(
    stream: Any, wanted: Wanted
) -> Iterator[tuple[str, dict[str, bytes | int]]]:
    """Yield the members of each sample, by the part of their names after the first dot.

    Members that are not wanted, or too long, come as their sizes.
    """
    kinds = {kind for name in wanted.columns for kind in (name, name.partition(".")[0])}
    last, contents = "", dict[str, bytes | int]()
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
        for member in archive:
            if not member.isreg():
                continue
            folder, slash, name = member.name.rpartition("/")
            begin, _, kind = name.partition(".")
            key = folder + slash + begin
            if key != last and contents:
                yield last, contents
                contents = {}
            last, contents[kind] = key, member.size
            if kind in kinds and member.size <= wanted.record_bytes:
                file = archive.extractfile(member)
                contents[kind] = b"" if file is None else file.read()
        while rest := archive.fileobj.read(1 << 20):
            if rest.strip(b"\0"):
                raise CorruptFileError(
                    "there are bytes after the end of the archive: write one archive "
                    "to a tar file"
                )
    if contents:
        yield last, contents


def _of_tar(key: str, contents: dict[str, bytes | int], wanted: Wanted) -> Sample:
    row: dict[str, Any] = {}
    for name in wanted.columns:
        kind, _, field = name.partition(".")
        content = contents.get(name, contents.get(kind) if field else None)
        if isinstance(content, int):
            return Sample(key, None, f"{too_long(wanted.record_bytes)} (its {kind})")
        if name == KEY:
            row[name] = key
        elif name in contents:
            row[name] = content
        elif content is not None:  # A field of a JSON file.
            record, error = parse_record(content)
            if record is None or field not in record:
                error = f"no {field!r} in its {kind}: {error or 'no such field'}"
                return Sample(key, None, error, content)
            row[name] = record[field]
        elif name == wanted.source:
            return Sample(key, None, f"there is no {name!r}, only {shown([*contents])}")
    return Sample(key, row)


class Mds(Reader):
    """MDS shards, which name their columns."""

    suffixes = (".mds", ".mds.zstd", ".mds.gz")

    def types(self, storage: Storage, file: str) -> dict[str, Any]:
        """Return the columns of a shard."""
        with opened(storage, file) as stream:
            config, _ = _head(stream, file)
        both = zip(config["column_names"], config["column_encodings"], strict=True)
        kind_of = {name: _type_of(encoding) for name, encoding in both}
        return {n: arrow().type_for_alias(kind) for n, kind in kind_of.items() if kind}

    def read(
        self, storage: Storage, file_range: FileRange, wanted: Wanted
    ) -> Iterator[Batch]:
        """Yield the samples of a shard."""
        with opened(storage, file_range.file) as stream:
            config, sizes = _head(stream, file_range.file)
            check_columns_of(config["column_names"], wanted, file_range.file)
            samples = _of_shard(stream, file_range.file, config, sizes.tolist(), wanted)
            yield from _batches(file_range.file, wanted, samples)


def _of_shard(
    stream: Any, file: str, config: dict[str, Any], sizes: list[int], wanted: Wanted
) -> Iterator[Sample]:
    for sample, size in enumerate(sizes):
        if size > wanted.record_bytes:
            for begin in range(0, size, 1 << 20):
                _exactly(stream, min(size - begin, 1 << 20), file)
            yield Sample(sample, None, too_long(wanted.record_bytes))
            continue
        record = _exactly(stream, size, file)
        yield Sample(sample, *_of_mds(record, config, wanted), record)
    if stream.read(1):
        raise CorruptFileError(f"{file}: it has bytes after its last sample")


def _head(stream: Any, file: str) -> tuple[dict[str, Any], npt.NDArray[np.int64]]:
    """Return the header of a shard, and the size of each sample in bytes."""
    try:
        [count] = struct.unpack("<I", _exactly(stream, 4, file))
        table = _exactly(stream, 4 * (count + 1), file, RECORD_BYTES)
        offsets = np.frombuffer(table, "<u4").astype(np.int64)
        rest = int(offsets[0]) - 4 * (count + 2)
        config = json.loads(_exactly(stream, rest, file, RECORD_BYTES))
        names, encodings = config["column_names"], config["column_encodings"]
        sizes = [size or 0 for size in config["column_sizes"]]
        are_sound = {str} >= {type(text) for text in (*names, *encodings)}
        are_sound &= len(names) == len(encodings) == len(sizes) and min(sizes) >= 0
        if config["format"] != "mds" or not are_sound:
            raise CorruptFileError(f"{file} is no MDS shard")
        lengths = np.diff(offsets)
        if (lengths < 0).any():
            raise CorruptFileError(f"{file} is no MDS shard: samples overlap")
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise CorruptFileError(f"{file} is no MDS shard: {problem}") from problem
    return config, lengths


def _exactly(stream: Any, size: int, file: str, most: int = 1 << 32) -> bytes:
    """Read bytes that must exist, at most ``most``."""
    if not 0 <= size <= most:
        raise CorruptFileError(
            f"{file}: a header of {size} bytes is too large for an MDS shard"
        )
    data, problem = read_some(stream, size)
    if problem is not None:
        raise problem
    if len(data) < size:
        raise CorruptFileError(
            f"{file} is truncated: expected {size} bytes, found {len(data)}"
        )
    return data


def _of_mds(
    sample: bytes, config: dict[str, Any], wanted: Wanted
) -> tuple[dict[str, Any] | None, str]:
    row: dict[str, Any] = {}
    count = sum(not size for size in config["column_sizes"])
    at = 4 * count
    try:
        variable = iter(struct.unpack_from(f"<{count}I", sample))
        sizes = [size or next(variable) for size in config["column_sizes"]]
        if at + sum(sizes) != len(sample):
            return None, "its columns do not fill the sample"
        for name, encoding, size in zip(
            config["column_names"], config["column_encodings"], sizes, strict=True
        ):
            if name in wanted.columns:
                value = sample[at : at + size]
                is_source = name == wanted.source
                row[name] = value if is_source else _decoded(value, encoding)
            at += size
    except (struct.error, ValueError, IndexError) as problem:
        return None, str(problem)
    return row, ""


_NUMBERS = {
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
_OTHERS = {"str": "string", "json": "string", "bytes": "binary", "int": "int64"}


def _type_of(encoding: str) -> str | None:
    """Return the type of a column as Arrow calls it; None if it is not read."""
    kind = encoding.partition(":")[0]
    return kind if kind in _NUMBERS else _OTHERS.get(kind)


def _decoded(value: bytes, encoding: str) -> Any:
    kind = _type_of(encoding)
    if kind is None:
        raise UnsupportedError(f"columns encoded as {encoding!r} cannot be kept")
    if kind == "string":
        return value.decode()
    return value if kind == "binary" else np.frombuffer(value, kind)[0].item()


def _batches(file: str, wanted: Wanted, samples: Iterable[Sample]) -> Iterator[Batch]:
    """Yield samples as batches. Samples before damage come before the error."""
    waiting: list[Sample] = []

    def batch() -> Batch:
        return batch_of(waiting, wanted, file, "sample {}".format)

    num_bytes = 0
    try:
        for sample in samples:
            waiting.append(sample)
            values = (sample.row or {}).values()
            num_bytes += sum(
                len(value if isinstance(value, str | bytes) else str(value))
                for value in values
            )
            if num_bytes >= wanted.batch_bytes:
                yield batch()
                waiting, num_bytes = [], 0
    except (CorruptFileError, tarfile.TarError, OSError):
        yield batch()
        raise
    yield batch()
