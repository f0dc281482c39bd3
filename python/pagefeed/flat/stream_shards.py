"""Token streams: shards as :class:`StreamWriter` leaves them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.aligned import AlignedColumnNames, AlignedSource, parse_aligned
from pagefeed.core._base import Int64Array, check_columns, lazy
from pagefeed.core.dataset import PageIndex
from pagefeed.core.storage import PathLike, Paths, Storage
from pagefeed.errors import ColumnNotFoundError, DataError, InvalidArgumentError
from pagefeed.flat.flat_dataset import FlatDataset, PayloadFiles, RecordColumn
from pagefeed.flat.flat_file import FlatFile, FlatFormat, Records, corrupt, unsupported
from pagefeed.flat.pages import document_pages
from pagefeed.flat.payloads import Deserialize, deserializer
from pagefeed.flat.stream_document import StreamDocument, read_document
from pagefeed.flat.stream_header import (
    DOCUMENTS,
    HEADER,
    INDEX,
    METADATA,
    PAYLOADS,
    TOKEN,
    TOKENS,
    StreamHeader,
    read_header,
)

SPANS = "spans"
"""Default name of the column of spans."""
_AT_ONCE = 1 << 22
"""Documents whose borders are in memory at a time."""


class Field(NamedTuple):
    """A field of every record, besides its token."""

    name: str
    dtype: str
    """Type, as NumPy names it."""
    offset: int
    """Bytes of the record before the field."""

    @property
    def handle(self) -> _core.FlatField:
        """Handle by which engines read the column."""
        return _core.FlatField(self.dtype, self.offset)

    @property
    def value_bytes(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class StreamFormat(FlatFormat):
    """Format of shards of streams."""

    fields: tuple[Field, ...] = ()
    """Fields that are delivered with the tokens."""

    def sides(self, path: str) -> tuple[str, ...]:
        """Return the header of the shard."""
        return (_header_of(path),)

    def digest(self, storage: Storage, path: str) -> bytes:
        """Return a digest of the header, which has checksums of all files."""
        text = read_header(storage, _header_of(path)).text()
        return hashlib.blake2b(text, digest_size=16).digest()

    def read(self, storage: Storage, path: str) -> FlatFile:
        """Find the documents."""
        header = read_header(storage, _header_of(path))
        header.check_sizes(storage)
        dtype = header.dtype
        if not set(self.fields) <= set(_fields(dtype)):
            names = [field.name for field in self.fields]
            raise unsupported(
                header.path,
                f"records are {dtype}, and others of the dataset have {names} "
                "elsewhere or of another type: make a dataset of each kind of shards, "
                "and mix them",
            )
        if dtype.names is None:
            records = Records(dtype.name, dtype.itemsize)
        else:
            offset = header.offset_of(TOKEN)
            records = Records(dtype[TOKEN].name, dtype.itemsize, offset)
        pages = document_pages(0, _lengths(storage, header), dtype.itemsize)
        return records, pages


def _fields(dtype: np.dtype[Any]) -> list[Field]:
    """Return the fields of a record besides its token."""
    fields: Any = dtype.fields or {}
    return [
        Field(name, kind.name, offset)
        for name, (kind, offset) in fields.items()
        if name not in (TOKEN, METADATA) and kind.kind in "iuf"
    ]


def _header_of(path: str) -> str:
    return path.removesuffix(TOKENS) + HEADER


def _lengths(storage: Storage, header: StreamHeader) -> Iterator[Int64Array]:
    path, last = header.file(DOCUMENTS), 0
    for first in range(0, header.num_documents + 1, _AT_ONCE):
        stop = min(header.num_documents + 1, first + _AT_ONCE)
        borders = storage.numbers(path, "<u8", 8 * first, stop - first)
        rising = borders.astype(np.int64)
        lengths = np.diff(rising, prepend=np.int64(last))
        if (lengths < 0).any() or (first == 0 and borders[0] != 0):
            raise corrupt(path, "borders of documents must rise, from 0 on")
        last = int(borders[-1])
        yield lengths[1:] if first == 0 else lengths
    if last != header.num_tokens:
        raise corrupt(
            path,
            f"its documents end at token {last:,}, the shard has {header.num_tokens:,}",
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
        headers = [_header_of(path) for path in self.files]
        offset, shards = _payload_files(headers)
        return RecordColumn(self.index, "uint32", offset, shards)

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
                    self.index, field.dtype, field.offset, filling=filling
                )
        return self.column_index(column)

    def payload(self, data: bytes) -> Any:
        """Parse a payload from the bytes in a batch or row.

        Args:
            data: The ``payload`` of a span.

        Returns:
            An array if the writer had ``serialize="numpy"``, the Python value if it had
            ``"msgpack"``, and otherwise the same bytes.

        Raises:
            CorruptFileError: If the bytes are not such a payload.
            InvalidArgumentError: If ``data`` is not bytes.
            MissingDependencyError: If payloads are msgpack, which is not installed.

        Example:
            >>> spans = batch["metadata"].to_pylist()[0]["spans"]  # doctest: +SKIP
            >>> dataset.payload(spans[0]["payload"])  # doctest: +SKIP
            array([0.25, 0.5])
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"data={data!r:.60} must be bytes: the payload of a span"
            )
        return self._deserialize(bytes(data))

    @lazy
    def _deserialize(self) -> Deserialize:
        header = read_header(Storage(), _header_of(self.files[0]))
        return deserializer(header.serialization, None, None)

    def check_contents(self) -> None:
        """Compare all bytes of all shards with their checksums; reads everything.

        Raises:
            ChecksumError: For the first file that is not as it was written.
        """
        storage = Storage()
        for path in self.files:
            header = read_header(storage, _header_of(path))
            header.check_sizes(storage)
            header.check_contents(storage)

    def document(
        self, row: int, *, deserialize: Deserialize | None = None
    ) -> StreamDocument:
        """Return a document with its further fields and its spans.

        It makes three reads, however many spans there are: tokens, index and payloads.

        Args:
            row: Number of the document in this dataset; negative ones count from the
                end.
            deserialize: Function that parses payloads from bytes, for those that a
                callable of yours wrote. By default they are parsed as ``serialize`` of
                the writer says, or stay bytes.

        Raises:
            OutOfRangeError: If there is no such document.
            InvalidArgumentError: If the document is erased.
            CorruptFileError: If a token names a payload that is not there.
            MissingDependencyError: If payloads are msgpack, which is not installed.

        Example:
            >>> dataset.document(3).spans  # doctest: +SKIP
            [(1, 3, b'payload')]
        """
        row_of_dataset = self._checked_row(row)
        spans, storage = self.spans, Storage()
        if (
            spans.erased is not None
            and spans.erased.holds(np.array([row_of_dataset]))[0]
        ):
            raise InvalidArgumentError(f"document {row_of_dataset} is erased")
        index, [row] = self.index.plain, spans.rows_of_index([row_of_dataset]).tolist()
        [file] = index.files_of_rows([row]).tolist()
        borders = index.values_of_rows([row, row + 1]) - index.file_first_value[file]
        begin, end = borders.tolist()
        header = read_header(storage, _header_of(self.files[file]))
        return read_document(storage, header, begin, end - begin, deserialize)


