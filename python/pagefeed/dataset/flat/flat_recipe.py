"""How the index of flat files is built."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pagefeed import _core
from pagefeed._base import in_order
from pagefeed.dataset.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    unsupported,
)
from pagefeed.errors import DataError
from pagefeed.storage import LocalStorage, Storage

__all__ = ["FlatRecipe"]

VERSION = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class FlatRecipe:
    """All it takes to build the same index again."""

    files: tuple[str, ...]
    column: str
    cache_dir: str | None
    format: FlatFormat

    @property
    def storage(self) -> Storage:
        """This machine: the data plane reads flat files of no other."""
        return LocalStorage()

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums of pages are verified: they have none."""
        return False

    def cache_file(self) -> Path | None:
        """Return where the cache folder has it; None without a folder.

        Versions of the files that say where documents lie are part of the name: these
        are not held against the index later.
        """
        if self.cache_dir is None:
            return None
        storage = self.storage
        sides = [side for file in self.files for side in self.format.sides(file)]
        versions = [storage.version(side) for side in sides]
        parts = [str(VERSION), repr(self.format), self.column, *versions, *self.files]
        key = hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
        return Path(self.cache_dir) / f"{key}.pagefeed-index"

    def build(
        self,
        num_threads: int,  # noqa: ARG002 - one a CPU
        advance: Callable[[int], object],
    ) -> _core.Index:
        """Read what says where documents lie; files of which nothing does, in whole."""
        storage = self.storage

        def read(path: str) -> tuple[FlatFile, bytes]:
            try:
                file = self.format.read(storage, path)
                return file, self._identity(file, self.format.digest(storage, path))
            except DataError as error:
                error.file = error.file or path
                raise

        found = list(in_order(read, self.files, taken=lambda _: advance(1)))
        self._check_same([file.records for file, _ in found])
        records = found[0][0].records
        pages = [file.pages for file, _ in found]
        columns = [np.concatenate(part) for part in zip(*pages, strict=True)]
        return _core.flat_index(
            self.files,
            [identity for _, identity in found],
            [len(each.offset) for each in pages],
            self.column,
            (records.dtype, records.size, records.offset, records.joined),
            columns[:4],
            columns[4:],
        )

    def file_identity(self, storage: Storage, file: int) -> bytes:
        """Return what tells the contents of a file from those of others."""
        return self.format.digest(storage, self.files[file])

    def _identity(self, file: FlatFile, contents: bytes) -> bytes:
        """Return what tells a file, and where its tokens lie, from others.

        The samples of a large file may miss where documents begin, and of the same
        bytes another cut is another dataset.
        """
        how = f"{VERSION} {file.records} {self.column}".encode()
        digest = hashlib.blake2b(how + contents, digest_size=16)
        for numbers in file.pages:
            digest.update(b"%d " % len(numbers) + numbers.tobytes())
        return digest.digest()

    def _check_same(self, records: list[Records]) -> None:
        for path, each in zip(self.files, records, strict=True):
            if each != records[0]:
                raise unsupported(
                    path,
                    f"has tokens as {_text(each)}, and {self.files[0]} as "
                    f"{_text(records[0])}: make a dataset of each kind of files, and "
                    "mix them",
                )


def _text(records: Records) -> str:
    inside = f" in records of {records.size} bytes" * (records.size > 8)
    return f"{records.dtype}{inside}"
