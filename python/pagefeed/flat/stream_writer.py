"""Writing shards of a token stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pagefeed.caches import WholeWriter
from pagefeed.core._base import Facts, Int64Array, check_whole, text_of
from pagefeed.core.storage import UNFINISHED, PathLike, names_in
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat.flat_file import check_fitting
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.stream_manifest import (
    DOCUMENTS,
    INDEX,
    MANIFEST,
    PAYLOADS,
    SUFFIXES,
    TOKEN,
    TOKENS,
    shard_base,
    stored_dtype,
    without_payloads,
    write_manifest,
    written_records,
)
from pagefeed.remote import FileWriter, make_folder, output_folder

Span = tuple[int, int, Any]
"""First token, end, payload."""
_MOST_SHARDS, _MOST_PAYLOADS = 10**7, 1 << 31


class StreamWriter(WholeWriter):
    """Writes one shard of a token stream, in files that GuideLoom reads as well.

    Several processes can write to one folder at the same time, each another shard.
    A shard appears when its writer is closed, whole or not at all. The writer that is
    closed last writes the manifest of all, with which the folder is a stream.

    Args:
        folder: The folder. It is created if it does not exist.
        dtype: Type of the tokens (``"uint16"``); or a structure with a field ``token``
            and any further numbers per token: one, several (``("emb", "f4", (4,))``,
            which arrives as [batch, length, 4]), or a structure, whose fields are
            called ``"name.inner"``. A field ``metadata`` stands for numbers
            of payloads, which are written anyway.
        shard: Number of the shard, from 0 on.
        num_shards: Shards that the folder will have.
        serialize: How payloads of spans become bytes: ``"bytes"`` as they are, or a
            callable of your own. By default there are no spans, or bytes if ``dtype``
            has a field ``metadata``.

    Raises:
        InvalidArgumentError: If an argument is invalid, or the folder has this shard
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
        shard: int = 0,
        num_shards: int = 1,
        serialize: Callable[[Any], bytes] | Literal["bytes"] | None = None,
    ) -> None:
        dtype, has_payloads = without_payloads(dtype)
        if has_payloads and serialize is None:
            serialize = "bytes"
        self.dtype = written_records(dtype)
        if not (serialize is None or serialize == "bytes" or callable(serialize)):
            raise InvalidArgumentError(
                f"serialize={serialize!r} is unknown: give 'bytes', or a callable that "
                "returns bytes, such as msgpack.packb or numpy.ndarray.tobytes"
            )
        self._serialize = serialize
        self.num_shards = check_whole(
            num_shards, "num_shards", least=1, most=_MOST_SHARDS
        )
        self.shard = check_whole(shard, "shard", least=0, most=num_shards - 1)
        out = output_folder(folder, None, "folder", buckets=False)
        self.folder = make_folder(out.path)
        """The folder of the shard."""
        base = shard_base(self.shard)
        if {base + TOKENS, MANIFEST} & {*names_in(self.folder)}:
            raise InvalidArgumentError(
                f"{self.folder} has a stream, or shard {shard} of one: give another "
                "folder or shard=, or remove it"
            )
        self.num_tokens = 0
        """Tokens written so far."""
        self.num_documents = 0
        """Documents written so far."""
        self.num_payloads = 0
        """Payloads written so far, with those of no bytes."""
        self._is_open = True
        self._fields = {*(self.dtype.names or (TOKEN,))}
        suffixes = SUFFIXES[:2] if serialize is None else SUFFIXES
        self._files = {s: FileWriter(f"{self.folder}/{base}{s}") for s in suffixes}
        for suffix in {DOCUMENTS, INDEX} & {*suffixes}:
            self._files[suffix].write(bytes(8))

    def append(
        self,
        tokens: npt.ArrayLike,
        *,
        spans: Iterable[Span] = (),
        **fields: npt.ArrayLike,
    ) -> None:
        """Write a document.

        Args:
            tokens: Its tokens; or records of ``dtype``.
            spans: Its spans, which do not overlap: ``(start, stop, payload)`` each, in
                tokens of the document.
            **fields: The further values of ``dtype``, by name: one for each token.

        Raises:
            InvalidArgumentError: If fields or spans do not fit the tokens.
            TokenRangeError: If a number does not fit its type.
            FileAccessError: If the shard cannot be written.
        """
        self._check_open()
        records = self._records(np.asarray(tokens), fields)
        self._write(records, np.array([len(records)]), _triples(spans))

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
        self._write(self._records(np.asarray(tokens), {}), counts, [])

    def _write(
        self, records: npt.NDArray[Any], counts: Int64Array, spans: list[Span]
    ) -> None:
        """Write documents, given the number of records in each; or one with spans."""
        if self._serialize is not None:
            records = self._with_payloads(records, spans)
        elif spans:
            raise InvalidArgumentError(
                "spans need payloads: give StreamWriter serialize='bytes', or a "
                "callable that returns bytes"
            )
        ends = self.num_tokens + np.cumsum(counts)
        self._files[TOKENS].write(records.tobytes())
        self._files[DOCUMENTS].write(ends.astype("<i8").tobytes())
        self.num_tokens += len(records)
        self.num_documents += len(counts)

    def close(self) -> None:
        """Finish the shard; and the stream, if all shards are finished."""
        if not self._is_open:
            return
        self._is_open = False
        for file in reversed(self._files.values()):  # The file of tokens last.
            file.commit()
        names, shards = {*names_in(self.folder)}, range(self.num_shards)
        if all(shard_base(shard) + TOKENS in names for shard in shards):
            self.finish(self.num_shards)

    def finish(self, num_shards: int) -> None:
        """Write the manifest of all shards of the folder."""
        write_manifest(self.folder, self.dtype, tuple(self._files), num_shards)

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
        self, tokens: npt.NDArray[Any], fields: Mapping[str, npt.ArrayLike]
    ) -> npt.NDArray[Any]:
        """Return the records of a document."""
        given = {name or TOKEN: column for name, column in _plain(tokens)}
        for name, values in fields.items():
            given |= dict(_plain(np.asarray(values), name))
        if {*given} != self._fields or given[TOKEN].ndim != 1:
            raise InvalidArgumentError(
                f"a document has {sorted(given)}, tokens of shape {tokens.shape}: give "
                f"the numbers of each token for {sorted(self._fields)}, in a row"
            )
        records = np.empty(len(given[TOKEN]), dtype=self.dtype)
        for name, column in given.items():
            target = records if self.dtype.names is None else records[name]
            if column.shape != target.shape:
                raise InvalidArgumentError(
                    f"{name!r} has the shape {column.shape}, and {target.shape} is "
                    f"expected: {len(records)} tokens with a value of {self.dtype} each"
                )
            target[...] = check_fitting(column, target.dtype, name)
        return records

    def _with_payloads(
        self, records: npt.NDArray[Any], spans: list[Span]
    ) -> npt.NDArray[Any]:
        """Write payloads of spans, and empty ones between; return records with both."""
        spans.sort(key=lambda span: span[:2])
        payloads = [self._bytes_of(payload) for *_, payload in spans]
        ends = np.array([span[:2] for span in spans], dtype=None if spans else np.int64)
        if ends.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"spans begin and end at {ends.reshape(-1).tolist()[:2]}: give whole "
                "numbers, in tokens of the document"
            )
        # Start and end in turn: each after the one before, or at it.
        borders: Int64Array = ends.reshape(-1).astype(np.int64)
        lengths: Int64Array = np.diff(borders, prepend=0)
        lengths = np.append(lengths, len(records) - lengths.sum())
        is_span = np.arange(len(lengths)) % 2 == 1
        wrong = np.flatnonzero((lengths < 0) | ((lengths == 0) & is_span))
        if len(wrong):
            start, stop, _ = spans[min(wrong[0] // 2, len(spans) - 1)]
            raise InvalidArgumentError(
                f"a span from token {start} to {stop} of a document of "
                f"{len(records)}: spans lie in the document, are not empty and do not "
                "overlap"
            )
        sizes = np.zeros(len(lengths), dtype=np.int64)
        sizes[is_span] = np.fromiter(map(len, payloads), np.int64, len(payloads))
        sizes, lengths = sizes[lengths > 0], lengths[lengths > 0]
        numbers = self.num_payloads + np.arange(len(lengths))
        if len(numbers) and numbers[-1] >= _MOST_PAYLOADS:
            raise InvalidArgumentError(
                f"a shard has room for {_MOST_PAYLOADS:,} payloads: begin another"
            )
        starts = self._files[PAYLOADS].size + np.cumsum(sizes)
        self._files[PAYLOADS].write(b"".join(payloads))
        self._files[INDEX].write(starts.astype("<i8").tobytes())
        self.num_payloads += len(numbers)
        stored = np.empty(len(records), dtype=stored_dtype(self.dtype, has_spans=True))
        stored["index"], stored["user"] = np.repeat(numbers, lengths), records
        return stored

    def _bytes_of(self, payload: Any) -> bytes:
        data = payload if self._serialize == "bytes" else self._serialize(payload)  # type: ignore[misc]
        if not isinstance(data, bytes | bytearray | memoryview) or not len(data):
            raise InvalidArgumentError(
                f"the payload of a span is {type(data).__name__} {data!r:.40}: it must "
                "be bytes, at least one; serialize= makes bytes of other objects"
            )
        return bytes(data)


def _plain(
    values: npt.NDArray[Any], name: str = ""
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the columns of records by name, those of inner records too."""
    if values.dtype.names is None:
        yield name, values
    for inner in values.dtype.names or ():
        yield from _plain(values[inner], f"{name}.{inner}" if name else inner)


def _triples(spans: Iterable[Span]) -> list[Span]:
    try:
        return [(start, stop, payload) for start, stop, payload in spans]
    except (TypeError, ValueError) as problem:
        raise InvalidArgumentError(
            f"spans={spans!r:.80} must be (start, stop, payload) each: {problem}"
        ) from problem


class StreamOutput(Output):
    """A folder of shards of a stream."""

    signs = (MANIFEST,)

    def begin(self) -> None:
        """Open the first shard, which is there even if there are no documents."""
        self.files = [self.path]
        self._open(0)

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        at = 0
        while at + 1 < len(rows.offsets):
            if self._shard.num_tokens >= self.shard_tokens:
                if self._shard.shard == 0:  # A single shard is all there is.
                    self.folder.write(f"{UNFINISHED}/shards", b"")
                self._shard.close()
                self._open(self._shard.shard + 1)
            stop = rows.filled(at, self.shard_tokens - self._shard.num_tokens)
            some = rows.some(at, stop)
            self._shard.append_many(some.tokens, np.diff(some.offsets))
            at = stop

    def _open(self, number: int) -> None:
        writer = StreamWriter(
            self.path, dtype=self.dtype, shard=number, num_shards=_MOST_SHARDS
        )
        self._shard = self.stack.enter_context(writer)

    def finish(self) -> None:
        """Complete the last shard. Readers of the folder see all of it from now on."""
        self._shard.close()
        self._shard.finish(self._shard.shard + 1)
        self.folder.remove(self.folder.names(UNFINISHED), UNFINISHED)
