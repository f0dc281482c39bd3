"""Token streams: shards as :class:`StreamWriter` or GuideLoom leaves them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.aligned import AlignedColumnNames, AlignedSource, parse_aligned
from pagefeed.core._base import Int64Array, check_columns, lazy
from pagefeed.core.dataset import PageIndex
from pagefeed.core.storage import PathLike, Paths, Storage, names_in
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    MissingFileError,
)
from pagefeed.flat.flat_dataset import FlatDataset, RecordColumn
from pagefeed.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    corrupt,
    sampled_digest,
    token_dtype,
    unsupported,
)
from pagefeed.flat.pages import document_pages, joined_pages, steps
from pagefeed.flat.stream_manifest import (
    DOCUMENTS,
    INDEX,
    MANIFEST,
    PAYLOADS,
    TOKEN,
    TOKENS,
    StreamManifest,
    check_shards,
    plain_fields,
    read_manifest,
    shard_base,
    stored_dtype,
)

SPANS = "spans"
"""Default name of the column of spans."""
_AT_ONCE = 1 << 22
"""Numbers that are in memory at a time."""


class Field(NamedTuple):
    """A field of every record, besides its token."""

    name: str
    dtype: str
    """Type, as NumPy names it."""
    offset: int
    """Bytes of the record before the field."""
    width: int = 1
    """Number of values in a record."""

    @property
    def handle(self) -> _core.FlatField:
        """Handle by which engines read the column."""
        return _core.FlatField(self.dtype, self.offset, self.width)

    @property
    def value_bytes(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class StreamFormat(FlatFormat):
    """Format of shards of streams."""

    records: Records
    """Places of the tokens."""
    has_manifest: bool
    """Whether pagefeed wrote them."""
    document: Field | None = None
    """Number of records that changes where a document begins."""
    fields: tuple[Field, ...] = ()
    """Fields that are delivered with the tokens."""

    def sides(self, path: str) -> tuple[str, ...]:
        """Return the manifest of the shards, or the borders of documents."""
        if self.has_manifest:
            return (f"{_shard_of(path)[0]}/{MANIFEST}",)
        return (_beside(path, INDEX),) if path.endswith(PAYLOADS) else ()

    def read_each(
        self, storage: Storage, paths: Sequence[str]
    ) -> Iterator[tuple[FlatFile, bytes]]:
        """Find the documents of shards; their manifest is read once."""
        if not self.has_manifest:
            yield from FlatFormat.read_each(self, storage, paths)
            return
        folders = {_shard_of(path)[0] for path in paths}
        manifests = {folder: read_manifest(storage, folder) for folder in folders}
        for path in paths:
            folder, number = _shard_of(path)
            manifest = manifests[folder]
            num_bytes, of_borders, *_ = _checked_sizes(storage, path, manifest, number)
            count = num_bytes // self.records.size
            borders = _beside(path, DOCUMENTS)
            lengths = _lengths(storage, borders, of_borders, 1, count)
            pages = document_pages(0, lengths, self.records.size)
            yield (self.records, pages), bytes.fromhex(manifest.digests[number])

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return a digest of samples, which the manifest keeps."""
        if self.has_manifest:
            folder, number = _shard_of(path)
            return bytes.fromhex(read_manifest(storage, folder).digests[number])
        return sampled_digest(storage, path)

    def read(self, storage: Storage, path: str) -> FlatFile:
        """Find the documents."""
        size, num_bytes = self.records.size, storage.size(path)
        if num_bytes % size:
            raise corrupt(
                path,
                f"{num_bytes:,} bytes are not a whole number of records of {size}: it "
                "is truncated, or of another dtype",
            )
        count = num_bytes // size
        if self.records.borderless:
            return self.records, joined_pages(0, count, size)
        if self.document is not None:
            lengths = self._changes(storage, path, self.document, count)
        else:
            borders = _beside(path, INDEX)
            lengths = _lengths(storage, borders, storage.size(borders), size, count)
        return self.records, document_pages(0, lengths, size)

    def _changes(
        self, storage: Storage, path: str, document: Field, count: int
    ) -> Iterator[Int64Array]:
        """Yield the lengths of documents, which differ in a number; reads all."""
        size, begun, last = self.records.size, 0, None
        where = {"offsets": [document.offset], "itemsize": size}
        record: np.dtype[Any] = np.dtype(
            {"names": ["id"], "formats": [document.dtype], **where}  # type: ignore[call-overload]
        )
        for first in range(0, count, _AT_ONCE):
            stop = min(count, first + _AT_ONCE)
            data = storage.read(path, first * size, stop * size)
            ids = np.frombuffer(data, record)["id"]
            before = ids[0] if last is None else last
            begins = first + np.flatnonzero(np.concatenate([[before], ids[:-1]]) != ids)
            yield np.diff(begins, prepend=begun)
            begun, last = int(begins[-1]) if len(begins) else begun, ids[-1]
        if count:
            yield np.array([count - begun])


