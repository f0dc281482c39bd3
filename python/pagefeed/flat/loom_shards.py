"""Shards of GuideLoom, which have neither a header nor a manifest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pagefeed.aligned import AlignedColumnNames
from pagefeed.core.storage import UNFINISHED, PathLike, Paths
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.stream_manifest import (
    MANIFEST,
    PAYLOADS,
    TOKEN,
    TOKENS,
    parse_records,
    shard_base,
)
from pagefeed.flat.stream_shards import StreamDataset, dataset_of, open_folders
from pagefeed.remote import FileWriter, make_folder

DOCUMENT = "document"
"""Name of the number of its document in the records that ``convert`` writes."""


def guideloom(
    paths: Paths,
    *,
    dtype: npt.DTypeLike | None = None,
    document: str | None = None,
    column: str = "input_ids",
    aligned: AlignedColumnNames = (),
    spans: Iterable[str] | None = None,
    cache_dir: PathLike | None = None,
) -> StreamDataset:
    """Return a dataset of the streams, spans or documents of GuideLoom.

    Its files do not say their type, where documents end, and how many shards there
    are. A gap in the numbers of shards is an error; that the last are missing, nothing
    shows. Without ``document`` a shard of a stream is one document, and only
    :class:`Windows` cut it. Documents are read if their bytes are tokens of ``dtype``.

    Args:
        paths: Folders with shards in them or below, or a list, whose order is kept.
        dtype: Type of the records, which must be given: of the tokens, or a structure
            with a field called ``token`` or as ``column``. A structure may be a text,
            ``"token:uint16,document:int32"``. Numbers of payloads are not part of it.
        document: Number of the records that changes where a document begins. All
            records are read once to find it; a cache folder keeps the result.
        column: Name for the column of tokens.
        aligned: Fields of the records that arrive with their tokens, with their
            padding, see :func:`parquet`.
        spans: Name of the spans in tables of metadata, see :func:`stream`.
        cache_dir: Folder for the index, see :func:`parquet`.

    Raises:
        MissingFileError: If there is no shard, or one is missing.
        CorruptFileError: If a file is truncated, or of another ``dtype``.
        ColumnNotFoundError: If records have no such number, or no spans.
        InvalidArgumentError: If an argument is invalid, or :func:`stream` reads them.
        UnsupportedError: If folders hold different kinds of records.

    Example:
        >>> guideloom("corpus/loom", dtype="uint16")  # doctest: +SKIP
    """
    found = open_folders(paths)
    if found.dtype is not None:
        raise InvalidArgumentError(
            f"{found.files[0]} has a {MANIFEST} next to it, with its dtype and its "
            "documents: pagefeed.stream reads it"
        )
    if dtype is None:
        raise InvalidArgumentError(
            f"{found.files[0]} does not say the type of its records: give dtype=, such "
            "as 'int64' or [('token', 'u2'), ('document', 'i4')]"
        )
    record = parse_records(dtype)
    return dataset_of(found, record, document, column, aligned, spans, cache_dir)


class GuideloomOutput(Output):
    """A folder of shards whose records are a token and the number of its document."""

    signs = (TOKENS, PAYLOADS)

    def begin(self) -> None:
        """Open the first shard, which is there even if there are no documents."""
        self.files = [make_folder(self.path)]
        kinds = [(TOKEN, self.dtype.newbyteorder("<")), (DOCUMENT, "<i4")]
        self._record = np.dtype(kinds)
        self._shard = self._documents = 0
        self._open()

    def put(self, rows: TokenRows) -> None:
        """Write documents; those without a token leave no trace."""
        at = 0
        while at + 1 < len(rows.offsets):
            if self._room <= 0:
                if self._shard == 0:  # A single shard is all there is.
                    self.folder.write(f"{UNFINISHED}/shards", b"")
                self._file.commit()
                self._shard += 1
                self._open()
            stop = rows.filled(at, self._room)
            some = rows.some(at, stop)
            counts = np.diff(some.offsets)
            records = np.empty(len(some.tokens), dtype=self._record)
            numbers = self._documents + np.arange(len(counts))
            records[TOKEN] = some.tokens
            records[DOCUMENT] = np.repeat(numbers % (1 << 31), counts)
            self._file.write(records.tobytes())
            self._room -= len(records)
            self._documents += len(counts)
            self.num_left_out += int((counts == 0).sum())
            at = stop

    def _open(self) -> None:
        path = f"{self.path}/{shard_base(self._shard)}{TOKENS}"
        self._file = self.stack.enter_context(FileWriter(path))
        self._room = self.shard_tokens

    def finish(self) -> None:
        """Complete the last shard."""
        self._file.commit()
        self.folder.remove(self.folder.names(UNFINISHED), UNFINISHED)
