"""Encodes batches of records as rows of tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, distinct
from pagefeed.errors import TokenRangeError
from pagefeed.prepare.texts import Batch, Rejected, arrow, fitting, too_long
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.tokenizer import IGNORED, LABELS, Rows, Tokenizer

Reject = Callable[[int, str], None]
"""Rejects a row of a batch: its number, and why."""


class Encoded(NamedTuple):
    """The result of encoding a batch."""

    others: Any
    """Further columns of the rows: a ``pyarrow.Table``."""
    num_rows: int
    num_tokens: int
    num_learned: int
    """Rows with at least one labelled token; 0 without labels."""
    rejected: list[Rejected]
    left_out: dict[str, int]
    """Rows with too few or too many tokens, by reason."""


def shard_schema(job: Job) -> Any:
    """Return the columns of shards, with the record of the tokenizer."""
    pa = arrow()
    fields = [pa.field(job.column, _lists(_token_type(job)), nullable=False)]
    if job.has_labels:
        fields.append(pa.field(LABELS, _lists(pa.int32()), nullable=False))
    fields += [pa.field(name, job.wanted.kept[name]) for name in job.written]
    record = json.dumps(job.tokenizer.record, sort_keys=True)
    return pa.schema(fields, metadata={"pagefeed.tokenizer": record})


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
    columns = {}
    for name in job.wanted.kept:
        column = batch.table.column(name)
        columns[name], unfit = fitting(
            column, name, job.wanted, file, batch.position_of
        )
        rejected += unfit
    unread: list[int] = []

    def reject(row: int, error: str) -> None:
        rejected.append(Rejected(file, batch.position_of(row), error))
        unread.append(row)

    source = batch.table.column(0)
    chosen = _Chosen(job.num_tokens)
    if job.rows is None:
        num_tokens = _texts(job, source, reject, num_threads, lists, chosen)
        num_learned = 0
    else:
        given = [source, *(columns[name] for name in job.rows.columns[1:])]
        num_tokens, num_learned = _rows(job, job.rows, given, reject, lists, chosen)
    written = {name: columns[name] for name in job.written}
    rows = np.setdiff1d(np.arange(len(source)), unread)
    if chosen.rows is not None:
        rows = rows[chosen.rows]
    if len(rows) < len(source):
        written = {name: column.take(rows) for name, column in written.items()}
    others = arrow().table(written)
    left_out = chosen.left_out
    return Encoded(others, len(rows), num_tokens, num_learned, rejected, left_out)


class _Chosen:
    """Rows with a number of tokens within bounds.

    Args:
        bounds: Least and most tokens; None for no bound.
    """

    def __init__(self, bounds: tuple[int | None, int | None]) -> None:
        self.least, self.most = bounds
        self.left_out: dict[str, int] = {}
        """Rows that are left out, by reason."""
        self.rows: npt.NDArray[np.bool_] | None = None
        """Which rows are taken, of those that could be read; None for all."""

    def __bool__(self) -> bool:
        """Whether there is a bound."""
        return (self.least, self.most) != (None, None)

    def take(
        self, counts: npt.NDArray[Any], *numbers: npt.NDArray[Any]
    ) -> list[npt.NDArray[Any]]:
        """Return tokens of rows, and numbers beside them, of the rows within bounds.

        Args:
            counts: Tokens of each row.
            *numbers: Numbers for each token.
        """
        if not self:
            return [counts, *numbers]
        is_short = counts < (self.least or 0)
        is_long = counts > (math.inf if self.most is None else self.most)
        self.rows = ~(is_short | is_long)
        reasons = {
            f"fewer than {self.least} tokens": is_short,
            f"more than {self.most} tokens": is_long,
        }
        self.left_out = {name: int(n.sum()) for name, n in reasons.items() if n.any()}
        of_tokens = np.repeat(self.rows, counts)
        return [counts[self.rows], *(own[of_tokens] for own in numbers)]


def _texts(
    job: Job,
    source: Any,
    reject: Reject,
    num_threads: int,
    lists: _core.ListFile,
    chosen: _Chosen,
) -> int:
    """Encode texts; return the number of tokens."""
    pa = arrow()
    if pa.types.is_dictionary(source.type):
        source = source.cast(source.type.value_type)
    texts = _as_one(source.cast(pa.large_binary()))
    rows, borders, most = (
        np.arange(len(texts)),
        _borders(texts),
        job.wanted.record_bytes,
    )
    is_long = np.diff(borders) > most
    if is_long.any():
        for row in np.flatnonzero(is_long).tolist():
            reject(row, too_long(most))
        rows = rows[~is_long]
        texts = texts.take(rows)
        borders = _borders(texts)
    if chosen:
        given = []
        for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
            try:
                given.append(text.decode())
            except UnicodeDecodeError:
                reject(row, "it is not UTF-8")
        ids, counts = map(
            _numbers, job.tokenizer.handle.encode_batch(given, num_threads)
        )
        return _added(job, lists, *chosen.take(counts, ids))
    data = texts.buffers()[2]
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    num_tokens, largest, wrong = lists.encode(
        job.tokenizer.handle, content, borders, num_threads
    )
    for row in wrong:
        reject(int(rows[row]), "it is not UTF-8")
    if num_tokens:
        _check_id(job.tokenizer, largest)
    return num_tokens


def _as_one(texts: Any) -> Any:
    """Return a column as one array with empty texts for nulls."""
    if texts.null_count:
        texts = arrow("pyarrow.compute").fill_null(texts, b"")
    if isinstance(texts, arrow().ChunkedArray):
        # ``combine_chunks`` would copy a single chunk.
        texts = texts.chunk(0) if texts.num_chunks == 1 else texts.combine_chunks()
    return texts


def _borders(texts: Any) -> Int64Array:
    """Return where texts begin and end in their bytes: int64 [texts + 1]."""
    return np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)


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
    reject: Reject,
    lists: _core.ListFile,
    chosen: _Chosen,
) -> tuple[int, int]:
    """Encode chats, or texts of several columns, in Python with the GIL.

    Returns the number of tokens, and of rows with a label.
    """

    def values(row: Sequence[Any]) -> dict[str, Any]:
        named = zip(encoder.columns, row, strict=True)
        return {name: _object(value.as_py(), name, job) for name, value in named}

    def refuse(row: int, problem: ValueError) -> None:
        reject(row, str(problem))

    encoded = encoder.encode_each(zip(*columns, strict=True), values, refuse)
    if not job.has_labels:
        return _added(job, lists, *chosen.take(encoded.counts, encoded.ids)), 0
    counts, ids, labels = chosen.take(encoded.counts, encoded.ids, encoded.labels)
    num_tokens = _added(job, lists, counts, ids)
    lists.append(1, labels.view(np.uint32), counts)
    row_of_token = np.repeat(np.arange(len(counts)), counts)
    return num_tokens, len(distinct(row_of_token[labels != IGNORED]))


def _added(
    job: Job, lists: _core.ListFile, counts: npt.NDArray[Any], ids: npt.NDArray[Any]
) -> int:
    """Write the tokens of rows, and return their number."""
    if len(ids):
        _check_id(job.tokenizer, int(ids.max()))
    lists.append(0, ids, counts)
    return len(ids)


def _numbers(data: Any) -> npt.NDArray[np.uint32]:
    return np.frombuffer(data, np.uint32)