def _beside(path: str, suffix: str) -> str:
    """Return another file of the shard of a file."""
    return path.removesuffix(TOKENS).removesuffix(PAYLOADS) + suffix


def _shard_of(path: str) -> tuple[str, int]:
    """Return the folder and the number of the shard of a file."""
    folder, _, name = path.rpartition("/")
    return folder, int(_beside(name, ""))


def _checked_sizes(
    storage: Storage, path: str, manifest: StreamManifest, number: int
) -> list[int]:
    """Return the bytes of the files of a shard, which are those in the manifest.

    Raises:
        CorruptFileError: If one differs.
    """
    sizes = manifest.sizes[number]
    base = _beside(path, "")
    files = [base + suffix for suffix in manifest.suffixes]
    for file, size, num_bytes in zip(files, sizes, storage.sizes(files), strict=True):
        if num_bytes != size:
            raise corrupt(
                file,
                f"has {num_bytes:,} bytes, its manifest promises {size:,}: it is "
                "truncated, or of another shard",
            )
    return sizes


def _lengths(
    storage: Storage, path: str, num_bytes: int, unit: int, count: int
) -> Iterator[Int64Array]:
    """Yield the lengths of documents by their borders, in units of some bytes."""
    last = 0
    num_borders = num_bytes // 8
    for first in range(0, num_borders, _AT_ONCE):
        stop = min(num_borders, first + _AT_ONCE)
        borders = storage.numbers(path, "<i8", 8 * first, stop - first)
        lengths = steps(borders, last)
        odd = unit > 1 and (lengths % unit).any()
        if odd or lengths.min() < 0 or (first == 0 and borders[0]):
            raise corrupt(path, f"borders must rise, from 0 on, by multiples of {unit}")
        last = int(borders[-1])
        yield lengths[first == 0 :] // unit if unit > 1 else lengths[first == 0 :]
    if num_bytes % 8 or not num_borders or last != count * unit:
        raise corrupt(
            path,
            f"{num_bytes:,} bytes of borders end at {last // unit:,}, and the shard "
            f"has {count:,} tokens: one of the files is truncated",
        )


class StreamDataset(FlatDataset):
    """Shards of token streams as one dataset; made by :func:`stream`."""

    format: StreamFormat

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """The fields of records that :attr:`aligned` names."""
        return self.format.fields

    @lazy
    def _span_column(self) -> PageIndex:
        """The column of spans."""
        shards = [(_beside(f, INDEX), _beside(f, PAYLOADS)) for f in self.files]
        storage = self.index.storage
        for index, payloads in shards if not self.format.has_manifest else ():
            last, size = storage.size(index) // 8 * 8 - 8, storage.size(payloads)
            end = storage.numbers(index, "<i8", last, 1)[0] if last >= 0 else -1
            if end != size:
                raise corrupt(
                    payloads,
                    f"has {size:,} bytes, and payloads end at {end:,} by {index}: one "
                    "of the files is truncated",
                )
        return RecordColumn(self.index, "int32", 0, shards=tuple(shards))

    def source_of(self, column: str) -> PageIndex:
        """Return the pages of a column: tokens, an aligned field, or spans.

        Raises:
            ColumnNotFoundError: If there is no such column.
        """
        if column in self.span_columns:
            return self._span_column
        for beside, field in zip(self.aligned, self.format.fields, strict=True):
            if beside.column == column:
                filling = beside.filling(field)
                return RecordColumn(
                    self.index, field.dtype, field.offset, field.width, filling=filling
                )
        return self.column_index(column)


