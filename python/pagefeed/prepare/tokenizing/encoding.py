"""Encodes batches of records as rows of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.errors import InvalidArgumentError, TokenRangeError
from pagefeed.prepare.texts import Batch, Rejected, arrow, fitting, too_long
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.tokenizer import IGNORED, LABELS, Rows, Tokenizer

__all__ = ["Encoded", "encode", "num_lists_of", "schema_of"]

Ints = npt.NDArray[Any]


class Encoded(NamedTuple):
    """The result of encoding a batch."""

    others: Any
    """Further columns of the rows: a ``pyarrow.Table``."""
    num_rows: int
    num_tokens: int
    num_learned: int
    """Rows with at least one labelled token; 0 without labels."""
    rejected: list[Rejected]


def schema_of(job: Job) -> Any:
    """Return the columns of shards, with the record of the tokenizer."""
    pa = arrow()
    fields = [pa.field(job.layout.column, _lists(_token_type(job)), nullable=False)]
    if job.has_labels:
        fields.append(pa.field(LABELS, _lists(pa.int32()), nullable=False))
    fields += [pa.field(name, job.wanted.kept[name]) for name in job.written]
    return pa.schema(fields, metadata=job.record())


def num_lists_of(job: Job) -> int:
    """Return the number of list columns, which are the first ones of the schema."""
    return 1 + job.has_labels


def _token_type(job: Job) -> Any:
    pa = arrow()
    return pa.uint16() if job.tokenizer.vocab_size <= 1 << 16 else pa.uint32()


def _lists(kind: Any) -> Any:
    return arrow().list_(arrow().field("element", kind, nullable=False))


def encode(
    job: Job, batch: Batch, file: str, num_threads: int, lists: _core.ListFile
) -> Encoded:
    """Tokenize a batch; records that cannot be tokenized are rejected.

    Args:
        job: The job.
        batch: Records.
        file: File of the records.
        num_threads: Most threads that encode.
        lists: Takes tokens and labels.

    Raises:
        TokenRangeError: If the tokenizer gives an id above its vocabulary.
    """
    rejected = list(batch.rejected)
    kept = []
    for name in job.wanted.kept:
        column = batch.table.column(name)
        values, unfit = fitting(column, name, job.wanted, file, batch.place)
        kept.append(values)
        rejected += unfit
    source = batch.table.column(0)
    reject = _Rejecting(file, batch.place, rejected)
    columns = dict(zip(job.wanted.kept, kept, strict=True))
    if job.rows is None:
        rows, num_tokens = _texts(job, source, reject, num_threads, lists)
        num_learned = 0
    else:
        given = [source, *(columns[name] for name in job.rows.columns[1:])]
        rows, num_tokens, num_learned = _rows(job, job.rows, given, reject, lists)
    written = {name: columns[name] for name in job.written}
    if len(rows) < len(source):
        written = {name: column.take(rows) for name, column in written.items()}
    others = arrow().table(written)
    return Encoded(others, len(rows), num_tokens, num_learned, rejected)


class _Rejecting(NamedTuple):
    """Rejects rows of a batch."""

    file: str
    place: Callable[[int], str]
    rejected: list[Rejected]

    def __call__(self, row: int, error: str, record: bytes | None) -> None:
        found = Rejected(self.file, self.place(row), error, record)
        self.rejected.append(found)

    def among(self, rows: Ints) -> _Rejecting:
        """Return the same for a subset of the rows."""
        return self._replace(place=lambda row: self.place(int(rows[row])))


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(
        errors="surrogatepass"
    )


def _texts(
    job: Job, source: Any, reject: _Rejecting, num_threads: int, lists: _core.ListFile
) -> tuple[Ints, int]:
    """Encode texts; return the rows that were encoded, and their number of tokens."""
    pa = arrow()
    if pa.types.is_dictionary(source.type):
        source = source.cast(source.type.value_type)
    texts = _as_one(source.cast(pa.large_binary()))
    borders = np.frombuffer(
        texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset
    )
    most = job.wanted.record_bytes
    long = np.flatnonzero(np.diff(borders) > most)
    if len(long):
        for row in long.tolist():
            reject(row, too_long(most), None)
        sound = np.setdiff1d(np.arange(len(texts)), long)
        found, num_tokens = _texts(
            job, texts.take(sound), reject.among(sound), num_threads, lists
        )
        return sound[found], num_tokens
    data = texts.buffers()[2]
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    num_tokens, largest, wrong = lists.encode(
        job.tokenizer.handle, content, borders, num_threads
    )
    rows = np.arange(len(texts))
    if wrong:
        for row in wrong:
            reject(row, "it is not UTF-8", texts[row].as_py())
        rows = np.setdiff1d(rows, wrong)
    if num_tokens:
        _check_id(job.tokenizer, largest)
    return rows, num_tokens


def _as_one(texts: Any) -> Any:
    """Return a column as one array with empty texts for nulls."""
    if texts.null_count:
        texts = arrow("pyarrow.compute").fill_null(texts, b"")
    if isinstance(texts, arrow().ChunkedArray):
        # ``combine_chunks`` would copy a single chunk.
        texts = texts.chunk(0) if texts.num_chunks == 1 else texts.combine_chunks()
    return texts


def _check_id(tokenizer: Tokenizer, largest: int) -> None:
    if largest >= tokenizer.vocab_size:
        raise TokenRangeError(
            f"{tokenizer.name} gives id {largest}, and says that it has "
            f"{tokenizer.vocab_size}: give the right vocab_size"
        )


def _object(value: Any, name: str, job: Job) -> Any:
    """Return a value; parse it if the column holds objects and it is JSON."""
    if name in job.wanted.objects and isinstance(value, str | bytes):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _rows(
    job: Job,
    encoder: Rows,
    columns: Sequence[Any],
    reject: _Rejecting,
    lists: _core.ListFile,
) -> tuple[Ints, int, int]:
    """Encode chats, or texts of several columns, in Python with the GIL.

    Returns the rows that were encoded, their tokens, and the rows with a label.
    """
    rows, ids, labels = [], [np.zeros(0, np.uint32)], [np.zeros(0, np.int32)]
    num_learned = 0
    for row, values in enumerate(zip(*columns, strict=True)):
        record: bytes | None = None
        try:
            given = [value.as_py() for value in values]
            record = _as_bytes(given[0])
            both = zip(encoder.columns, given, strict=True)
            named = {name: _object(value, name, job) for name, value in both}
            tokens, targets = encoder.encode(named)
        except (InvalidArgumentError, UnicodeError, ValueError) as problem:
            reject(row, str(problem), record)
            continue
        rows.append(row)
        ids.append(tokens)
        labels.append(targets)
        num_learned += bool((targets != IGNORED).any())
    counts = np.array([len(one) for one in ids[1:]], np.uint32)
    tokens = np.concatenate(ids)
    if len(tokens):
        _check_id(job.tokenizer, int(tokens.max()))
    lists.append(0, tokens, counts)
    if job.has_labels:
        lists.append(1, np.concatenate(labels).view(np.uint32), counts)
    return np.array(rows, np.int64), len(tokens), num_learned
