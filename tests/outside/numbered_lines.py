"""A source of a made-up format: a header line, then one uint16 a token.

The header names the tokens of every document: ``tokens 3 1 4``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagefeed.core.storage import Storage
from pagefeed.flat import (
    FlatDataset,
    FlatFile,
    FlatFormat,
    Records,
    corrupt,
    document_pages,
)

MAGIC = b"tokens"


@dataclass(frozen=True, slots=True)
class HeaderLine(FlatFormat):
    """Where tokens and documents are in such a file."""

    def read(self, storage: Storage, path: str) -> FlatFile:
        size = storage.size(path)
        head, newline, _ = storage.read(path, 0, min(size, 1 << 20)).partition(b"\n")
        magic, *lengths = head.split()
        if magic != MAGIC or not newline:
            raise corrupt(path, "begins with no line of lengths")
        found = np.array(lengths, dtype=np.int64)
        begin = len(head) + 1
        if begin + 2 * found.sum() != size:
            raise corrupt(path, f"{size} bytes are not those of {found.sum()} tokens")
        pages = document_pages(begin, iter([found]), 2)
        return Records("uint16", 2), pages


def header_lines(files: Sequence[Path]) -> FlatDataset:
    """Name a dataset of such files."""
    return FlatDataset(
        files=tuple(map(str, files)), format=HeaderLine(), column="tokens"
    )


def write(path: Path, documents: Sequence[Sequence[int]]) -> None:
    """Write documents as such a file."""
    head = b" ".join([MAGIC, *(b"%d" % len(each) for each in documents)])
    tokens = np.array([token for each in documents for token in each], dtype="<u2")
    path.write_bytes(head + b"\n" + tokens.tobytes())