def stream(
    paths: Paths,
    *,
    column: str = "input_ids",
    aligned: AlignedColumnNames = (),
    spans: Iterable[str] | None = None,
    cache_dir: PathLike | None = None,
) -> StreamDataset:
    """Return a dataset of token streams, as :class:`StreamWriter` wrote them.

    Args:
        paths: Folders with shards in them or below, or a list, whose order is kept.
        column: Name for the column of tokens.
        aligned: Fields of the records that arrive with their tokens, with their
            padding, see :func:`parquet`.
        spans: Name of the spans in tables of metadata, as a list of one name. By
            default ``["spans"]`` if the shards have spans; ``[]`` leaves them out. They
            come as ``start``, ``end`` and ``payload``, which is bytes, see
            :meth:`StreamDataset.payload`.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is no shard.
        ColumnNotFoundError: If records have no such number, or no spans.
        InvalidArgumentError: If an argument is invalid.

    Example:
        >>> stream("corpus/stream")  # doctest: +SKIP
    """
    listed = Storage().list_files(paths, (HEADER,))
    headers = [path.removesuffix(TOKENS) for path in listed]
    headers = [path if path.endswith(HEADER) else path + HEADER for path in headers]
    first = read_header(Storage(), headers[0])
    field_of = {field.name: field for field in _fields(first.dtype)}
    chosen = parse_aligned(aligned, [column])
    for beside in chosen:
        like = beside.like
        if like.width not in (None, 1) or like.first or like.count or like.scale:
            raise InvalidArgumentError(
                f"aligned={beside.column!r}: records of a stream have one number for "
                "each token as it is: leave width, first, count and scale out"
            )
    taken = [column, *(name for name, _ in chosen)]
    for name in taken[1:]:
        if name not in field_of:
            raise ColumnNotFoundError(
                f"aligned={name!r}: {headers[0]} has {sorted(field_of)} beside its "
                "tokens"
            )
    return StreamDataset(
        files=tuple(header.removesuffix(HEADER) + TOKENS for header in headers),
        format=StreamFormat(tuple(field_of[name] for name, _ in chosen)),
        column=column,
        aligned=chosen,
        span_columns=_span_columns(spans, first, taken),
        cache_dir=cache_dir,
    )


