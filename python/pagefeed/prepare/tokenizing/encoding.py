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
from pagefeed.prepare.parquet_sinks import ListSink
from pagefeed.prepare.texts import Batch, Rejected, arrow, fitting, too_long
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.tokenizer import IGNORED, LABELS, Rows, Tokenizer

Numbers = npt.NDArray[Any]
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


def sink_of(job: Job, name: str) -> ListSink:
    """Return a file of a shard, with the record of the tokenizer."""
    is_narrow = job.tokenizer.vocab_size <= 1 << 16
    lists = {job.column: "uint16" if is_narrow else "uint32"}
    record = json.dumps(job.tokenizer.record, sort_keys=True)
    return ListSink(
        job.folder.writer(name),
        lists | ({LABELS: "int32"} if job.has_labels else {}),
        arrow().schema([(name, job.wanted.kept[name]) for name in job.written]),
        compression=job.compression,
        page_bytes=job.page_bytes,
        metadata={"pagefeed.tokenizer": record},
        num_ids=job.tokenizer.vocab_size,
    )


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

    source, num_learned = batch.table.column(0), 0
    left_out: dict[str, int] = {}
    kept: Any = slice(None)
    if job.rows is None and job.num_tokens == (None, None):
        num_tokens = _texts(job, source, reject, num_threads, lists)
    else:
        if job.rows is None:
            made = _short_texts(job, source, reject, num_threads)
        else:
            given = [source, *(columns[name] for name in job.rows.columns[1:])]
            made = _rows(job, job.rows, given, reject)
        counts = made[0]
        is_left_out = _outside(counts, *job.num_tokens)
        left_out = {why: int(n.sum()) for why, n in is_left_out.items() if n.any()}
        if left_out:
            kept = ~np.logical_or.reduce([*is_left_out.values()])
            of_tokens = np.repeat(kept, counts)
            made = [counts[kept], *(numbers[of_tokens] for numbers in made[1:])]
        num_tokens, num_learned = _written(job, lists, *made)
    written = {name: columns[name] for name in job.written}
    rows = np.setdiff1d(np.arange(len(source)), unread)[kept]
    if len(rows) < len(source):
        written = {name: column.take(rows) for name, column in written.items()}
    others = arrow().table(written)
    return Encoded(others, len(rows), num_tokens, num_learned, rejected, left_out)


def _outside(
    counts: Numbers, least: int | None, most: int | None
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which rows have too few or too many tokens, by reason."""
    return {
        f"fewer than {least} tokens": counts < (least or 0),
        f"more than {most} tokens": counts > (math.inf if most is None else most),
    }


def _texts(
    job: Job,
    source: Any,
    reject: Reject,
    num_threads: int,
    lists: _core.ListFile,
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


def _short_texts(
    job: Job, source: Any, reject: Reject, num_threads: int
) -> list[Numbers]:
    """Encode texts; return the number of tokens of each, and the tokens."""
    given = []
    for row, value in enumerate(source.to_pylist()):
        data = value.encode() if isinstance(value, str) else bytes(value or b"")
        try:
            if len(data) > job.wanted.record_bytes:
                reject(row, too_long(job.wanted.record_bytes))
            else:
                given.append(data.decode())
        except UnicodeDecodeError:
            reject(row, "it is not UTF-8")
    made = job.tokenizer.handle.encode_batch(given, num_threads)
    ids, counts = (np.frombuffer(data, np.uint32) for data in made)
    return [counts, ids]


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
    job: Job, encoder: Rows, columns: Sequence[Any], reject: Reject
) -> list[Numbers]:
    """Encode chats, or texts of several columns, in Python with the GIL.

    Returns the number of tokens of each row, the tokens, and labels if there are any.
    """

    def values(row: Sequence[Any]) -> dict[str, Any]:
        named = zip(encoder.columns, row, strict=True)
        return {name: _object(value.as_py(), name, job) for name, value in named}

    def refuse(row: int, problem: ValueError) -> None:
        reject(row, str(problem))

    encoded = encoder.encode_each(zip(*columns, strict=True), values, refuse)
    made = [encoded.counts, encoded.ids]
    return [*made, encoded.labels] if job.has_labels else made


def _written(
    job: Job,
    lists: _core.ListFile,
    counts: Numbers,
    ids: Numbers,
    labels: Numbers | None = None,
) -> tuple[int, int]:
    """Write tokens and labels; return their numbers: tokens, and rows with a label."""
    if len(ids):
        _check_id(job.tokenizer, int(ids.max()))
    lists.append(0, ids, counts)
    if labels is None:
        return len(ids), 0
    lists.append(1, labels.view(np.uint32), counts)
    row_of_token = np.repeat(np.arange(len(counts)), counts)
    return len(ids), len(distinct(row_of_token[labels != IGNORED]))
