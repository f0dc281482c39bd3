"""An index that all nodes share: read from a folder or bucket, without a listing.

The folder holds *packs*, each the index of some files (the same file that a cache
folder has), and a *manifest* for each column: which files of which packs make up the
dataset, in order. Packs are named by what they are made of and never change, so a file
that is added or removed changes the manifest and, if it was added, one more pack. The
manifest is replaced by a conditional write, after a copy with its digest in its name.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pagefeed import _core
from pagefeed._base import in_order, lazy, logger, warn_of_folder
from pagefeed.dataset.kept_index import kept_index
from pagefeed.errors import CorruptFileError, MissingFileError
from pagefeed.storage import OutputFolder, Storage

__all__ = ["Manifest", "Pack", "SharedIndex", "fetched_pack", "manifest_name"]

_FORMAT = "pagefeed shared index"
_VERSION = 1
_READ_BYTES = 64 << 20
_KINDS = {"True": "pages", "False": "headers", "row_group": "row_groups"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """The index of some files, as an object."""

    name: str
    """Its name in the folder."""
    bytes: int
    files: int
    """Files in it, of which a manifest may have some."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Which files of which packs are the dataset."""

    column: str
    page_index: str
    written: str
    """When, in UTC."""
    num_files: int
    num_rows: int
    num_values: int
    fingerprint: str
    """Fingerprint of the index of all files."""
    packs: tuple[Pack, ...]
    pieces: tuple[tuple[int, int, int], ...]
    """Pack, first file in it and one past the last, in the order of the files."""

    def to_json(self) -> bytes:
        """Return it as an object holds it."""
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return (json.dumps(content) + "\n").encode()

    @classmethod
    def of(cls, data: bytes, place: str) -> Manifest:
        """Read it.

        Raises:
            CorruptFileError: If it is none, or of another version.
        """
        try:
            content: dict[str, Any] = json.loads(data)
            told = (content.pop("format"), content.pop("version"))
            content["packs"] = tuple(Pack(**pack) for pack in content["packs"])
            content["pieces"] = tuple(tuple(each) for each in content["pieces"])
            found = cls(**content) if told == (_FORMAT, _VERSION) else None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise CorruptFileError(
                f"{place} is no index of this version: {problem}; write it again with "
                "`pagefeed index --output`"
            ).at(file=place) from problem
        if found is None:
            raise CorruptFileError(
                f"{place} is {told}, expected {(_FORMAT, _VERSION)}: write it again "
                "with `pagefeed index --output` of this release"
            ).at(file=place)
        return found


def manifest_name(column: str, page_index: object, digest: str = "") -> str:
    """Return the name of a manifest in its folder; with a digest, of its copy.

    Example:
        >>> manifest_name("input_ids", True), manifest_name("a/b", "row_group", "0f")
        ('input_ids.pages.json', 'a%2Fb.row_groups.0f.json')
    """
    kind = _KINDS[str(page_index)] + (f".{digest}" if digest else "")
    return f"{quote(column, safe='')}.{kind}.json"


