"""One document of a stream, with the fields and spans of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.storage import Storage
from pagefeed.flat.flat_file import corrupt
from pagefeed.flat.payloads import Deserialize, deserializer
from pagefeed.flat.stream_header import (
    INDEX,
    METADATA,
    NO_PAYLOAD,
    PAYLOADS,
    TOKEN,
    TOKENS,
    StreamHeader,
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StreamDocument:
    """A document of a stream, of :meth:`StreamDataset.document`."""

    tokens: npt.NDArray[Any]
    """Tokens in the type of the files: [tokens]."""
    fields: dict[str, npt.NDArray[Any]]
    """Further fields of each token by name: [tokens] each."""
    spans: list[tuple[int, int, Any]]
    """First token, end token and payload of each span, in order."""


def read_document(
    storage: Storage,
    header: StreamHeader,
    first: int,
    num_tokens: int,
    custom: Deserialize | None,
) -> StreamDocument:
    """Read a document: one read of tokens, one of the index, one of payloads.

    Args:
        storage: Storage of the shard.
        header: Header of the shard.
        first: The document's first token, counted through the shard.
        num_tokens: Tokens of the document.
        custom: The caller's function that parses payloads, if there is one.

    Raises:
        CorruptFileError: If a token names a payload that is not there.
    """
    size = header.dtype.itemsize
    begin, end = first * size, (first + num_tokens) * size
    data = storage.read(header.file(TOKENS), begin, end)
    records = np.frombuffer(data, header.dtype)
    if header.dtype.names is None:
        return StreamDocument(tokens=records, fields={}, spans=[])
    names = [name for name in header.dtype.names if name not in (TOKEN, METADATA)]
    return StreamDocument(
        tokens=records[TOKEN],
        fields={name: records[name] for name in names},
        spans=_spans(storage, header, records, custom) if header.has_payloads else [],
    )


def _spans(
    storage: Storage,
    header: StreamHeader,
    records: npt.NDArray[Any],
    custom: Deserialize | None,
) -> list[tuple[int, int, Any]]:
    ids = records[METADATA].astype(np.int64)
    borders = np.flatnonzero(np.diff(ids, prepend=-1, append=-1))
    payload_id = ids[borders[:-1]]
    is_span = payload_id != NO_PAYLOAD
    starts, stops = borders[:-1][is_span], borders[1:][is_span]
    payload_id = payload_id[is_span]
    if not len(payload_id):
        return []
    low, high = int(payload_id.min()), int(payload_id.max())
    if high >= header.num_payloads:
        raise corrupt(
            header.file(TOKENS),
            f"a token names payload {high:,}, the shard has {header.num_payloads:,}",
        )
    ends = _ends(storage, header, low, high)
    path = header.file(PAYLOADS)
    payloads = storage.read(path, int(ends[0]), int(ends[-1]))
    load = deserializer(header.serialization, custom, path)
    spans = []
    for start, stop, entry in zip(
        starts.tolist(), stops.tolist(), (payload_id - low).tolist(), strict=True
    ):
        begin, end = (ends[entry : entry + 2] - ends[0]).tolist()
        spans.append((start, stop, load(payloads[begin:end])))
    return spans


def _ends(storage: Storage, header: StreamHeader, low: int, high: int) -> Int64Array:
    """Return the offsets of the payloads from ``low`` to ``high``, and the end."""
    path = header.file(INDEX)
    ends = storage.numbers(path, "<u8", 8 * low, high + 2 - low).astype(np.int64)
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1] > header.files[PAYLOADS][0]:
        raise corrupt(
            path, "payloads must follow one another in their file, without gaps"
        )
    return ends
