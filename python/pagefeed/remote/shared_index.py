"""An index that all nodes share: one file for a column, read without a listing.

The file has a head, padded to a fixed size, with what the index is of, and then the
index as a cache folder has it. A reader gets both by two requests, or the head alone if
this machine has the index. A writer replaces the file by one conditional write.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from pagefeed import _core
from pagefeed.caches import kept_index
from pagefeed.core._base import lazy, logger
from pagefeed.core.storage import Paths, Storage
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    StaleFileError,
    shown_path,
)
from pagefeed.parsing import parsing
from pagefeed.remote.outputs import OutputFolder
from pagefeed.remote.paths import is_meant, roots_of

_FORMAT = "pagefeed shared index"
_VERSION = 3
_KINDS = {"True": "pages", "False": "headers", "row_group": "row_groups"}
_HEAD_BYTES = 16 << 10
_READ_BYTES = 64 << 20
_MOST = 1 << 62
_AGAIN = "write it again with `pagefeed index --output ... --force`"


def index_name(column: str, page_index: object) -> str:
    """Return the name of the file with the index of a column.

    Example:
        >>> index_name("doc.tokens", True)
        'doc.tokens.pages.index'
    """
    return f"{quote(column, safe='')}.{_KINDS[str(page_index)]}.index"


def _expect(is_so: object, problem: str) -> None:
    if not is_so:
        raise ValueError(problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The files and column that an index describes, and how they were read."""

    paths: tuple[str, ...]
    """Paths of the dataset, as the user named them."""
    column: str
    page_index: str
    written: str
    """When, in UTC."""
    num_files: int
    num_rows: int
    num_values: int
    fingerprint: str
    """Fingerprint of the index."""
    digest: str = ""
    """Digest of the bytes after the head."""
    num_bytes: int = 0
    """Number of these bytes."""

    @property
    def shown(self) -> str:
        """Paths of the dataset, for messages."""
        return ", ".join(self.paths) or "named one by one"

    def to_bytes(self) -> bytes:
        """Return the head as the first bytes of a file.

        Raises:
            InvalidArgumentError: If there are too many paths.
        """
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        data = json.dumps(content).encode() + b"\n"
        if len(data) > _HEAD_BYTES:
            raise InvalidArgumentError(
                f"{len(self.paths)} paths take {len(data)} bytes, and an index has "
                f"{_HEAD_BYTES} for them: name folders, or a pattern"
            )
        return data.ljust(_HEAD_BYTES)

    @classmethod
    def of(cls, data: bytes, path: str) -> Head:
        """Read the head from the first bytes of a file.

        Raises:
            CorruptFileError: If it is something else, or has another version.
        """
        with parsing(path, f"no index of this release; {_AGAIN}"):
            content: dict[str, Any] = json.loads(data)
            about = content.pop("format"), content.pop("version")
            _expect(about == (_FORMAT, _VERSION), f"{about}, not {_FORMAT, _VERSION}")
            paths, content["paths"] = content["paths"], ()
            head = cls(**content)
            for each in fields(cls)[1:]:
                value = getattr(head, each.name)
                is_kind = type(value).__name__ == each.type
                _expect(is_kind, f"{each.name}={value!r:.40} is no {each.type}")
                if isinstance(value, int):
                    _expect(0 <= value < _MOST, f"{each.name}={value!r:.40}")
            is_list = isinstance(paths, list) and {*map(type, paths)} <= {str}
            _expect(is_list, f"paths={paths!r:.40}")
        return replace(head, paths=tuple(paths))

    def check_roots(
        self, paths: Paths, files: Sequence[str], path_of_index: str
    ) -> None:
        """Check that the index covers all paths.

        Raises:
            InvalidArgumentError: If a path lies outside of what was indexed.
        """
        indexed = {*files}
        for path in roots_of(paths):
            if not self._covers(path) and path not in indexed:
                raise InvalidArgumentError(
                    f"index={path_of_index} has {self.num_files} files ({self.shown}), "
                    f"and {shown_path(path)} is not within these: name them, or "
                    "write the index of all that you name"
                )

    def file_outside(self, files: Sequence[str]) -> str | None:
        """Return the first file that is not within the paths, if paths are known."""
        if not self.paths:
            return None
        # Files of the hub have their commit in them.
        below = (*(f"{root}/" for root in self.paths), "hf://")
        others = (file for file in files if not file.startswith(below))
        return next((file for file in others if not self._covers(file)), None)

    def _covers(self, path: str) -> bool:
        return any(
            f"{path}/".startswith(f"{root}/") or is_meant(path, root)
            for root in self.paths
        )