@dataclass(frozen=True)
class SharedIndex:
    """The indexes in a folder, by column; each is opened once.

    Args:
        folder: Folder of manifests and packs.
        cache_dir: Folder of this machine where they are kept joined, which processes
            map; None keeps them in memory.
        storage: Storage of the data files.
    """

    folder: OutputFolder
    cache_dir: str | None
    storage: Storage
    pinned: str | None = None
    """Name of the manifest to use in place of the latest."""
    _found: dict[str, ColumnIndex | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[Callable[..., SharedIndex], tuple[Any, ...]]:
        """Pickle without what is opened."""
        return SharedIndex, (self.folder, self.cache_dir, self.storage, self.pinned)

    def find(self, column: str, page_index: object) -> ColumnIndex | None:
        """Return what the folder has of a column; None if there is no index of it.

        Raises:
            CorruptFileError: If its manifest is damaged.
        """
        name = manifest_name(column, page_index)
        if name not in self._found:
            is_pinned = (self.pinned or "").startswith(name.removesuffix("json"))
            data = self.folder.read(self.pinned if is_pinned and self.pinned else name)
            self._found[name] = None
            if data is not None:
                manifest = Manifest.of(data, self.folder.place(name))
                digest = digest_of(data)
                logger.info(
                    "index of %r of %d files, written %s: %s",
                    *(column, manifest.num_files, manifest.written),
                    self.folder.place(manifest_name(column, page_index, digest)),
                )
                self._found[name] = ColumnIndex(self, manifest, digest)
        return self._found[name]

    def open(self, column: str, page_index: object) -> ColumnIndex:
        """Return the index of all files of a column.

        Raises:
            MissingFileError: If the folder has none.
            CorruptFileError: If it is damaged.
        """
        found = self.find(column, page_index)
        if found is None:
            place = self.folder.place(manifest_name(column, page_index))
            raise MissingFileError(
                f"{place} does not exist: write the index of {column!r} with `pagefeed "
                f"index PATHS --column {column} --output {self.folder.path}`"
            ).at(file=place, column=column)
        return found

    def joined(self, manifest: Manifest, digest: str) -> _core.Index:
        """Return the index of a manifest, kept in the cache folder if there is one."""
        if self.cache_dir is None:
            with tempfile.TemporaryDirectory(prefix="pagefeed-") as place:
                return self._joined(manifest, Path(place))
        folder = Path(self.cache_dir)

        def make(why: str | None) -> _core.Index:
            if why is not None:
                logger.warning("made anew, since it cannot be used: %s", why)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                place = tempfile.TemporaryDirectory(prefix=".packs-", dir=folder)
            except OSError as problem:
                warn_of_folder(str(folder), problem)
                place = tempfile.TemporaryDirectory(prefix="pagefeed-")
            with place as drafts:
                return self._joined(manifest, Path(drafts))

        return kept_index(folder / f"{digest}.pagefeed-index", self.storage, make)

    def _joined(self, manifest: Manifest, drafts: Path) -> _core.Index:
        def fetch(pack: Pack) -> _core.Index:
            return fetched_pack(self.folder, pack, drafts, self.storage)

        packs = list(in_order(fetch, manifest.packs))
        core = _core.Index.join(packs, manifest.pieces, storage=self.storage.handle)
        if core.fingerprint != manifest.fingerprint:
            raise CorruptFileError(
                f"{self.folder.path}: expected the index {manifest.fingerprint}, found "
                f"{core.fingerprint}: write it again with `pagefeed index --output`"
            ).at(file=self.folder.path)
        return core


@dataclass(eq=False)
class ColumnIndex:
    """The index of a column, as a shared index has it; opened on first use."""

    shared: SharedIndex
    manifest: Manifest
    digest: str
    """What tells a state of the index from others."""

    @lazy
    def core(self) -> _core.Index:
        """The index of all files."""
        return self.shared.joined(self.manifest, self.digest)


def digest_of(data: bytes) -> str:
    """Return the digest of a manifest: 16 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def fetched_pack(
    folder: OutputFolder, pack: Pack, drafts: Path, storage: Storage
) -> _core.Index:
    """Fetch a pack to this machine, and map it.

    Args:
        folder: The folder of packs.
        pack: What is known of it.
        drafts: A folder of this machine for the file, which may be removed afterwards.
        storage: Storage of the data files.

    Raises:
        CorruptFileError: If it is damaged.
        MissingFileError: If it is not there.
    """
    url, file = folder.place(pack.name), drafts / Path(pack.name).name
    with file.open("wb") as out:
        for part in folder.storage.parts(url, 0, pack.bytes, _READ_BYTES):
            out.write(part)
    try:
        return _core.Index.open(file, storage=storage.handle)
    except CorruptFileError as error:
        raise CorruptFileError(f"{url}: {error}").at(file=url) from error
