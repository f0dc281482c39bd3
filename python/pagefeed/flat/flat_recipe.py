"""The recipe of the index of flat files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pagefeed import _core
from pagefeed.core._base import in_order, num_processors
from pagefeed.core.dataset import Recipe
from pagefeed.core.storage import Storage
from pagefeed.errors import DataError
from pagefeed.flat.flat_file import FlatFormat, Records, unsupported
from pagefeed.flat.pages import FilePages

VERSION = 2
_MOST_AT_ONCE = 64
"""Files that a thread reads one after the other: small ones take less than a task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlatRecipe(Recipe):
    """Recipe of the index of flat files on this machine."""

    format: FlatFormat

    @property
    def settings(self) -> list[str]:
        """Everything that the index depends on, except the files.

        This includes the versions of files that hold the borders of documents: the
        index does not check them later.
        """
        sides = (side for file in self.files for side in self.format.sides(file))
        versions = self.storage.versions([*dict.fromkeys(sides)])  # Shards share one.
        return [str(VERSION), repr(self.format), self.column, *versions]

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:  # noqa: ARG002
        """Read where documents begin; a file without documents is one."""
        storage, files = self.storage, self.files
        at_once = max(1, min(_MOST_AT_ONCE, len(files) // (4 * num_processors())))

        def read(first: int) -> list[tuple[Records, FilePages, bytes]]:
            paths, found = files[first : first + at_once], []
            try:
                for (records, pages), contents in self.format.read_each(storage, paths):
                    identity = self._identity(records, pages, contents)
                    found.append((records, pages, identity))
            except DataError as error:
                error.file = error.file or paths[len(found)]
                raise
            return found

        parts = in_order(read, range(0, len(files), at_once))
        read_files = []
        for part in parts:
            read_files += part
            advance(len(part))
        records, pages, identities = zip(*read_files, strict=True)
        self._check_same(records)
        columns = [np.concatenate(arrays) for arrays in zip(*pages, strict=True)]
        return _core.flat_index(
            self.files,
            identities,
            [len(file_pages.offset) for file_pages in pages],
            self.column,
            records[0],
            columns[:4],
            columns[4:],
        )

    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return bytes that differ between files with different contents."""
        return self.format.digest(storage, self.files[file])

    def _identity(self, records: Records, pages: FilePages, contents: bytes) -> bytes:
        """Return a digest of a file, and of where its documents begin.

        The places count: the same bytes with other documents are another dataset, and
        samples of a large file may miss the difference.
        """
        how = f"{VERSION} {records} {self.column}".encode()
        digest = hashlib.blake2b(how + contents, digest_size=16)
        for numbers in pages:
            digest.update(b"%d " % len(numbers) + numbers.tobytes())
        return digest.digest()

    def _check_same(self, records: Sequence[Records]) -> None:
        for path, own in zip(self.files, records, strict=True):
            if own != records[0]:
                raise unsupported(
                    path,
                    f"has tokens as {_text(own)}, and {self.files[0]} as "
                    f"{_text(records[0])}: make a dataset of each kind of files, and "
                    "mix them",
                )


def _text(records: Records) -> str:
    inside = f" in records of {records.size} bytes" * (records.size > 8)
    return f"{records.dtype}{inside}"
