"""Objects, web servers and the hub, beside the files of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pagefeed import _core
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
)
from pagefeed.storage.arrow_files import arrow_filesystem_of
from pagefeed.storage.hub import Hub, is_of_hub
from pagefeed.storage.options import StorageOptions, core_settings, texts_of
from pagefeed.storage.paths import (
    PARQUET,
    Paths,
    check_files_given,
    is_hidden,
    nothing_listed,
    plain_paths,
)
from pagefeed.storage.storage import LocalStorage, Storage
from pagefeed.storage.urls import is_url, listed_folder, matches

__all__ = ["Located", "RemoteStorage", "StorageOptions", "located"]

_SECRET = re.compile(r"key|secret|token|password|authorization|credential|sas|account")


class RemoteStorage:
    """Files named by URLs, and by paths of this machine.

    Args:
        options: Endpoint, region, credentials and the like; what is not given comes
            from the environment. See ``docs/remote.md``.
        lost: Names of secrets that did not travel here from another process.

    Raises:
        InvalidArgumentError: If an option cannot be right.
        UnsupportedError: If this build of pagefeed has no remote storage.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, lost: tuple[str, ...] = ()
    ) -> None:
        self._options = dict(options or {})
        self._lost = lost
        settings = core_settings(self._options)
        self.handle = _handle(settings, lost)
        """The storage as the data plane takes it."""
        self._hub = Hub(self.handle, settings["hub_endpoint"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteStorage) and self._options == other._options

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self._options))})"

    def __reduce__(self) -> tuple[type[RemoteStorage], tuple[Any, ...]]:
        """Pickle without secrets: other processes have them from the environment."""
        secret = tuple(name for name in self._options if _SECRET.search(name.lower()))
        public = {k: v for k, v in self._options.items() if k not in secret}
        return type(self), (public, tuple(sorted({*secret, *self._lost})))

    def list_files(
        self, paths: Paths, suffixes: tuple[str, ...] = PARQUET
    ) -> list[str]:
        """Return the files meant by URLs, folders and patterns, in order.

        Raises:
            MissingFileError: If there is nothing at a URL.
            InvalidArgumentError: If nothing is given, or a file is given twice.
        """
        given = plain_paths(paths)
        single = [path for path in given if _is_one_file(path, suffixes)]
        # All at one time: each waits for the network.
        names = [name for name, _, _ in self._find(single)]
        found = dict(zip(single, names, strict=True))
        return check_files_given(
            given, lambda path: self._expand(path, suffixes, found)
        )

    def name_of(self, path: str) -> str:
        """Return the URL of a file as it is listed: on the hub, with its commit."""
        if not is_url(path):
            return LocalStorage().name_of(path)
        return self._hub.pinned(path) if is_of_hub(path) else path

    def version(self, file: str) -> str:
        """Return size and version (ETag) of a file."""
        if not is_url(file):
            return LocalStorage().version(file)
        [(_, size, version)] = self._find([file])
        return f"{size} {version}"

    def size(self, file: str) -> int:
        """Return the bytes of a file."""
        if not is_url(file):
            return LocalStorage().size(file)
        return self._find([file])[0][1]

    def read(self, file: str, begin: int, end: int) -> bytes:
        """Read bytes ``[begin, end)`` of a file.

        Raises:
            StaleFileError: If the file ends before.
        """
        if not is_url(file):
            return LocalStorage().read(file, begin, end)
        return self.handle.read(file, begin, end)

    def arrow_filesystem(self) -> Any:  # noqa: ANN401
        """Return a ``pyarrow.fs.FileSystem`` over this storage.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        return arrow_filesystem_of(self)

    def counts(self) -> dict[str, int]:
        """Return what was sent so far: requests, retries, bytes and the like."""
        return self.handle.counts()

    def _find(self, urls: list[str]) -> list[tuple[str, int, str]]:
        pinned = [self.name_of(url) for url in urls]
        return self.handle.find(pinned)

    def _expand(
        self, path: str, suffixes: tuple[str, ...], found: Mapping[str, str]
    ) -> Iterator[str]:
        if not is_url(path):
            yield from LocalStorage().list_files(path, suffixes)
            return
        folder = listed_folder(path)
        if path in found:
            yield found[path]
        elif folder is not None:
            pattern = path.removeprefix(folder)
            yield from self._listed(
                path, folder, suffixes, lambda name: matches(name, pattern)
            )
        else:
            yield from self._folder_or_file(path, suffixes)

    def _folder_or_file(self, path: str, suffixes: tuple[str, ...]) -> Iterable[str]:
        folder = path if path.endswith("/") else f"{path}/"
        try:
            return self._listed(
                path, folder, suffixes, lambda name: name.endswith(suffixes)
            )
        except MissingFileError:
            if path.endswith("/"):
                raise
        return [self._find([path])[0][0]]

    def _listed(
        self,
        path: str,
        folder: str,
        suffixes: tuple[str, ...],
        is_meant: Callable[[str], bool],
    ) -> list[str]:
        """Files below a folder that are meant, by their names below it."""
        files = []
        place = self._hub if is_of_hub(folder) else self.handle
        folder = self.name_of(folder)
        for url, _, _ in place.list_files(folder):
            name = url.removeprefix(folder)
            if is_meant(name) and not any(map(is_hidden, name.split("/"))):
                files.append(url)
        if not files:
            raise nothing_listed(path, suffixes)
        return files


class Located(NamedTuple):
    """Files, and the storage that has them."""

    storage: Storage
    files: tuple[str, ...]
    """As the storage names them, in order."""


def located(
    paths: Paths,
    options: StorageOptions | None = None,
    suffixes: tuple[str, ...] = PARQUET,
) -> Located:
    """Find the files meant by paths, URLs, folders and patterns.

    A folder stands for the files below whose names end in one of ``suffixes``.

    Raises:
        MissingFileError: If there is nothing at one of them.
        InvalidArgumentError: If nothing is given, a file is given twice, or options are
            given for local files.
        UnsupportedError: If this build of pagefeed has no remote storage.
    """
    given = plain_paths(paths)
    is_remote = any(map(is_url, given))
    storage = _storage(options, is_remote=is_remote)
    return Located(storage, tuple(storage.list_files(given, suffixes)))


def _storage(options: StorageOptions | None, *, is_remote: bool) -> Storage:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(
            "storage_options must be a dict such as {'region': 'eu-west-1'}, "
            f"found {type(options).__name__}"
        )
    if is_remote:
        return RemoteStorage(texts_of(options or {}))
    if options:
        raise InvalidArgumentError(
            f"storage_options {', '.join(map(str, options))} are of remote storage, "
            "and all paths are local: a URL is like s3://bucket/folder/"
        )
    return LocalStorage()


def _is_one_file(path: str, suffixes: tuple[str, ...]) -> bool:
    """Tell whether a URL names a file by its form: others may be folders."""
    is_page = path.startswith(("http://", "https://")) and not path.endswith("/")
    is_named = path.endswith(suffixes) or is_page
    return is_url(path) and is_named and listed_folder(path) is None


def _handle(settings: dict[str, Any], lost: tuple[str, ...]) -> _core.Remote:
    if not hasattr(_core, "Remote"):
        raise UnsupportedError(
            "this build of pagefeed reads local files only, as `make demo` builds it: "
            "`pip install .` builds all of it"
        )
    return _core.Remote(settings, lost)