class Folder(NamedTuple):
    """The description of shards in their folder."""

    files: list[str]
    dtype: np.dtype[Any] | None
    has_spans: bool

    @property
    def kind(self) -> str:
        """Type of the records, and the files next to them."""
        kind = "those of GuideLoom" if self.dtype is None else f"{self.dtype}"
        return kind + " with spans" * self.has_spans


def stream(
    paths: Paths,
    *,
    column: str = "input_ids",
    aligned: AlignedColumnNames = (),
    spans: Iterable[str] | None = None,
    cache_dir: PathLike | None = None,
) -> StreamDataset:
    """Return a dataset of token streams of :class:`StreamWriter`.

    Args:
        paths: Folders with shards in them or below, or a list, whose order is kept.
        column: Name for the column of tokens.
        aligned: Fields of the records that arrive with their tokens, with their
            padding, see :func:`parquet`.
        spans: Name of the spans in tables of metadata, as a list of one name. By
            default ``["spans"]`` if the shards have spans; ``[]`` leaves them out. They
            come as ``start``, ``end`` and ``payload``, which is bytes.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is no shard, or one is missing.
        CorruptFileError: If a folder has files that its manifest does not name.
        ColumnNotFoundError: If records have no such number, or no spans.
        InvalidArgumentError: If an argument is invalid.
        UnsupportedError: If folders hold different kinds of records.

    Example:
        >>> stream("corpus/stream")  # doctest: +SKIP
    """
    found = open_folders(paths)
    if found.dtype is None:
        raise InvalidArgumentError(
            f"{found.files[0]} has no {MANIFEST} next to it, as StreamWriter leaves "
            "it: pagefeed.guideloom(..., dtype='int64') reads shards of GuideLoom"
        )
    return dataset_of(found, found.dtype, None, column, aligned, spans, cache_dir)


def dataset_of(
    found: Folder,
    record: np.dtype[Any],
    document: str | None,
    column: str,
    aligned: AlignedColumnNames,
    spans: Iterable[str] | None,
    cache_dir: PathLike | None,
) -> StreamDataset:
    """Return the dataset of shards whose records have a type, see :func:`stream`."""
    has_spans = found.has_spans
    token, by_name = _fields(record, column, 4 * has_spans)
    chosen = parse_aligned(aligned, [column])
    for beside in chosen:
        like, field = beside.like, by_name.get(beside.column)
        width = None if field is None else field.width
        if like.width not in (None, width) or like.first or like.count or like.scale:
            raise InvalidArgumentError(
                f"aligned={beside.column!r}: each record of the stream has {width} "
                "numbers as they are: leave width, first, count and scale out"
            )
    taken = [name for name, _ in chosen]
    for name in [*taken, *[document] * (document is not None)]:
        if name not in by_name:
            raise ColumnNotFoundError(
                f"{name!r}: {found.files[0]} has {sorted(by_name)} next to its tokens"
            )
    has_manifest = found.dtype is not None
    are_documents = has_manifest or found.files[0].endswith(PAYLOADS)
    size = stored_dtype(record, has_spans=has_spans).itemsize
    return StreamDataset(
        files=tuple(found.files),
        format=StreamFormat(
            Records(token.dtype, size, token.offset, not (are_documents or document)),
            has_manifest,
            None if document is None else by_name[document],
            tuple(by_name[name] for name in taken),
        ),
        column=column,
        aligned=chosen,
        span_columns=_span_columns(spans, found, [column, *taken]),
        cache_dir=cache_dir,
    )


