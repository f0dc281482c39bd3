"""Brings the files of a run to a local disk."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pagefeed.core._base import check_positive, parse_bytes
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.dataset import PageIndex, Source
from pagefeed.core.storage import (
    MANIFEST,
    UNFINISHED,
    PathLike,
    Storage,
    is_url,
    write_errors,
)
from pagefeed.errors import (
    CancelledError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedError,
    UnsupportedError,
)
from pagefeed.parquet_files import ParquetDataset
from pagefeed.parsing import json_value, parsing
from pagefeed.prepare.jobs import (
    JOB,
    ThreadedWork,
    check_same_job,
    note_job,
    read_record,
    remove_drafts,
    run_threads,
    write_record,
)
from pagefeed.remote import OutputFolder, output_folder

_LOCK = ".stage.lock"
_RECORD = "_staged.json"
_PART_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """Result of staging: files brought, and folders to read them from."""

    folders: dict[str, str]
    """The folder or URL of each part of the data, and the folder to read instead."""
    num_files: int
    """Files in the output."""
    num_bytes: int
    """Their bytes."""
    num_brought: int
    """Bytes that were read by this call; the others were there."""


@dataclass(eq=False)
class _Part:
    """The files below one root."""

    root: str
    storage: Storage
    folder: OutputFolder
    columns: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Columns to check, by file."""
    sizes: dict[str, int] = field(default_factory=dict)

    def name_of(self, file: str) -> str:
        """Return the name of a file below the root."""
        return file.removeprefix(f"{self.root}/")

    @property
    def left(self) -> list[str]:
        """Files that are not in the output."""
        size = self.folder.size
        return [f for f, n in self.sizes.items() if size(self.name_of(f)) != n]

    def settings(self) -> dict[str, Any]:
        """Return what must be the same when the work is continued."""
        files = sorted(self.sizes)
        versions = zip(files, self.storage.versions(files), strict=True)
        text = "\n".join(
            f"{self.name_of(file)} {version}" for file, version in versions
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
        return {"source": self.root, "files": len(files), "versions": digest}

    def begin(self) -> None:
        """Record that the work begins, unless it did.

        Raises:
            InvalidArgumentError: If the folder holds other files, or files of another
                state of the source.
        """
        settings, folder = self.settings(), self.folder
        noted, begun = read_record(folder, _RECORD), read_record(folder, JOB)
        if noted or begun:
            check_same_job(folder.path, (noted or begun).get("settings"), settings)
        if begun is None:
            wanted = [folder.path_of(self.name_of(file)) for file in self.sizes]
            # A kill may leave the folder of unfinished work, and nothing in it.
            with suppress(FileAccessError):
                for other in Storage().list_files(folder.path):
                    if noted is None or other not in wanted:
                        raise InvalidArgumentError(
                            f"{other} is there already, and would be read with what is "
                            "staged: choose another output, or remove it"
                        )
        note_job(folder, {"settings": settings})

    def bring(
        self,
        file: str,
        advance: Callable[[int], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        """Copy a file, check its pages, and give it its name."""
        name = self.name_of(file)
        draft = f"{UNFINISHED}/{hashlib.sha256(name.encode()).hexdigest()[:24]}.parquet"
        if self.folder.size(draft) != self.sizes[file]:
            with self.folder.writer(draft) as out:
                for part in self.storage.parts(file, 0, self.sizes[file], _PART_BYTES):
                    if is_cancelled():
                        raise CancelledError("staging was cancelled")
                    out.write(part)
                    advance(len(part))
        path, target = self.folder.path_of(draft), self.folder.path_of(name)
        try:
            for column in sorted(self.columns[file]):
                index = PageIndex.build(path, column=column)
                for page in range(len(index)):
                    index.read_page(page)
        except PagefeedError as error:
            self.folder.remove([os.path.basename(draft)], UNFINISHED)
            error.file = file
            error.args = (str(error.args[0]).replace(path, file), *error.args[1:])
            raise
        with write_errors(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(path, target)

    def finish(self) -> None:
        """Bring manifests whose files are all here, and forget the work."""
        for folder in {os.path.dirname(file) for file in self.sizes}:
            path = f"{folder}/{MANIFEST}"
            if is_url(path) and folder not in self.storage.finished:
                continue
            try:
                data = self.storage.read_all(path)
            except MissingFileError:
                continue
            with parsing(path, "no manifest of files; put it back, or remove it"):
                named = [entry["file"] for entry in json_value(data, path)["shards"]]
            if all(f"{folder}/{name}" in self.sizes for name in named):
                self.folder.write(self.name_of(path), data)
        write_record(self.folder, _RECORD, {"settings": self.settings()})
        self.folder.remove(self.folder.names(UNFINISHED), UNFINISHED)


def stage(
    run: AnyLoader | Source,
    output: PathLike,
    *,
    rate: int | str | None = None,
    num_threads: int = 8,
) -> Staged:
    """Copy the Parquet files of a run to a local disk, whole and checked.

    Loaders then read the folders of ``Staged.folders`` in place of the old ones. States
    of the old files continue with the new ones, and the order is the same. A file
    appears when it is complete and its pages were read without an error. Start a killed
    call again to continue it.

    Args:
        run: A loader, a mixture or a dataset of Parquet files, local or remote.
        output: A folder of this machine. Files keep their places below the folder that
            all have in common.
        rate: Most bytes a second, such as ``"500MB"``, for a file server that others
            use too.
        num_threads: Files that are copied at the same time.

    Returns:
        The new folders, and what was copied.

    Raises:
        InvalidArgumentError: If the output holds other files, or files of another state
            of these.
        UnsupportedError: If a dataset is not Parquet, or a snapshot of a table.
        FileAccessError: If the disk is too small, or a file cannot be read or written.
        CorruptFileError: If a page of a file is damaged; names the old file.

    Example:
        >>> done = stage(dataset, "staged", rate="1GB")  # doctest: +SKIP
        >>> done.folders  # doctest: +SKIP
        {'/.../corpus/web': '/.../staged'}
    """
    most = None if rate is None else max(1, parse_bytes(rate, name="rate"))
    check_positive(num_threads, "num_threads")
    base = output_folder(output, None, "output", buckets=False)
    parts = _parts_of(run, base)
    total = sum(sum(part.sizes.values()) for part in parts)
    waiting = sum(part.sizes[file] for part in parts for file in part.left)
    base.check_room(
        waiting,
        f'leave the files there and give the dataset storage_cache="{total // 4}" and '
        "storage_options={'storage_cache_dir': ...}, which keeps the pages that are "
        "read in as much room as there is",
    )
    stop, begun = threading.Event(), time.monotonic()

    def advance(num_bytes: int) -> None:
        work.count(num_bytes)
        due = work.counted / most if most else 0.0
        stop.wait(max(0.0, begun + due - time.monotonic()))

    with ExitStack() as stack:
        for part in parts:
            part.begin()
            stack.enter_context(part.folder.claimed(_LOCK))
            remove_drafts(part.folder, ".+")
        work = stack.enter_context(ThreadedWork("staging", total=waiting, unit="bytes"))
        tasks = [
            partial(part.bring, file, advance, stop.is_set)
            for part in parts
            for file in part.left
        ]
        run_threads(tasks, num_threads, stop, work.tell)
        for part in parts:
            part.finish()
    return Staged(
        folders={part.root: part.folder.path for part in parts},
        num_files=sum(len(part.sizes) for part in parts),
        num_bytes=total,
        num_brought=work.counted,
    )


def _parts_of(run: object, base: OutputFolder) -> list[_Part]:
    """Return the files of a run by their roots.

    Raises:
        InvalidArgumentError: If it is of another type.
        UnsupportedError: If its files are not all of its data.
    """
    source = run.dataset if isinstance(run, AnyLoader) else run
    if not isinstance(source, Source):
        raise InvalidArgumentError(
            f"stage takes a loader, a mixture or a dataset, found {type(run).__name__}"
        )
    parts: dict[str, _Part] = {}
    for dataset in source.parts.values():
        if not isinstance(dataset, ParquetDataset) or dataset.table is not None:
            raise UnsupportedError(
                f"{dataset!r:.60} is not made of Parquet files alone: copy its folder "
                "or table as a whole, or give storage_cache"
            )
        root = os.path.commonpath(
            [os.path.dirname(f) for f in map(_path, dataset.files)]
        )
        while "=" in os.path.basename(root):  # Names of folders are columns.
            root = os.path.dirname(root)
        first = dataset.files[0]
        root = first[: len(root) - len(_path(first)) + len(first)]
        part = parts.setdefault(root, _Part(root, dataset.storage, base))
        columns = {dataset.column, *(column.column for column in dataset.aligned)}
        for column in columns:
            dataset.column_index(column)  # Before any file is copied.
        for file in dataset.files:
            part.columns[file] |= columns
            part.sizes[file] = dataset.storage.size(file)
    common = os.path.commonpath([*map(_path, parts)])
    for root, part in parts.items():
        below = os.path.relpath(_path(root), common)
        part.folder = OutputFolder(os.path.normpath(os.path.join(base.path, below)))
    return [*parts.values()]


def _path(file: str) -> str:
    """Return a file or URL as an absolute path, to compare it with others."""
    return f"/{file.replace('://', '/')}" if is_url(file) else file
