"""Writes an index that all nodes share, and brings it up to date."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

import numpy as np

from pagefeed import _core
from pagefeed.core._base import Work, check_flag, check_positive, logger
from pagefeed.core.dataset import IndexRecipe, PageIndexUse, default_threads
from pagefeed.core.storage import PathLike, Paths, located, plain_paths
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.remote.options import StorageOptions
from pagefeed.remote.outputs import OutputFolder, output_folder
from pagefeed.remote.paths import roots_of
from pagefeed.remote.remote_storage import options_of
from pagefeed.remote.shared_index import (
    ColumnIndex,
    Head,
    SharedIndex,
    index_name,
    packed_index,
)

_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenIndex:
    """The result of :func:`write_index`."""

    path: str
    num_files: int
    num_read: int
    """Files whose footers were read: those that are new or changed."""
    num_dropped: int
    """Files that the index had, and that are gone."""
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
    shrink: bool = False,
    force: bool = False,
    storage_options: StorageOptions | None = None,
) -> WrittenIndex:
    """Write the index of a column, which all nodes of a run read instead of footers.

    An existing index is brought up to date: only new and changed files are read. It is
    one file, which is replaced as a whole: a killed job changes nothing.

    Args:
        paths: Files, folders, patterns and URLs, see :func:`pagefeed.parquet`.
        output: Folder of the index, such as ``s3://bucket/corpus/_pagefeed``: readers
            of folders skip names that begin with ``_``.
        column: The column.
        page_index: How pages are found, see :func:`pagefeed.parquet`.
        verify_checksums: Verify checksums of pages that are read for it.
        num_threads: Threads that read footers.
        shrink: Replace an index that has files which are not among these.
        force: Write the index again, over any object there.
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

    Example:
        >>> place = "corpus/web/_pagefeed"
        >>> _ = write_index("corpus/web", place, column="input_ids")  # doctest: +SKIP
        >>> web = pagefeed.parquet(  # doctest: +SKIP
        ...     "corpus/web", column="input_ids", index=place
        ... )
    """
    folder = output_folder(output, storage_options, "output")
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
        roots = roots_of(given, files.files)
        done = _write(recipe, folder, roots, threads, shrink=shrink, force=force)
        if done is not None:
            return done
        logger.info("%s was written by another process meanwhile", folder.path)
    raise FileAccessError(
        f"{folder.path} is being written by other processes: let one of them finish"
    ).at(file=folder.path)


def _write(
    recipe: IndexRecipe,
    folder: OutputFolder,
    roots: tuple[str, ...],
    threads: int,
    *,
    shrink: bool,
    force: bool,
) -> WrittenIndex | None:
    """Write an index. Return None if another process was first."""
    name = index_name(recipe.column, recipe.page_index)
    stored = folder.read_version(name)
    before = None
    if stored is not None and not force:
        shared = SharedIndex(folder, None, recipe.storage)
        before = shared.open(recipe.column, recipe.page_index)
    names = [] if before is None else before.core.files
    wanted = {*recipe.files}
    num_dropped = sum(file not in wanted for file in names)
    if before is not None and not shrink:
        _check_loss(before, folder.path, recipe, roots, num_dropped)
    core, num_read = _brought_up_to_date(recipe, before, threads)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    known = before and (before.head.fingerprint, before.head.paths)
    is_same = known == (core.fingerprint, roots)
    if is_same and num_read == 0 and stored is not None:
        data = stored[0]
    else:
        head = Head(
            paths=roots,
            column=recipe.column,
            page_index=str(recipe.page_index),
            written=now,
            num_files=len(recipe.files),
            num_rows=core.num_rows,
            num_values=core.num_values,
            fingerprint=core.fingerprint,
        )
        data = packed_index(core, head)
        version = None if stored is None else stored[1]
        if not folder.replace(name, data, version):
            return None
    return WrittenIndex(
        path=folder.path_of(name),
        num_files=len(recipe.files),
        num_read=num_read,
        num_dropped=num_dropped,
        num_bytes=len(data),
        num_rows=core.num_rows,
        num_values=core.num_values,
        fingerprint=core.fingerprint,
    )


def _check_loss(
    before: ColumnIndex,
    path: str,
    recipe: IndexRecipe,
    roots: tuple[str, ...],
    num_dropped: int,
) -> None:
    """Refuse to replace an index by one with fewer files."""
    head, num_files = before.head, len(recipe.files)
    is_other = roots != head.paths and num_dropped > 0
    if is_other or num_files < head.num_files:
        raise InvalidArgumentError(
            f"{path} is the index of {head.num_files} files ({head.shown}); there are "
            f"{num_files} files now ({', '.join(roots) or 'named one by one'}), and "
            f"{num_dropped} of those are gone: name all paths, or another folder for "
            "the index, or allow it by --shrink, in Python by the argument shrink"
        )


def _brought_up_to_date(
    recipe: IndexRecipe, before: ColumnIndex | None, threads: int
) -> tuple[_core.Index, int]:
    """Return the index of all files, and how many files were read for it."""
    cores, position_of = list[_core.Index](), dict[str, tuple[int, int]]()
    if before is not None:
        cores.append(before.core)
        names, wanted = before.core.files, {*recipe.files}
        left = [number for number, file in enumerate(names) if file in wanted]
        for number in {*left} - {*before.core.changed_files(left)}:
            position_of[names[number]] = 0, number
    missing = tuple(file for file in recipe.files if file not in position_of)
    if missing:
        position_of |= {file: (len(cores), n) for n, file in enumerate(missing)}
        what = f"index of {recipe.column!r}"
        with Work(what, total=len(missing), unit="files") as work:
            some = replace(recipe, files=missing)
            cores.append(some.build(threads, work.advance))
    positions = np.array([position_of[file] for file in recipe.files])
    is_apart = (np.diff(positions, axis=0) != (0, 1)).any(axis=1)
    first = np.append(0, np.flatnonzero(is_apart) + 1)
    last = np.append(first[1:], len(positions)) - 1
    pieces = zip(*positions[first].T.tolist(), positions[last, 1].tolist(), strict=True)
    ranges = [(core, start, stop + 1) for core, start, stop in pieces]
    joined = _core.Index.concat(cores, ranges, storage=recipe.storage.handle)
    return joined, len(missing)


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
    left = [n for n, file in enumerate(names) if file in listed]
    changed = core.changed_files(left, by_footers=True)
    return IndexDifferences(
        written=shared.head.written,
        num_files=len(names),
        added=tuple(file for file in files.files if file not in indexed),
        removed=tuple(file for file in names if file not in listed),
        changed=tuple(names[file_number] for file_number in changed),
    )