def open_folders(paths: Paths) -> Folder:
    """Return the description of shards, which all folders share.

    Raises:
        UnsupportedError: If they differ.
    """
    listed = Storage().list_files(paths, (MANIFEST, TOKENS, PAYLOADS))
    folders = dict.fromkeys(path.rpartition("/")[0] for path in listed)
    each = {folder: _open_folder(folder) for folder in folders}
    first, *_ = each.values()
    for folder, own in each.items():
        if own.kind != first.kind:
            raise unsupported(
                folder,
                f"records are {own.kind}, and those of {first.files[0]} {first.kind}: "
                "make a dataset of each kind of shards, and mix them",
            )
    files = [file for folder in each.values() for file in folder.files]
    return first._replace(files=files)


def _open_folder(folder: str) -> Folder:
    """Check that all files of a folder are there; return those of tokens."""
    names, dtype = names_in(folder), None
    if MANIFEST in names:
        dtype, suffixes, sizes, _ = read_manifest(Storage(), folder)
        count = len(sizes)
    elif any(name.endswith(DOCUMENTS) for name in names):
        raise MissingFileError(
            f"{folder}/{MANIFEST} does not exist: it appears when StreamWriters of all "
            "shards are closed"
        ).at(file=f"{folder}/{MANIFEST}")
    else:
        each = (TOKENS, INDEX, PAYLOADS)
        suffixes = tuple(s for s in each if any(name.endswith(s) for name in names))
        if {INDEX, PAYLOADS} & {*suffixes}:
            suffixes = (*[TOKENS] * (TOKENS in suffixes), INDEX, PAYLOADS)
        count = sum(name.endswith(suffixes[0]) for name in names)
    check_shards(folder, names, count, suffixes)
    tokens = TOKENS if TOKENS in suffixes else PAYLOADS
    files = [f"{folder}/{shard_base(n)}{tokens}" for n in range(count)]
    return Folder(files, dtype, tokens == TOKENS and INDEX in suffixes)


def _fields(
    record: np.dtype[Any], column: str, begin: int
) -> tuple[Field, dict[str, Field]]:
    """Return where tokens lie in records, and the numbers besides them by name."""
    if record.names is None:
        return Field(TOKEN, token_dtype(record, "dtype"), begin), {}
    every = {
        name: Field(name, kind.base.name, begin + offset, math.prod(kind.shape))
        for name, kind, offset in plain_fields(record)
        if kind.base.kind in "iuf"
    }
    token = every.pop(TOKEN if TOKEN in every else column, None)
    if token is None or token.width > 1 or np.dtype(token.dtype).kind not in "iu":
        raise InvalidArgumentError(
            f"dtype={record} has no integers called {TOKEN!r} or {column!r}: name the "
            "field of the tokens by column="
        )
    return token, every


def _span_columns(
    spans: Iterable[str] | None, found: Folder, taken: Sequence[str]
) -> tuple[str, ...]:
    """Return the name of the column of spans; empty if the shards have none.

    Args:
        spans: The name, as asked for; None for the usual one.
        found: What the folders say.
        taken: Columns that have another role.

    Raises:
        InvalidArgumentError: If it is not one name.
        ColumnNotFoundError: If the caller asks for spans and the shards have none.
    """
    names = check_columns([SPANS] if spans is None else spans, "spans")
    if len(names) > 1 or set(names) & set(taken):
        raise InvalidArgumentError(
            f"spans={list(names)} must be one name, that the spans of all shards get, "
            f"other than {', '.join(map(repr, taken))}"
        )
    if found.has_spans:
        return names
    if spans is not None and names:
        raise ColumnNotFoundError(
            f"spans={list(names)}: the shard of {found.files[0]} has none, see "
            "serialize= of StreamWriter"
        )
    return ()
