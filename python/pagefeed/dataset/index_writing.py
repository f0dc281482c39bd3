"""Writes an index that all nodes share, and brings it up to date."""

from __future__ import annotations

import datetime
import hashlib
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from pagefeed import _core
from pagefeed._base import Work, check_choice, check_positive, logger, on_ray
from pagefeed.dataset.index_recipe import IndexRecipe, PageIndexUse, default_threads
from pagefeed.dataset.shared_index import (
    Manifest,
    Pack,
    SharedIndex,
    digest_of,
    fetched_pack,
    manifest_name,
)
from pagefeed.errors import DataError, FileAccessError
from pagefeed.storage import (
    Located,
    OutputFolder,
    PathLike,
    Paths,
    StorageOptions,
    located,
    options_of,
    output_folder,
    plain_paths,
)

__all__ = ["IndexDifferences", "WrittenIndex", "check_index", "write_index"]

IndexEngine: TypeAlias = Literal["local", "ray"]
"""What reads the footers."""

FILES_PER_GROUP = 4096
"""Files that are kept together, and not indexed again by a job that was killed."""
MOST_PACKS = 6
"""Packs of an index: each is a request when it is opened."""
MOST_DEATHS = 3
"""Deaths of workers at the same files, after which these are not tried again."""
_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenIndex:
    """The result of :func:`write_index`."""

    place: str
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
    """The result of :func:`check_index`: files that an index has not as they are."""

    written: str
    """When the index was written, in UTC."""
    num_files: int
    """Files that it has."""
    added: tuple[str, ...]
    """Files that came later, which it lacks."""
    removed: tuple[str, ...]
    """Files that it has, and that are gone."""
    changed: tuple[str, ...]
    """Files that changed since."""

    @property
    def ok(self) -> bool:
        """Whether there are none."""
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
    storage_options: StorageOptions | None = None,
) -> WrittenIndex:
    """Write the index of a column, which all nodes of a run read instead of footers.

    An index that is there is brought up to date: only files that are new or changed are
    read. A killed job goes on from what it has indexed.

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
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`.

    Returns:
        What was written.

    Raises:
        MissingFileError: If there is nothing at a path.
        ColumnNotFoundError: If a file lacks the column.
        FileAccessError: If it cannot be written, or others write it at the same time.
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
    if num_threads is not None:
        check_positive(num_threads, "num_threads")
    given = plain_paths(paths)
    for _ in range(_ATTEMPTS):
        files = located(given, options_of(given, storage_options, output))
        recipe = IndexRecipe.of(files, column, None, page_index, verify_checksums)
        threads = num_threads or default_threads(files.storage)
        with tempfile.TemporaryDirectory(prefix="pagefeed-") as drafts:
            writing = _Writing(recipe, folder, threads, engine, Path(drafts))
            done = writing.run()
        if done is not None:
            return done
        logger.info("%s was written by another process meanwhile", folder.path)
    raise FileAccessError(
        f"{folder.path} is written by other processes all the time: let one do it"
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
        self._packs: list[Pack] = []
        self._cores: list[_core.Index] = []

    def run(self) -> WrittenIndex | None:
        """Write it; None if another process was first."""
        found = self._folder.read_version(self._name)
        files = self._recipe.files
        where = np.full((len(files), 2), -1, dtype=np.int64)  # Pack, and number in it.
        num_dropped = 0
        if found is not None:
            before = Manifest.of(found[0], self._folder.place(self._name))
            num_dropped = self._take(before, where)
        missing = np.flatnonzero(where[:, 0] < 0)
        made = self._index(missing, where)
        packs, where = self._tidy(where)
        core = _core.Index.join(
            self._cores, _pieces(where), storage=self._recipe.storage.handle
        )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = Manifest(
            column=self._recipe.column,
            page_index=str(self._recipe.page_index),
            written=now,
            num_files=len(files),
            num_rows=core.num_rows,
            num_values=core.num_values,
            fingerprint=core.fingerprint,
            packs=tuple(packs),
            pieces=tuple(_pieces(where)),
        )
        if found is not None and replace(before, written=now) == manifest:
            manifest = before
        data = manifest.to_json()
        pinned = manifest_name(
            self._recipe.column, self._recipe.page_index, digest_of(data)
        )
        self._folder.write(pinned, data)
        version = None if found is None else found[1]
        if not self._folder.replace(self._name, data, version):
            return None
        used = {pack.name for pack in manifest.packs}
        self._folder.remove([name for name in made if name not in used])
        return WrittenIndex(
            place=self._folder.place(self._name),
            pinned=self._folder.place(pinned),
            num_files=len(files),
            num_read=len(missing),
            num_dropped=num_dropped,
            num_packs=len(packs),
            num_bytes=sum(pack.bytes for pack in packs) + len(data),
            num_rows=core.num_rows,
            num_values=core.num_values,
            fingerprint=core.fingerprint,
        )

    def _take(self, before: Manifest, where: np.ndarray) -> int:
        """Note where files of the earlier index are; return how many are gone."""
        number_of = {file: number for number, file in enumerate(self._recipe.files)}
        for pack in before.packs:
            self._add(pack, self._fetched(pack))
        num_gone = 0
        names = [core.files for core in self._cores]
        found: list[list[int]] = [[] for _ in before.packs]
        for pack_number, start, stop in before.pieces:
            for number in range(start, stop):
                if names[pack_number][number] in number_of:
                    found[pack_number].append(number)
                else:
                    num_gone += 1
        for pack_number, numbers in enumerate(found):
            core = self._cores[pack_number]
            changed = set(core.changed_files(numbers))
            for number in numbers:
                if number not in changed:
                    file = number_of[names[pack_number][number]]
                    where[file] = pack_number, number
        return num_gone

    def _index(self, missing: np.ndarray, where: np.ndarray) -> list[str]:
        """Index files in groups, each kept as a pack; return the packs' names."""
        groups = dict[str, tuple[np.ndarray, IndexRecipe]]()
        for start in range(0, len(missing), FILES_PER_GROUP):
            group = missing[start : start + FILES_PER_GROUP]
            files = tuple(self._recipe.files[number] for number in group)
            recipe = replace(self._recipe, files=files)
            groups[f"packs/{_key(recipe)}.arrow"] = group, recipe
        what = f"index of {self._recipe.column!r}"
        with Work(what, total=len(missing), unit="files") as work:
            if self._engine == "ray":
                self._on_ray({name: each[1] for name, each in groups.items()})
            for name, (group, recipe) in groups.items():
                core = self._kept(name, len(group))
                if core is None:
                    core = recipe.build(self._threads, work.advance)
                    self._save(name, core, len(group))
                else:
                    work.advance(len(group))
                where[group, 0] = len(self._packs) - 1
                where[group, 1] = np.arange(len(group))
        return [*groups]

    def _on_ray(self, recipes: Mapping[str, IndexRecipe]) -> None:
        """Write the packs that are not there yet, each on a CPU of a cluster."""
        left = [name for name in recipes if self._folder.size(name) is None]
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
            logger.warning("a worker died, %s are tried again: %s", about, said)

        common = dict(recipes), self._folder, self._threads
        with closing(on_ray(_write_pack, common, left, died=died)) as done:
            for name, _ in done:
                logger.info("%s written", self._folder.place(name))

    def _kept(self, name: str, num_files: int) -> _core.Index | None:
        """Open a pack that a killed job left."""
        size = self._folder.size(name)
        if size is None:
            return None
        pack = Pack(name=name, bytes=size, files=num_files)
        core = self._fetched(pack)
        if len(core.files) != num_files:
            return None
        self._add(pack, core)
        return core

    def _save(self, name: str, core: _core.Index, num_files: int) -> None:
        file = self._drafts / Path(name).name
        size = _upload(self._folder, name, core, file)
        mapped = _core.Index.open(file, storage=self._recipe.storage.handle)
        self._add(Pack(name=name, bytes=size, files=num_files), mapped)

    def _fetched(self, pack: Pack) -> _core.Index:
        return fetched_pack(self._folder, pack, self._drafts, self._recipe.storage)

    def _add(self, pack: Pack, core: _core.Index) -> None:
        self._packs.append(pack)
        self._cores.append(core)

    def _tidy(self, where: np.ndarray) -> tuple[list[Pack], np.ndarray]:
        """Join small packs if there are many; leave out those that are not used."""
        used = np.bincount(where[:, 0], minlength=len(self._packs))
        if np.count_nonzero(used) > MOST_PACKS:
            small = used < max(1, len(where) // (MOST_PACKS - 1))
            files = np.flatnonzero(small[where[:, 0]])
            core = _core.Index.join(self._cores, _pieces(where[files]))
            keys = "\0".join(
                f"{p.name} {n}" for p, n in zip(self._packs, used, strict=True) if n
            )
            digest = hashlib.blake2b(keys.encode(), digest_size=16).hexdigest()
            self._save(f"packs/{digest}.arrow", core, len(files))
            where[files, 0] = len(self._packs) - 1
            where[files, 1] = np.arange(len(files))
            used = np.bincount(where[:, 0], minlength=len(self._packs))
        kept = np.flatnonzero(used)
        numbers = np.zeros(len(self._packs), dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        self._cores = [self._cores[number] for number in kept]
        packs = [self._packs[number] for number in kept]
        return packs, np.column_stack([numbers[where[:, 0]], where[:, 1]])


def _upload(folder: OutputFolder, name: str, core: _core.Index, file: Path) -> int:
    """Save an index as a file of this machine and a pack; return its bytes."""
    core.save(file)
    with folder.writer(name) as out, file.open("rb") as saved:
        while part := saved.read(16 << 20):
            out.write(part)
    return out.size


def _write_pack(
    common: tuple[Mapping[str, IndexRecipe], OutputFolder, int], name: str
) -> None:
    """Index a group of files on a node of a cluster."""
    recipes, folder, threads = common
    core = recipes[name].build(threads, lambda _: None)
    with tempfile.TemporaryDirectory(prefix="pagefeed-") as drafts:
        _upload(folder, name, core, Path(drafts) / "pack.arrow")


def _pieces(where: np.ndarray) -> list[tuple[int, int, int]]:
    """Return runs of files that follow each other in a pack."""
    breaks = (np.diff(where[:, 0]) != 0) | (np.diff(where[:, 1]) != 1)
    first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    last = np.concatenate([first[1:], [len(where)]]) - 1
    rows = zip(where[first, 0], where[first, 1], where[last, 1] + 1, strict=True)
    return [(int(pack), int(start), int(stop)) for pack, start, stop in rows]


def _key(recipe: IndexRecipe) -> str:
    """Return what tells a group of files, as they are, from any other."""
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
        paths: What the index was written of.
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
    shared = SharedIndex(folder, None, files.storage)
    core = shared.open(column, page_index)
    return _differences(files, core, shared.manifest(column, page_index))


def _differences(
    files: Located, core: _core.Index, manifest: Manifest
) -> IndexDifferences:
    listed, known = set(files.files), core.files
    both = [number for number, file in enumerate(known) if file in listed]
    return IndexDifferences(
        written=manifest.written,
        num_files=len(known),
        added=tuple(_without(files.files, set(known))),
        removed=tuple(_without(known, listed)),
        changed=tuple(known[number] for number in core.changed_files(both)),
    )


def _without(files: Sequence[str], others: set[str]) -> list[str]:
    return [file for file in files if file not in others]