def _span_columns(
    spans: Iterable[str] | None, header: StreamHeader, taken: Sequence[str]
) -> tuple[str, ...]:
    """Return the name of the column of spans; empty if the shards have none.

    Args:
        spans: The name, as asked for; None for the usual one.
        header: That of the first shard.
        taken: Columns that have another role.

    Raises:
        InvalidArgumentError: If it is not one name.
        ColumnNotFoundError: If the caller asks for spans and the shards have none.
    """
    names = check_columns([SPANS] if spans is None else spans, "spans")
    if len(names) > 1 or set(names) & set(taken):
        raise InvalidArgumentError(
            f"spans={list(names)} must be one name, that the spans of all shards get, "
            f"beside {', '.join(map(repr, taken))}"
        )
    if header.has_payloads:
        return names
    if spans is not None and names:
        raise ColumnNotFoundError(
            f"spans={list(names)}: {header.path} has none; its records need a field "
            f"{METADATA!r} of type 'u4', see StreamWriter"
        )
    return ()


def _payload_files(headers: Sequence[str]) -> tuple[int, tuple[PayloadFiles, ...]]:
    """Return the offset of payload ids in records, and the payload files of all shards.

    Raises:
        UnsupportedError: If shards differ in the offset or the serialization.
        CorruptFileError: If a file has another size than its header says.
    """
    storage = Storage()
    files, first, offset = [], None, 0
    for path in headers:
        header = read_header(storage, path)
        header.check_sizes(storage)
        if first is None:
            first, offset = header, header.offset_of(METADATA)
        kind = header.serialization
        if not header.has_payloads or header.offset_of(METADATA) != offset:
            raise _other(path, f"records are {header.dtype}", f"{first.dtype}")
        if kind != first.serialization:
            raise _other(path, f"payloads are {kind!r}", f"{first.serialization!r}")
        size = header.files[PAYLOADS][0]
        names = header.file(INDEX), header.file(PAYLOADS)
        files.append((*names, header.num_payloads, size))
    return offset, tuple(files)


def _other(path: str, own: str, expected: str) -> DataError:
    return unsupported(
        path,
        f"{own}, and of the shards before it {expected}: make a dataset of each kind "
        "of shards, and mix them",
    )
