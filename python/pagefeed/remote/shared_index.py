"""An index that all nodes share: read from a folder or bucket, without a listing.

The folder holds *packs*, each the index of some files (the same file that a cache
folder has), and a *manifest* for each column: which files of which packs make up the
dataset, in order. Packs are named by their contents and never change. So a removed file
changes only the manifest, and an added file changes the manifest and adds a pack. The
manifest is replaced by a conditional write, after a copy with its digest in its name.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagefeed import _core
from pagefeed.core._base import in_order, lazy, logger, warn_of_folder
from pagefeed.core.dataset import kept_index
from pagefeed.core.storage import Storage
from pagefeed.errors import (
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    StaleFileError,
)
from pagefeed.remote.index_manifest import Manifest, Pack, digest_of, manifest_name
from pagefeed.remote.outputs import OutputFolder

_READ_BYTES = 64 << 20


@dataclass(frozen=True)
class SharedIndex:
    """The indexes in a folder, by column. Each is opened once.

    Args:
        folder: Folder of manifests and packs.
        cache_dir: Local folder for the joined indexes, which processes map; None keeps
            them in memory.
        storage: Storage of the data files.
    """

    folder: OutputFolder
    cache_dir: str | None
    storage: Storage
    pinned: str | None = None
    """Name of a manifest of one column, to use instead of the latest one."""
    _opened: dict[str, ColumnIndex | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[Callable[..., SharedIndex], tuple[Any, ...]]:
        """Pickle without open indexes."""
        return SharedIndex, (self.folder, self.cache_dir, self.storage, self.pinned)

    @property
    def path(self) -> str:
        """Path or URL of the folder."""
        return self.folder.path

    def find(self, column: str, page_index: object) -> ColumnIndex | None:
        """Return the manifest and index of a column in the folder.

        None if there is none.

        Raises:
            CorruptFileError: If its manifest is damaged.
        """
        name = manifest_name(column, page_index)
        if name not in self._opened:
            name_there = self._name_there(name)
            data = self.folder.read(name_there)
            self._opened[name] = None
            if data is not None:
                path = self.folder.path_of(name_there)
                manifest = Manifest.of(data, path)
                digest = digest_of(data)
                of_manifest = (manifest.column, manifest.page_index)
                if of_manifest != (column, str(page_index)):
                    raise CorruptFileError(
                        f"{path} is of column={of_manifest[0]!r} with "
                        f"page_index={of_manifest[1]}, expected {column!r} with "
                        f"{page_index}: put it back under its own name"
                    ).at(file=path)
                if name_there not in (name, manifest_name(column, page_index, digest)):
                    raise CorruptFileError(
                        f"{path} has other contents, whose digest is {digest}: put "
                        "the manifest back, or name another"
                    ).at(file=path)
                logger.info(
                    "index of %r of %d files, written %s: %s",
                    *(column, manifest.num_files, manifest.written),
                    self.folder.path_of(manifest_name(column, page_index, digest)),
                )
                self._opened[name] = ColumnIndex(self, manifest, digest)
        return self._opened[name]

    def _name_there(self, name: str) -> str:
        """Return the name of the manifest to read for a column."""
        stem = name.removesuffix("json")
        is_pinned = self.pinned is not None and self.pinned.startswith(stem)
        return self.pinned or name if is_pinned else name

    def check_pinned(self, column: str, page_index: object) -> None:
        """Check that a manifest which a user names is one of a column.

        Raises:
            InvalidArgumentError: If it belongs to another column, or to other pages.
        """
        name = manifest_name(column, page_index)
        wanted = re.escape(name.removesuffix("json")) + r"(?:[0-9a-f]{16}\.)?json"
        if self.pinned is not None and not re.fullmatch(wanted, self.pinned):
            raise InvalidArgumentError(
                f"index={self.folder.path_of(self.pinned)} is no manifest of "
                f"column={column!r} with page_index={page_index!r}, which is called "
                f"{name} or {name.removesuffix('json')}DIGEST.json: give what "
                "`pagefeed index --output` printed, or the page_index of it"
            )

    def open(self, column: str, page_index: object) -> ColumnIndex:
        """Return the index of all files of a column.

        Raises:
            MissingFileError: If the folder has none.
            CorruptFileError: If it is damaged.
        """
        opened = self.find(column, page_index)
        if opened is None:
            name = manifest_name(column, page_index)
            path = self.folder.path_of(self._name_there(name))
            raise MissingFileError(
                f"{path} does not exist: write the index of {column!r} with `pagefeed "
                f"index PATHS --column {column} --output {self.folder.path}`"
            ).at(file=path, column=column)
        return opened

    def joined(self, manifest: Manifest, digest: str) -> _core.Index:
        """Return the index of a manifest. A cache folder stores it."""
        if self.cache_dir is None:
            with tempfile.TemporaryDirectory(prefix="pagefeed-") as packs_folder:
                return self._joined(manifest, Path(packs_folder))
        folder = Path(self.cache_dir)

        def make(why: str | None) -> _core.Index:
            if why is not None:
                logger.info("made anew, since it cannot be used: %s", why)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                temporary = tempfile.TemporaryDirectory(prefix=".packs-", dir=folder)
            except OSError as problem:
                warn_of_folder(str(folder), problem)
                temporary = tempfile.TemporaryDirectory(prefix="pagefeed-")
            with temporary as drafts:
                return self._joined(manifest, Path(drafts))

        return kept_index(folder / f"{digest}.pagefeed-index", self.storage, make)

    def _joined(self, manifest: Manifest, drafts: Path) -> _core.Index:
        def fetch(pack: Pack) -> _core.Index:
            return fetched_pack(self.folder, pack, drafts, self.storage)

        packs = list(in_order(fetch, manifest.packs))
        core = _core.Index.concat(packs, manifest.pieces, storage=self.storage.handle)
        if core.fingerprint != manifest.fingerprint:
            raise CorruptFileError(
                f"{self.folder.path}: expected the index {manifest.fingerprint}, found "
                f"{core.fingerprint}: write it again with `pagefeed index --output "
                "... --force`"
            ).at(file=self.folder.path)
        return core


@dataclass(eq=False)
class ColumnIndex:
    """The index of a column, as a shared index has it; opened on first use."""

    shared: SharedIndex
    manifest: Manifest
    digest: str
    """Digest that identifies this version of the index."""

    @lazy
    def core(self) -> _core.Index:
        """The index of all files."""
        return self.shared.joined(self.manifest, self.digest)


def fetched_pack(
    folder: OutputFolder, pack: Pack, drafts: Path, storage: Storage
) -> _core.Index:
    """Fetch a pack to this machine, and map it.

    Args:
        folder: The folder of packs.
        pack: What the manifest says about it.
        drafts: A folder of this machine for the file, which may be removed afterwards.
        storage: Storage of the data files.

    Raises:
        CorruptFileError: If it is damaged, or not there.
    """
    url, file = folder.path_of(pack.name), drafts / Path(pack.name).name
    try:
        with file.open("wb") as out:
            for chunk in folder.storage.parts(url, 0, pack.bytes, _READ_BYTES):
                out.write(chunk)
        core = _core.Index.open(file, storage=storage.handle)
    except (CorruptFileError, StaleFileError, MissingFileError) as error:
        raise CorruptFileError(
            f"{url} is damaged: {error}; write it again with `pagefeed index --output "
            "... --force`"
        ).at(file=url) from error
    if len(core.files) != pack.files:
        raise CorruptFileError(
            f"{url} has {len(core.files)} files, and the manifest {pack.files}: write "
            "it again with `pagefeed index --output ... --force`"
        ).at(file=url)
    return core
