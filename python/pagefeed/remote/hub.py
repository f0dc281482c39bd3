"""Datasets of the Hugging Face hub: what their URLs mean, and which files they have."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote

from pagefeed import _core
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.parsing import json_value, parsing

_REVISION = r"refs/(?:convert|pr)/[^/]+|[^/]+"
_URL = re.compile(
    rf"hf://datasets/([^/@]+)/([^/@]+)(?:@({_REVISION}))?(?:/(.*))?", re.DOTALL
)
_COMMIT = re.compile(r"[0-9a-fA-F]{40}")

_UNEXPECTED = "the hub's answer is not as expected"

File = tuple[str, int, str]
"""URL, bytes and version of a file."""


def is_of_hub(url: str) -> bool:
    """Return whether a URL names something on the hub."""
    return url.startswith("hf://")


class _Address(NamedTuple):
    dataset: str
    revision: str
    path: str

    @classmethod
    def of(cls, url: str) -> _Address:
        match = _URL.fullmatch(url)
        if match is None:
            shown = re.sub(r"//[^/]*@", "//...@", url.partition("?")[0])
            raise InvalidArgumentError(
                f"{shown} should be hf://datasets/OWNER/NAME/PATH, or "
                "OWNER/NAME@REVISION for a branch, tag or commit"
            )
        owner, name, revision, path = match.groups()
        parts = (path or "").removesuffix("/").split("/")
        if path and not {"", ".", ".."}.isdisjoint(parts):
            raise InvalidArgumentError(
                f"{url.partition('?')[0]} has //, /./ or /../ in it: write the path as "
                "the hub shows it"
            )
        # Other slashes in a revision are written %2F, as in the hub's own library.
        revision = (revision or "main").replace("%2F", "/")
        if revision == "~parquet":
            revision = "refs/convert/parquet"
        return cls(f"{owner}/{name}", revision, path or "")


class Hub:
    """Metadata of datasets on the hub, through the connections of the data plane.

    Args:
        handle: The storage as the data plane takes it.
        endpoint: The hub's address.
    """

    def __init__(self, handle: _core.Remote, endpoint: str) -> None:
        self._handle, self._endpoint = handle, endpoint
        self._commits: dict[tuple[str, str], str] = {}

    def pinned(self, url: str) -> str:
        """Return a URL with the commit instead of a branch or tag.

        Raises:
            InvalidArgumentError: If the URL is not one of a dataset.
            MissingFileError: If there is no such dataset or revision.
        """
        dataset, revision, path = _Address.of(url)
        if not _COMMIT.fullmatch(revision):
            name = f"{dataset}/revision/{quote(revision, safe='')}"
            if (dataset, revision) not in self._commits:
                answer, _ = self._ask(f"{self._endpoint}/api/datasets/{name}", url)
                commit = answer.get("sha") if isinstance(answer, dict) else None
                if not isinstance(commit, str):
                    raise _unexpected(url, "no commit")
                # When two threads ask at the same time, the first answer holds.
                self._commits.setdefault((dataset, revision), commit)
            revision = self._commits[dataset, revision]
        return f"hf://datasets/{dataset}@{revision}/{path}"

    def list_files(self, url: str) -> list[File]:
        """Return the files below a folder, sorted by name."""
        dataset, commit, path = _Address.of(self.pinned(url))
        names = quote(f"{commit}/{path}".rstrip("/"))
        page: str | None = (
            f"{self._endpoint}/api/datasets/{dataset}/tree/{names}?recursive=true"
        )
        files = []
        while page is not None:
            entries, page = self._ask(page, url)
            if not isinstance(entries, list):
                raise _unexpected(url, "no list of files")
            with parsing(url, _UNEXPECTED, FileAccessError):
                for entry in entries:
                    if entry["type"] == "file":
                        name = f"hf://datasets/{dataset}@{commit}/{entry['path']}"
                        version = str((entry.get("lfs") or entry)["oid"])
                        files.append((name, int(entry["size"]), version))
        self._handle.note(files)
        return sorted(files)

    def _ask(self, address: str, url: str) -> tuple[Any, str | None]:
        answer, following = self._handle.ask_hub(address, url)
        return json_value(answer, url, _UNEXPECTED, FileAccessError), following


def _unexpected(url: str, problem: str) -> FileAccessError:
    text = f"{url}: {_UNEXPECTED}: {problem}"
    return FileAccessError(text).at(file=url)