def packed_index(core: _core.Index, head: Head) -> bytes:
    """Return an index as a file for all nodes has it, with its digest in the head."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-") as folder:
        core.save(Path(folder) / "index")
        body = (Path(folder) / "index").read_bytes()
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    return replace(head, digest=digest, num_bytes=len(body)).to_bytes() + body


@dataclass(frozen=True)
class SharedIndex:
    """The indexes in a folder, by column. Each is opened once.

    Args:
        folder: The folder.
        cache_dir: Local folder for the indexes, which processes map; None keeps them in
            memory.
        storage: Storage of the data files.
    """

    folder: OutputFolder
    cache_dir: str | None
    storage: Storage
    _opened: dict[str, ColumnIndex | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[Callable[..., SharedIndex], tuple[Any, ...]]:
        """Pickle without open indexes."""
        return SharedIndex, (self.folder, self.cache_dir, self.storage)

    @property
    def path(self) -> str:
        """Path or URL of the folder."""
        return self.folder.path

    def find(self, column: str, page_index: object) -> ColumnIndex | None:
        """Return the index of a column in the folder; None if there is none.

        Raises:
            CorruptFileError: If it is damaged, or is the index of something else.
        """
        name = index_name(column, page_index)
        if name in self._opened:
            return self._opened[name]
        path = self.folder.path_of(name)
        try:
            data = self._read(name, 0, _HEAD_BYTES)
        except MissingFileError:
            self._opened[name] = None
            return None
        head = Head.of(data, path)
        if (head.column, head.page_index) != (column, str(page_index)):
            raise CorruptFileError(
                f"{path} is of column={head.column!r} with page_index="
                f"{head.page_index}, expected {column!r} with {page_index}: put it "
                "back under its own name"
            ).at(file=path)
        logger.info(
            "index of %r of %d files, written %s: %s",
            *(column, head.num_files, head.written, path),
        )
        self._opened[name] = opened = ColumnIndex(self, name, head)
        return opened

    def open(self, column: str, page_index: object) -> ColumnIndex:
        """Return the index of all files of a column.

        Raises:
            MissingFileError: If the folder has none.
            CorruptFileError: If it is damaged.
        """
        opened = self.find(column, page_index)
        if opened is None:
            path = self.folder.path_of(index_name(column, page_index))
            raise MissingFileError(
                f"{path} does not exist: write the index of {column!r} with `pagefeed "
                f"index PATHS --column {column} --output {self.folder.path}`"
            ).at(file=path, column=column)
        return opened

    def parts(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the bytes after the head of a file."""
        for begin in range(_HEAD_BYTES, _HEAD_BYTES + size, _READ_BYTES):
            yield self._read(name, begin, min(begin + _READ_BYTES, _HEAD_BYTES + size))

    def _read(self, name: str, begin: int, end: int) -> bytes:
        try:
            return self.folder.storage.read(self.folder.path_of(name), begin, end)
        except StaleFileError:  # It is short, or was written again.
            return (self.folder.read(name) or b"")[begin:end]


@dataclass(eq=False)
class ColumnIndex:
    """The index of a column, as a shared index has it; opened on first use."""

    shared: SharedIndex
    name: str
    """Name of its file."""
    head: Head

    @property
    def digest(self) -> str:
        """Digest that identifies this version of the index."""
        return self.head.digest

    @lazy
    def core(self) -> _core.Index:
        """The index of all files, checked whole.

        Raises:
            CorruptFileError: If it is damaged, or is not what its head says.
        """
        folder, storage = self.shared.cache_dir, self.shared.storage

        def make(why: str | None) -> _core.Index:
            if why is not None:
                logger.info("made again, since it cannot be used: %s", why)
            with tempfile.TemporaryDirectory(prefix="pagefeed-") as drafts:
                return self._fetched(Path(drafts) / "index")

        if folder is None:
            return make(None).of_others()
        kept = Path(folder) / f"{self.head.digest}.pagefeed-index"
        return kept_index(kept, storage, make).of_others()

    def _fetched(self, file: Path) -> _core.Index:
        path = self.shared.folder.path_of(self.name)
        try:
            digest = hashlib.blake2b(digest_size=16)
            with file.open("wb") as out:
                for part in self.shared.parts(self.name, self.head.num_bytes):
                    digest.update(part)
                    out.write(part)
            found, expected = digest.hexdigest(), self.head.digest
            _expect(found == expected, f"its digest is {found}, expected {expected}")
            core = _core.Index.open(file, storage=self.shared.storage.handle)
            problem = _problem_of(core.of_others(), self.head)
            _expect(not problem, problem)
        except (ValueError, CorruptFileError, MissingFileError) as error:
            raise CorruptFileError(f"{path} is damaged: {error}; {_AGAIN}").at(
                file=path
            ) from error
        return core


def _problem_of(core: _core.Index, head: Head) -> str:
    """Return what contradicts itself in an index, or its head; "" if nothing does."""
    files, num_pages = core.files, core.num_pages
    found = {
        "num_files": len(files),
        "num_rows": core.num_rows,
        "num_values": core.num_values,
        "fingerprint": core.fingerprint,
        "column": core.column,
    }
    for name, value in found.items():
        if value != getattr(head, name):
            return f"{name} is {value}, and its head has {getattr(head, name)}"
    if len({*files}) < len(files):
        return "a file is in it twice"
    if any(not file or "\0" in file or "/../" in file for file in files):
        return "the name of a file is empty, has a zero byte or climbs by /../"
    if (outside := head.file_outside(files)) is not None:
        return f"{shown_path(outside)} is not within {head.shown}"
    pages = np.arange(num_pages + 1)
    sums = [np.array([*core.file_first_page(), num_pages])]
    for table, total in (
        ("first_rows", core.num_rows),
        ("first_values", core.num_values),
    ):
        before = np.empty_like(pages)
        core.look_up(table, pages, before)
        sums.append(np.array([0, *before, total]))
    if any((np.diff(each) < 0).any() for each in sums):
        return "the numbers of its pages contradict each other"
    return ""
