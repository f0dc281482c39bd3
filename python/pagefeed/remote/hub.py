"""Datasets and buckets of the Hugging Face hub: their URLs, and their files."""

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
_BUCKET = re.compile(r"hf://(buckets/[^/@]+/[^/@]+)(?:/(.*))?", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-fA-F]{40}")

_UNEXPECTED = "the hub's answer is not as expected"

File = tuple[str, int, str]
"""URL, bytes and version of a file."""


def is_of_hub(url: str) -> bool:
    """Return whether a URL names something on the hub."""
    return url.startswith("hf://")


class _Address(NamedTuple):
    place: str
    """``datasets/OWNER/NAME`` or ``buckets/OWNER/NAME``."""
    revision: str
    """Empty for a bucket, which has no commits."""
    path: str

    @classmethod
    def of(cls, url: str) -> _Address:
        match = _URL.fullmatch(url)
        bucket = _BUCKET.fullmatch(url)
        if match is None and bucket is None:
            shown = re.sub(r"//[^/]*@", "//...@", url.partition("?")[0])
            raise InvalidArgumentError(
                f"{shown} should be hf://datasets/OWNER/NAME/PATH, or "
                "OWNER/NAME@REVISION for a branch, tag or commit, or "
                "hf://buckets/OWNER/NAME/PATH"
            )
        if match is None:
            place, path = bucket.groups()  # type: ignore[union-attr]
            revision = ""
        else:
            owner, name, revision, path = match.groups()
            place = f"datasets/{owner}/{name}"
        parts = (path or "").removesuffix("/").split("/")
        if path and not {"", ".", ".."}.isdisjoint(parts):
            raise InvalidArgumentError(
                f"{url.partition('?')[0]} has //, /./ or /../ in it: write the path as "
                "the hub shows it"
            )
        # Other slashes in a revision are written %2F, as in the hub's own library.
        if bucket is None:
            revision = (revision or "main").replace("%2F", "/")
        if revision == "~parquet":
            revision = "refs/convert/parquet"
        return cls(place, revision, path or "")


class Hub:
    """Metadata of files on the hub, through the connections of the data plane.

    Args:
        handle: The storage as the data plane takes it.
        endpoint: The hub's address.
    """

    def __init__(self, handle: _core.Remote, endpoint: str) -> None:
        self._handle, self._endpoint = handle, endpoint
        self._commits: dict[tuple[str, str], str] = {}

    def pinned(self, url: str) -> str:
        """Return a URL with the commit instead of a branch or tag.

        Buckets have no commits: their URLs stay, and ETags tell of changes.

        Raises:
            InvalidArgumentError: If the URL is not one of a dataset or bucket.
            MissingFileError: If there is no such dataset or revision.
        """
        place, revision, path = _Address.of(url)
        if not revision:
            return url
        if not _COMMIT.fullmatch(revision):
            name = f"{place}/revision/{quote(revision, safe='')}"
            if (place, revision) not in self._commits:
                answer, _ = self._ask(f"{self._endpoint}/api/{name}", url)
                commit = answer.get("sha") if isinstance(answer, dict) else None
                if not isinstance(commit, str):
                    raise _unexpected(url, "no commit")
                # When two threads ask at the same time, the first answer holds.
                self._commits.setdefault((place, revision), commit)
            revision = self._commits[place, revision]
        return f"hf://{place}@{revision}/{path}"

    def list_files(self, url: str) -> list[File]:
        """Return the files below a folder, sorted by name."""
        place, commit, path = _Address.of(self.pinned(url))
        folder = path.rstrip("/")
        # The hub's own library writes the prefix of a bucket as one step.
        names = quote(f"{commit}/{folder}") if commit else quote(f"{folder}", safe="")
        tree = f"{self._endpoint}/api/{place}/tree/{names}".rstrip("/")
        page: str | None = f"{tree}?recursive=true"
        base = f"hf://{place}@{commit}" if commit else f"hf://{place}"
        files = set[File]()
        while page is not None:
            entries, page = self._ask(page, url)
            if not isinstance(entries, list):
                raise _unexpected(url, "no list of files")
            with parsing(url, _UNEXPECTED, FileAccessError):
                for entry in entries:
                    if entry["type"] != "file":
                        continue
                    has_oid = entry.get("lfs") or entry
                    version = has_oid["oid"] if commit else entry["xetHash"]
                    name = f"{base}/{entry['path']}"
                    file = (name, int(entry["size"]), str(version))
                    # A prefix of a bucket may also be the beginning of another name.
                    if commit or not folder or name.startswith(f"{base}/{folder}/"):
                        files.add(file)
        listed = sorted(files)
        self._handle.note(listed)
        return listed

    def _ask(self, address: str, url: str) -> tuple[Any, str | None]:
        answer, following = self._handle.ask_hub(address, url)
        return json_value(answer, url, _UNEXPECTED, FileAccessError), following


def _unexpected(url: str, problem: str) -> FileAccessError:
    text = f"{url}: {_UNEXPECTED}: {problem}"
    return FileAccessError(text).at(file=url)
