"""Files of JSON lines: a document a line, read by its offset."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagefeed.caches import ArrayFolder, ArrayWriter, are_sums, stored_arrays
from pagefeed.core._base import Int64Array, Work, lazy, logger
from pagefeed.core.storage import Storage
from pagefeed.errors import UnsupportedError
from pagefeed.parsing import json_value

SUFFIXES = (".jsonl", ".ndjson", ".json")
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
_LINE_END, _RETURN = b"\n\r"
_VERSION = 1


class LineDocuments:
    """Documents of files of JSON lines, by number; empty lines do not count.

    Where lines begin is found once, by reading the files, and kept in a cache folder.

    Args:
        storage: Storage of the files.
        files: The files, in order.
        folder: Folder to keep the offsets in; None keeps them in memory.

    Raises:
        UnsupportedError: If a file is compressed; the message says what converts it.
    """

    def __init__(
        self, storage: Storage, files: Sequence[str], folder: str | None
    ) -> None:
        for file in files:
            if file.endswith(_COMPRESSED):
                raise UnsupportedError(
                    f"{file} is compressed, so that no line of it can be read alone: "
                    f"make Parquet of it, pagefeed tokenize {file} --tokenizer "
                    "tokenizer.json --output FOLDER, or unpack it"
                ).at(file=file)
        self._storage, self.files, self._folder = storage, tuple(files), folder

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the offsets."""
        return LineDocuments, (self._storage, self.files, self._folder)

    @lazy
    def _lines(self) -> ArrayFolder:
        versions = self._storage.versions(self.files)
        text = "\0".join([str(_VERSION), *self.files, *versions])
        key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        name, is_sound = f"lines-{key}", self._is_sound
        return stored_arrays(self._folder, name, key, self._find, is_sound)

    def _is_sound(self, stored: ArrayFolder) -> bool:
        begin, end, num_rows = (stored[n] for n in ("begin", "end", "num_rows"))
        rows, files = len(begin), len(self.files)
        if stored.sizes != {"begin": rows, "end": rows, "num_rows": files}:
            return False
        first = np.append(0, np.cumsum(num_rows))
        are_all = are_sums(first, rows) and bool(first[-1] == rows)
        return are_all and bool(((begin >= 0) & (begin <= end)).all())

    def _find(self, writer: ArrayWriter) -> None:
        sizes = [self._storage.size(file) for file in self.files]
        logger.info("lines of %d files are found, once", len(self.files))
        with Work("offsets of lines", total=sum(sizes), unit="bytes") as work:
            for file, size in zip(self.files, sizes, strict=True):
                begins, ends, num_rows, begin, at = [], [], 0, 0, 0
                for part in self._storage.parts(file):
                    data = np.frombuffer(part, np.uint8)
                    found = at + np.flatnonzero(data == _LINE_END)
                    at += len(part)
                    if at == size and begin < size and part[-1] != _LINE_END:
                        found = np.append(found, size)  # The last line has no end.
                    starts = np.append(begin, found + 1)
                    begin = int(starts[-1])
                    lengths = found - starts[:-1]
                    first = data[np.clip(starts[:-1] - (at - len(part)), 0, None)]
                    is_empty = (lengths == 0) | (lengths == 1) & (first == _RETURN)
                    begins.append(starts[:-1][~is_empty])
                    ends.append(found[~is_empty])
                    num_rows += len(begins[-1])
                    work.advance(len(part))
                writer.append("begin", np.concatenate([np.empty(0, np.int64), *begins]))
                writer.append("end", np.concatenate([np.empty(0, np.int64), *ends]))
                writer.append("num_rows", np.array([num_rows]))

    @property
    def file_rows(self) -> Int64Array:
        """Number of documents of each file: int64 [files]."""
        return self._lines["num_rows"]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._lines["begin"])

    def __getitem__(self, row: int) -> Any:
        """Return a document, parsed.

        Raises:
            CorruptFileError: If the line is not JSON; it names the byte.
        """
        file = int(np.searchsorted(np.cumsum(self.file_rows), row, side="right"))
        begin, end = int(self._lines["begin"][row]), int(self._lines["end"][row])
        path = self.files[file]
        data = self._storage.read(path, begin, end)
        return json_value(data, path, f"the line at byte {begin:,} is not JSON")
