"""Writes an index that all nodes share, and brings it up to date."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from pagefeed import _core
from pagefeed.core._base import Work, check_choice, check_flag, check_positive, logger
from pagefeed.core.dataset import IndexRecipe, PageIndexUse, default_threads
from pagefeed.core.storage import PathLike, Paths, located, plain_paths
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    FileAccessError,
    InvalidArgumentError,
)
from pagefeed.remote.cluster import on_ray
from pagefeed.remote.index_manifest import Manifest, Pack, digest_of, manifest_name
from pagefeed.remote.options import StorageOptions
from pagefeed.remote.outputs import OutputFolder, output_folder
from pagefeed.remote.paths import roots_of
from pagefeed.remote.remote_storage import options_of
from pagefeed.remote.shared_index import SharedIndex, fetched_pack

IndexEngine: TypeAlias = Literal["local", "ray"]
"""Where footers are read: on this machine, or on a Ray cluster."""

FILES_PER_GROUP = 4096
"""Files that are kept together, and not indexed again by a job that was killed."""
MOST_PACKS = 6
"""Packs of an index, at most: opening each takes a request."""
MOST_DEATHS = 3
"""Deaths of workers at the same files, after which these files fail."""
_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenIndex:
    """The result of :func:`write_index`."""

    path: str
    """The manifest; its copy, which never changes, is :attr:`pinned`."""
    pinned: str
    num_files: int
    num_read: int
    """Files whose footers were read: those that are new or changed."""
    num_dropped: int
    """Files that the index had, and that are gone."""
    num_packs: int
    num_bytes: int
    num_rows: int
    num_values: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexDifferences:
    """Result of :func:`check_index`: differences between an index and the files."""

    written: str
    """When the index was written, in UTC."""
    num_files: int
    """Files that it has."""
    added: tuple[str, ...]
    """Files that were added since, and are not in the index."""
    removed: tuple[str, ...]
    """Files that it has, and that are gone."""
    changed: tuple[str, ...]
    """Files that changed since."""

    @property
    def ok(self) -> bool:
        """Whether all files are in the index, unchanged."""
        return not (self.added or self.removed or self.changed)


def write_index(
    paths: Paths,
    output: PathLike,
    *,
    column: str,
    page_index: PageIndexUse = True,
    verify_checksums: bool = True,
    num_threads: int | None = None,
    engine: IndexEngine = "local",
    shrink: bool = False,
    force: bool = False,
    storage_options: StorageOptions | None = None,
) -> WrittenIndex:
    """Write the index of a column, which all nodes of a run read instead of footers.

    An existing index is brought up to date: only new and changed files are read. A
    killed job continues after what it has indexed.

    Args:
        paths: Files, folders, patterns and URLs, see :func:`pagefeed.parquet`.
        output: Folder of the index, such as ``s3://bucket/corpus/_pagefeed``: readers
            of folders skip names that begin with ``_``.
        column: The column.
        page_index: How pages are found, see :func:`pagefeed.parquet`.
        verify_checksums: Verify checksums of pages that are read for it.
        num_threads: Threads that read footers, of each process.
        engine: ``"local"``; or ``"ray"``, on the cluster that ``ray.init`` finds, 4096
            files a task. All nodes need the same files and output, and credentials of
            their own.
        shrink: Replace an index that has files which are not among these.
        force: Write the index anew, whatever is there, and remove packs that no
            manifest names, such as those of killed jobs. No other process may write the
            folder meanwhile.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`.

    Returns:
        What was written.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If the index would lose files, without ``shrink``.
        CorruptFileError: If the index that is there is damaged, without ``force``.
        ColumnNotFoundError: If a file lacks the column.
        FileAccessError: If the index cannot be written, or others write it at the same
            time.
        DataError: If a worker of the cluster dies again and again at the same files.
        MissingDependencyError: If Ray is asked for and not installed.

    Example:
        >>> place = "corpus/web/_pagefeed"
        >>> _ = write_index("corpus/web", place, column="input_ids")  # doctest: +SKIP
        >>> web = pagefeed.parquet(  # doctest: +SKIP
        ...     "corpus/web", column="input_ids", index=place
        ... )
    """
    folder = output_folder(output, storage_options, "output")
    check_choice(engine, get_args(IndexEngine), "engine")
    check_flag(shrink, "shrink")
    check_flag(force, "force")
    if num_threads is not None:
        check_positive(num_threads, "num_threads")
    given = plain_paths(paths)
    for _ in range(_ATTEMPTS):
        files = located(given, options_of(given, storage_options, output))
        recipe = IndexRecipe(
            files=files.files,
            storage=files.storage,
            column=column,
            page_index=page_index,
            verify_checksums=verify_checksums,
        )
        threads = num_threads or default_threads(files.storage)
        with tempfile.TemporaryDirectory(prefix="pagefeed-") as drafts:
            writing = _Writing(recipe, folder, threads, engine, Path(drafts))
            roots = roots_of(given, files.files)
            done = writing.run(roots, shrink=shrink, force=force)
        if done is not None:
            if force:
                _collect(folder)
            return done
        logger.info("%s was written by another process meanwhile", folder.path)
    raise FileAccessError(
        f"{folder.path} is being written by other processes: let one of them finish"
    ).at(file=folder.path)


class _Writing:
    """One attempt to write an index."""

    def __init__(
        self,
        recipe: IndexRecipe,
        folder: OutputFolder,
        threads: int,
        engine: IndexEngine,
        drafts: Path,
    ) -> None:
        self._recipe, self._folder = recipe, folder
        self._threads, self._engine, self._drafts = threads, engine, drafts
        self._name = manifest_name(recipe.column, recipe.page_index)
        self._is_anew = False
        self._packs: list[Pack] = []
        self._cores: list[_core.Index] = []
        self._position_of: dict[str, tuple[int, int]] = {}
        """Pack, and position in the pack, of each indexed file."""

    def run(
        self, roots: tuple[str, ...], *, shrink: bool, force: bool
    ) -> WrittenIndex | None:
        """Write the index. Return None if another process was first."""
        stored = self._folder.read_version(self._name)
        files, num_dropped, before = self._recipe.files, 0, None
        if stored is not None and not force:
            before = Manifest.of(stored[0], self._folder.path_of(self._name))
            num_dropped = self._take(before)
            if not shrink:
                self._check_loss(before, roots, num_dropped)
        self._is_anew = force
        missing = [file for file in files if file not in self._position_of]
        new_packs = self._index(missing)
        self._tidy()
        pieces = self._pieces(files)
        core = _core.Index.concat(
            self._cores, pieces, storage=self._recipe.storage.handle
        )
        used = sorted({pack for pack, _, _ in pieces})
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = Manifest(
            paths=roots,
            column=self._recipe.column,
            page_index=str(self._recipe.page_index),
            written=now,
            num_files=len(files),
            num_rows=core.num_rows,
            num_values=core.num_values,
            fingerprint=core.fingerprint,
            packs=tuple(self._packs[pack] for pack in used),
            pieces=tuple((used.index(pack), first, end) for pack, first, end in pieces),
        )
        if before is not None and replace(before, written=now) == manifest:
            manifest = before
        data = manifest.to_json()
        pinned = manifest_name(
            self._recipe.column, self._recipe.page_index, digest_of(data)
        )
        self._folder.write(pinned, data)
        version = None if stored is None else stored[1]
        if not self._folder.replace(self._name, data, version):
            return None
        used_packs = {pack.name for pack in manifest.packs}
        self._folder.remove([name for name in new_packs if name not in used_packs])
        return WrittenIndex(
            path=self._folder.path_of(self._name),
            pinned=self._folder.path_of(pinned),
            num_files=len(files),
            num_read=len(missing),
            num_dropped=num_dropped,
            num_packs=len(manifest.packs),
            num_bytes=sum(pack.bytes for pack in manifest.packs) + len(data),
            num_rows=core.num_rows,
            num_values=core.num_values,
            fingerprint=core.fingerprint,
        )

    def _check_loss(
        self, before: Manifest, roots: tuple[str, ...], num_dropped: int
    ) -> None:
        """Refuse to replace an index by one of less than it has."""
        num_files = len(self._recipe.files)
        is_other = roots != before.paths and num_dropped > 0
        if not is_other and num_files >= before.num_files:
            return
        raise InvalidArgumentError(
            f"{self._folder.path} is the index of {before.num_files} files "
            f"({before.shown}); there are {num_files} files now "
            f"({', '.join(roots) or 'named one by one'}), without {num_dropped} of "
            "those: name all paths, or another folder for the index, or allow it by "
            "--shrink, in Python by the argument shrink"
        )

    def _take(self, before: Manifest) -> int:
        """Note where files of the earlier index are; return how many are gone."""
        wanted, num_gone = {*self._recipe.files}, 0
        for pack_number, pack in enumerate(before.packs):
            core = self._fetched(pack)
            self._add(pack, core, ())
            ranges = [range(*ends) for of, *ends in before.pieces if of == pack_number]
            names, had = core.files, [*itertools.chain(*ranges)]
            left = [file for file in had if names[file] in wanted]
            num_gone += len(had) - len(left)
            for file in {*left} - {*core.changed_files(left)}:
                self._position_of[names[file]] = pack_number, file
        return num_gone

    def _index(self, missing: list[str]) -> list[str]:
        """Index files in groups, and store each group as a pack; return their names."""
        groups: dict[str, IndexRecipe] = {}
        for start in range(0, len(missing), FILES_PER_GROUP):
            files = tuple(missing[start : start + FILES_PER_GROUP])
            recipe = replace(self._recipe, files=files)
            groups[f"packs/{_key(recipe)}.arrow"] = recipe
        what = f"index of {self._recipe.column!r}"
        with Work(what, total=len(missing), unit="files") as work:
            if self._engine == "ray":
                self._on_ray(groups)
            for name, recipe in groups.items():
                if self._takes_kept(name, recipe.files):
                    work.advance(len(recipe.files))
                else:
                    core = recipe.build(self._threads, work.advance)
                    self._save(name, core, recipe.files)
        return [*groups]

    def _on_ray(self, recipes: Mapping[str, IndexRecipe]) -> None:
        """Write missing packs, each on one CPU of a Ray cluster."""
        left = [
            name for name in recipes if self._is_anew or self._folder.size(name) is None
        ]
        deaths = Counter[str]()

        def died(name: str, said: str) -> None:
            deaths[name] += 1
            files = recipes[name].files
            about = f"{files[0]} and {len(files) - 1} further files"
            if deaths[name] > MOST_DEATHS:
                raise DataError(
                    f"{about}: the worker that indexes them died {deaths[name]} times: "
                    f"{said}; look at its memory"
                ).at(file=files[0])
            logger.info("a worker died, %s are tried again: %s", about, said)

        common = dict(recipes), self._folder, self._threads
        with closing(on_ray(_write_pack, common, left, died=died)) as done:
            for name, _ in done:
                logger.info("%s written", self._folder.path_of(name))

    def _takes_kept(self, name: str, files: Sequence[str]) -> bool:
        """Open a pack of a killed job. Return False if it has none of the files."""
        # Those that nodes of a cluster wrote just now are taken always.
        is_old = self._is_anew and self._engine == "local"
        size = None if is_old else self._folder.size(name)
        if size is None:
            return False
        pack = Pack(name=name, bytes=size, files=len(files))
        core = self._fetched(pack)
        self._add(pack, core, files)
        return True

    def _save(self, name: str, core: _core.Index, files: Sequence[str]) -> None:
        file = self._drafts / Path(name).name
        size = _upload(self._folder, name, core, file)
        mapped = _core.Index.open(file, storage=self._recipe.storage.handle)
        self._add(Pack(name=name, bytes=size, files=len(files)), mapped, files)

    def _fetched(self, pack: Pack) -> _core.Index:
        return fetched_pack(self._folder, pack, self._drafts, self._recipe.storage)

    def _add(self, pack: Pack, core: _core.Index, files: Iterable[str]) -> None:
        pack_number = len(self._packs)
        self._packs.append(pack)
        self._cores.append(core)
        self._position_of |= {file: (pack_number, n) for n, file in enumerate(files)}

    def _tidy(self) -> None:
        """Join small packs, if there are many."""
        files = self._recipe.files
        uses = Counter(self._position_of[file][0] for file in files)
        if len(uses) <= MOST_PACKS:
            return
        least = len(files) // (MOST_PACKS - 1)
        small = {pack for pack, count in uses.items() if count < least}
        small |= {pack for pack, _ in uses.most_common()[MOST_PACKS - 1 :]}
        moved = [file for file in files if self._position_of[file][0] in small]
        core = _core.Index.concat(self._cores, self._pieces(moved))
        keys = "\0".join(f"{self._packs[n].name} {uses[n]}" for n in sorted(uses))
        digest = hashlib.blake2b(keys.encode(), digest_size=16).hexdigest()
        self._save(f"packs/{digest}.arrow", core, moved)

    def _pieces(self, files: Iterable[str]) -> list[tuple[int, int, int]]:
        """Yield pack, first file and end of each run of consecutive files."""
        positions = np.array([self._position_of[file] for file in files])
        is_apart = (np.diff(positions, axis=0) != (0, 1)).any(axis=1)
        first = np.append(0, np.flatnonzero(is_apart) + 1)
        last = np.append(first[1:], len(positions)) - 1
        rows = zip(
            *positions[first].T.tolist(), positions[last, 1].tolist(), strict=True
        )
        return [(pack, start, stop + 1) for pack, start, stop in rows]


def _collect(folder: OutputFolder) -> None:
    """Remove packs that no manifest of a folder names, and what writers began."""
    used = set[str]()
    for name in folder.names():
        if name.endswith(".json") and not name.startswith("."):
            with suppress(CorruptFileError):
                manifest = Manifest.of(folder.read(name) or b"", folder.path_of(name))
                used |= {pack.name for pack in manifest.packs}
    left = [name for name in folder.names("packs") if f"packs/{name}" not in used]
    folder.remove(left, "packs")
    drafts = [name for name in folder.names() if _DRAFT.fullmatch(name)]
    folder.remove(drafts)


_DRAFT = re.compile(r"\..+\.json\..+")


def _upload(folder: OutputFolder, name: str, core: _core.Index, file: Path) -> int:
    """Save an index as a file of this machine and a pack; return its bytes."""
    core.save(file)
    with folder.writer(name) as out, file.open("rb") as saved:
        while chunk := saved.read(16 << 20):
            out.write(chunk)
    return out.size


def _write_pack(
    common: tuple[Mapping[str, IndexRecipe], OutputFolder, int], name: str
) -> None:
    """Index a group of files on a node of a cluster."""
    recipes, folder, threads = common
    core = recipes[name].build(threads, lambda _: None)
    with tempfile.TemporaryDirectory(prefix="pagefeed-") as drafts:
        _upload(folder, name, core, Path(drafts) / "pack.arrow")


def _key(recipe: IndexRecipe) -> str:
    """Return a digest of a group of files and their versions."""
    versions = recipe.storage.versions(recipe.files)
    parts = [*recipe.settings, *recipe.files, *versions]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def check_index(
    paths: Paths,
    output: PathLike,
    *,
    column: str,
    page_index: PageIndexUse = True,
    storage_options: StorageOptions | None = None,
) -> IndexDifferences:
    """Compare a shared index with a listing of the files.

    Args:
        paths: Paths that the index was written for.
        output: Its folder.
        column: The column.
        page_index: How pages were found.
        storage_options: Settings of remote storage.

    Raises:
        MissingFileError: If there is no such index, or nothing at a path.

    Example:
        >>> place = "corpus/web/_pagefeed"
        >>> _ = write_index("corpus/web", place, column="input_ids")  # doctest: +SKIP
        >>> check_index("corpus/web", place, column="input_ids").ok  # doctest: +SKIP
        True
    """
    given = plain_paths(paths)
    files = located(given, options_of(given, storage_options, output))
    folder = output_folder(output, storage_options, "output")
    shared = SharedIndex(folder, None, files.storage).open(column, page_index)
    core, listed = shared.core, {*files.files}
    names = core.files
    indexed = {*names}
    changed = core.changed_files([n for n, file in enumerate(names) if file in listed])
    return IndexDifferences(
        written=shared.manifest.written,
        num_files=len(names),
        added=tuple(file for file in files.files if file not in indexed),
        removed=tuple(file for file in names if file not in listed),
        changed=tuple(names[file_number] for file_number in changed),
    )
