"""Manifests of folders that jobs of pagefeed wrote, compared with their files."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pagefeed.core.dataset import PageIndex
from pagefeed.core.storage import MANIFEST, Paths, Storage, is_url, plain_paths
from pagefeed.errors import MissingFileError, PagefeedError, StaleFileError
from pagefeed.parsing import json_value, parsing


def check_listed(storage: Storage, files: Iterable[str], paths: Paths) -> None:
    """Compare the names and sizes of files with the manifests of their folders.

    Names are compared in folders that were given as a whole.

    Raises:
        StaleFileError: If a file is missing, was added, or has another size.
    """
    whole = [f"{storage.name_of(path).rstrip('/')}/" for path in plain_paths(paths)]
    for folder, listed, here in _manifests(storage, files):
        is_whole = any(f"{folder}/".startswith(begin) for begin in whole)
        lacking = sorted(listed.keys() - here) if is_whole else []
        added = sorted(here - listed.keys()) if is_whole else []
        for name in lacking or added:
            what = "is missing" if lacking else "was added"
            advice = "remove it" if added else "put it back"
            raise _differs(folder, name, what, advice)
        for name in sorted(here & listed.keys()):
            size, noted = storage.size(f"{folder}/{name}"), listed[name].get("bytes")
            if noted is not None and size != noted:
                what = f"has {size:,} bytes, and {noted:,} were written"
                raise _differs(folder, name, what, "put the written file back")


def check_written_rows(index: PageIndex) -> None:
    """Compare the rows of files with the manifests of their folders.

    Raises:
        StaleFileError: If a file has another number of rows.
    """
    counts = np.diff(index.file_first_row).tolist()
    rows = dict(zip(index.files, counts, strict=True))
    for folder, listed, here in _manifests(index.storage, index.files):
        for name in sorted(here & listed.keys()):
            noted = listed[name].get("rows", listed[name].get("documents"))
            found = rows[f"{folder}/{name}"]
            if noted is not None and found != noted:
                what = f"has {found:,} rows, and {noted:,} were written"
                raise _differs(folder, name, what, "put the written file back")


def changed_files(storage: Storage, files: Iterable[str]) -> Iterator[PagefeedError]:
    """Yield an error for each file without the digest in the manifest of its folder.

    Reads all bytes of the files.
    """
    for folder, listed, here in _manifests(storage, files):
        for name in sorted(here & listed.keys()):
            digest = hashlib.sha256()
            for part in storage.parts(f"{folder}/{name}"):
                digest.update(part)
            if digest.hexdigest() != listed[name].get("sha256", digest.hexdigest()):
                what = "has other bytes than were written (SHA-256)"
                yield _differs(folder, name, what, "put the written file back")


def _manifests(
    storage: Storage, files: Iterable[str]
) -> Iterator[tuple[str, dict[str, Any], set[str]]]:
    """Yield folders with a manifest of pagefeed: entries of files, and names found."""
    names = defaultdict[str, set[str]](set)
    for file in files:
        folder, _, name = file.rpartition("/")
        names[folder].add(name)
    for folder, here in names.items():
        path = f"{folder}/{MANIFEST}"
        if is_url(path) and folder not in storage.finished:
            continue
        try:
            content = json_value(storage.read_all(path), path)
        except MissingFileError:
            continue
        with parsing(path, "no manifest; put it back, or remove it"):
            if str(content.get("format", "")).startswith("pagefeed"):
                yield (
                    folder,
                    {entry["file"]: entry for entry in content["shards"]},
                    here,
                )


def _differs(folder: str, name: str, what: str, advice: str) -> StaleFileError:
    path = f"{folder}/{name}"
    return StaleFileError(
        f"{path} {what}, as {MANIFEST} there says: {advice}, or remove {MANIFEST} "
        "if the folder is meant to be so"
    ).at(file=path)
