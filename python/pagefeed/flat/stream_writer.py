"""Writing a shard of a token stream."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Facts, Int64Array, WholeWriter, text_of
from pagefeed.core.storage import UNFINISHED, PathLike, Storage
from pagefeed.errors import InvalidArgumentError, MissingFileError, UnsupportedError
from pagefeed.flat.flat_file import check_fitting
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.payloads import Serialize, serializer
from pagefeed.flat.stream_header import (
    DOCUMENTS,
    HEADER,
    INDEX,
    METADATA,
    NO_PAYLOAD,
    PAYLOADS,
    TOKEN,
    TOKENS,
    StreamHeader,
    record_dtype,
)
from pagefeed.remote import FileWriter, SummedWriter, make_folder, output_folder

Span = tuple[int, int, Any]
"""First token, end, payload."""


class StreamWriter(WholeWriter):
    """Writes one shard of a token stream: a folder, see docs/reference/formats.md.

    Several processes can write at the same time, each to a folder of its own;
    :func:`stream` reads all shards below a folder. A shard appears when its writer is
    closed, whole or not at all.

    Args:
        folder: The folder of the shard. It is created if it does not exist.
        dtype: Type of the tokens (``"uint16"``); or a structure with a field ``token``,
            any further numbers per token, and ``metadata`` (``"u4"``) for the payloads
            of spans.
        serialize: How payloads become bytes: ``"bytes"`` as they are, ``"numpy"``
            arrays, ``"msgpack"``, or a callable of your own.

    Raises:
        InvalidArgumentError: If ``dtype`` is invalid, or the folder has a shard
            already.
        FileAccessError: If the folder cannot be written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with StreamWriter(folder, dtype="uint16") as out:
        ...     out.append([5, 6, 7])
        ...     out.append([8, 9])
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        dtype: npt.DTypeLike,
        serialize: Literal["bytes", "numpy", "msgpack"] | Serialize = "bytes",
    ) -> None:
        try:
            self.dtype = record_dtype(dtype)
        except (TypeError, UnsupportedError) as problem:
            raise InvalidArgumentError(f"dtype={dtype!r}: {problem}") from problem
        self._serialization, self._serialize = serializer(serialize)
        out = output_folder(folder, None, "folder", buckets=False)
        self.folder = make_folder(out.path)
        """The folder of the shard."""
        with suppress(MissingFileError):
            Storage().size(f"{self.folder}/{HEADER}")
            raise InvalidArgumentError(
                f"{self.folder} has a shard already: write to another folder, or "
                "remove this one"
            )
        self.num_tokens = 0
        """Tokens written so far."""
        self.num_documents = 0
        """Documents written so far."""
        self.num_payloads = 0
        """Payloads written so far."""
        self._is_open = True
        names = self.dtype.names or ()
        self._has_payloads = METADATA in names
        self._fields = tuple(name for name in names if name not in (TOKEN, METADATA))
        files = [TOKENS, DOCUMENTS, *[INDEX, PAYLOADS] * self._has_payloads]
        self._files: dict[str, SummedWriter] = {}
        for name in files:
            self._files[name] = SummedWriter(f"{self.folder}/{name}")
        for name in {DOCUMENTS, INDEX} & set(files):
            self._files[name].write(bytes(8))

    def append(
        self,
        tokens: npt.ArrayLike,
        *,
        spans: Iterable[Span] = (),
        **fields: npt.ArrayLike,
    ) -> None:
        """Write a document.

        Args:
            tokens: Its tokens; or records of ``dtype``, complete except for payloads.
            spans: Its spans, which do not overlap: ``(start, stop, payload)`` each, in
                tokens of the document.
            **fields: The further numbers of ``dtype``, by name: one for each token.

        Raises:
            InvalidArgumentError: If fields or spans do not fit the tokens.
            TokenRangeError: If a number does not fit its type.
            FileAccessError: If the shard cannot be written.
        """
        self._check_open()
        records = self._records(np.asarray(tokens), fields)
        payloads = self._mark(records, _triples(spans))
        self._write(records, np.array([len(records)]))
        if payloads:
            sizes = np.fromiter(map(len, payloads), np.uint64, len(payloads))
            ends = self._files[PAYLOADS].size + np.cumsum(sizes)
            self._files[PAYLOADS].write(b"".join(payloads))
            self._files[INDEX].write(ends.astype("<u8").tobytes())
            self.num_payloads += len(payloads)

    def append_many(self, tokens: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        """Write several documents that have only tokens, without fields and spans.

        Args:
            tokens: Their tokens, joined.
            lengths: Number of tokens of each document; they sum to the number of
                tokens.

        Raises:
            InvalidArgumentError: If lengths do not sum to the tokens, or ``dtype`` has
                further numbers.
            TokenRangeError: If a token does not fit its type.
            FileAccessError: If the shard cannot be written.
        """
        counts = np.asarray(lengths, dtype=np.int64)
        if (counts < 0).any() or int(counts.sum()) != len(np.asarray(tokens)):
            raise InvalidArgumentError(
                f"lengths sum to {counts.sum()}, there are {len(np.asarray(tokens))} "
                "tokens: give the number of tokens of each document"
            )
        self._check_open()
        self._write(self._records(np.asarray(tokens), {}), counts)

    def _write(self, records: npt.NDArray[Any], counts: Int64Array) -> None:
        """Write documents, given the number of records in each."""
        ends = self.num_tokens + np.cumsum(counts)
        self._files[TOKENS].write(records.tobytes())
        self._files[DOCUMENTS].write(ends.astype("<u8").tobytes())
        self.num_tokens += len(records)
        self.num_documents += len(counts)

    def close(self) -> None:
        """Finish the shard; its header is written last."""
        if not self._is_open:
            return
        self._is_open = False
        for file in self._files.values():
            file.commit()
        header = StreamHeader(
            path=f"{self.folder}/{HEADER}",
            dtype=self.dtype,
            num_tokens=self.num_tokens,
            num_documents=self.num_documents,
            num_payloads=self.num_payloads,
            serialization=self._serialization,
            files={name: (file.size, file.crc32) for name, file in self._files.items()},
        )
        with FileWriter(header.path) as out:
            out.write(header.text())

    def commit(self) -> None:
        """Complete the shard, as :meth:`close` does."""
        self.close()

    def abandon(self) -> None:
        """Remove the shard, unless it was completed."""
        self._is_open = False
        for file in self._files.values():
            file.abandon()

    def __repr__(self) -> str:
        facts: Facts = {
            "folder": self.folder,
            "documents": self.num_documents,
            "tokens": self.num_tokens,
        }
        return text_of(type(self).__name__, facts)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidArgumentError(f"the shard in {self.folder} is closed")

    def _records(
        self, tokens: npt.NDArray[Any], fields: dict[str, npt.ArrayLike]
    ) -> npt.NDArray[Any]:
        """Return the records of a document."""
        given = dict(fields)
        if tokens.dtype.names is not None:
            given |= {name: tokens[name] for name in tokens.dtype.names}
        else:
            given[TOKEN] = tokens
        if np.ndim(given[TOKEN]) != 1:
            raise InvalidArgumentError(
                f"tokens are {tokens.dtype} of the shape {tokens.shape}: give those of "
                "one document, numbers in a row"
            )
        given.pop(METADATA, None)  # Numbers of payloads are made here.
        if set(given) != {TOKEN, *self._fields}:
            raise InvalidArgumentError(
                f"a document has {sorted(set(given) - {TOKEN})} beside its tokens, and "
                f"dtype={self.dtype} asks for {sorted(self._fields)}"
            )
        records = np.empty(np.shape(given[TOKEN])[:1], dtype=self.dtype)
        for name, values in given.items():
            column = np.asarray(values)
            if column.shape != records.shape:
                raise InvalidArgumentError(
                    f"{name!r} has the shape {column.shape}, and there are "
                    f"{len(records)} tokens: one number each"
                )
            target = records if self.dtype.names is None else records[name]
            target[...] = check_fitting(column, target.dtype, name)
        if self._has_payloads:
            records[METADATA] = NO_PAYLOAD
        return records

    def _mark(self, records: npt.NDArray[Any], spans: list[Span]) -> list[bytes]:
        """Write ids of payloads to the tokens of spans; return the payloads."""
        if spans and not self._has_payloads:
            raise InvalidArgumentError(
                f"dtype={self.dtype} has no {METADATA!r}: payloads of spans need it, "
                "as in [('token', 'u2'), ('metadata', 'u4')]"
            )
        if not spans:
            return []
        spans.sort(key=lambda span: span[:2])
        payloads = [self._bytes_of(payload) for *_, payload in spans]
        ends = np.array([span[:2] for span in spans]).reshape(-1)
        if ends.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"spans begin and end at {ends.tolist()[:2]}: give whole numbers, in "
                "tokens of the document"
            )
        borders = ends.astype(np.int64)
        # Start and end in turn: each behind the one before, or at it.
        lengths = np.diff(borders, prepend=0)
        is_end = np.arange(len(lengths)) % 2 == 1
        wrong = np.flatnonzero((lengths < 0) | ((lengths == 0) & is_end))
        if len(wrong) or borders[-1] > len(records):
            start, stop, _ = spans[wrong[0] // 2 if len(wrong) else -1]
            raise InvalidArgumentError(
                f"a span from token {start} to {stop} of a document of "
                f"{len(records)}: spans lie in the document, are not empty and do not "
                "overlap"
            )
        first = self.num_payloads
        if first + len(spans) > NO_PAYLOAD:
            raise InvalidArgumentError(
                f"a shard has room for {NO_PAYLOAD:,} payloads: begin another"
            )
        numbers = np.full(len(borders) + 1, NO_PAYLOAD, dtype=np.uint32)
        numbers[1::2] = np.arange(first, first + len(spans))
        ends = np.append(lengths, len(records) - borders[-1])
        records[METADATA] = np.repeat(numbers, ends)
        return payloads

    def _bytes_of(self, payload: Any) -> bytes:
        data = self._serialize(payload)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"serialize returned {type(data).__name__}, it must return bytes"
            )
        return bytes(data)


def _triples(spans: Iterable[Span]) -> list[Span]:
    try:
        return [(start, stop, payload) for start, stop, payload in spans]
    except (TypeError, ValueError) as problem:
        raise InvalidArgumentError(
            f"spans={spans!r:.80} must be (start, stop, payload) each: {problem}"
        ) from problem


class StreamOutput(Output):
    """Shards of a stream, each in a folder."""

    signs = (HEADER, TOKENS)
    _shard: StreamWriter | None = None

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        at = 0
        while at + 1 < len(rows.offsets):
            shard = self._open()
            stop = rows.filled(at, self.shard_tokens - shard.num_tokens)
            some = rows.some(at, stop)
            shard.append_many(some.tokens, np.diff(some.offsets))
            at = stop

    def _open(self) -> StreamWriter:
        """Return the open shard, or a new one if it is full."""
        if self._shard is not None and self._shard.num_tokens < self.shard_tokens:
            return self._shard
        if self._shard is not None:
            if len(self.files) == 1:  # A single shard is all there is.
                self.folder.write(f"{UNFINISHED}/shards", b"")
            self._shard.close()
        writer = StreamWriter(f"{self.path}/{len(self.files):05}", dtype=self.dtype)
        self._shard = self.stack.enter_context(writer)
        self.files.append(self._shard.folder)
        return self._shard

    def finish(self) -> None:
        """Complete the last shard. Readers of the folder see all of it from now on."""
        if self._shard is not None:
            self._shard.close()
        self.folder.remove(self.folder.names(UNFINISHED), UNFINISHED)
