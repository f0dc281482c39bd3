"""Files of object stores, web servers and the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pagefeed import _core
from pagefeed.core._base import require, warn_user
from pagefeed.core.storage import (
    MANIFEST,
    PARQUET,
    SHARED_INDEX,
    UNFINISHED,
    PathLike,
    Paths,
    Storage,
    check_files_given,
    check_finished,
    is_hidden,
    is_url,
    nothing_listed,
    plain_path,
    plain_paths,
    tell_of_index,
)
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    PagefeedWarning,
    UnsupportedError,
)
from pagefeed.remote.hub import Hub, is_of_hub
from pagefeed.remote.options import (
    StorageOptions,
    core_settings,
    is_public,
    options_as_texts,
)
from pagefeed.remote.paths import is_meant, listed_folder
from pagefeed.remote.range_file import RangeFile

__all__ = ["RemoteStorage", "StorageOptions", "options_of", "storage_of_options"]


class RemoteStorage(Storage):
    """Files named by URLs, and files of this machine.

    Args:
        options: Endpoint, region, credentials and the like. The environment gives what
            is left out, see ``docs/explanation/remote.md``.
        lost: Names of secrets that were left out when the storage was pickled.
        own: Calls of a store of the user's own, and its identity.

    Raises:
        InvalidArgumentError: If an option is invalid.
        UnsupportedError: If this build of pagefeed has no remote storage.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        lost: tuple[str, ...] = (),
        own: tuple[object, str] = (None, ""),
    ) -> None:
        self._options = dict(options or {})
        self._lost = lost
        settings = core_settings(self._options)
        settings["store"], settings["store_identity"] = own
        self.remote = self.handle = _handle(settings, lost)
        """The storage of the data plane."""
        self._hub = Hub(self.remote, settings["hub_endpoint"])
        self.finished: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteStorage) and self._options == other._options

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self._options))})"

    def __reduce__(self) -> tuple[type[RemoteStorage], tuple[Any, ...]]:
        """Pickle without secrets, which other processes take from the environment."""
        secret = tuple(name for name in self._options if not is_public(name))
        public = {k: v for k, v in self._options.items() if k not in secret}
        return type(self), (public, tuple(sorted({*secret, *self._lost})))

    def list_files(
        self, paths: Paths, suffixes: tuple[str, ...] = PARQUET
    ) -> list[str]:
        """Return the files that URLs, paths, folders and patterns mean, in order."""
        given = plain_paths(paths)
        single = [path for path in given if _is_one_file(path, suffixes)]
        name_of = self._names_of(single, suffixes)
        return check_files_given(
            given, lambda path: self._expand(path, suffixes, name_of)
        )

    def name_of(self, path: str) -> str:
        """Return the URL of a file as listings have it; on the hub, with its commit."""
        if not is_url(path):
            return super().name_of(path)
        return self._hub.pinned(path) if is_of_hub(path) else path

    def version(self, file: str) -> str:
        """Return size and version (ETag) of a file."""
        if not is_url(file):
            return super().versions([file])[0]
        [(_, size, version)] = self._find([file])
        return f"{size} {version}"

    def versions(self, files: Sequence[str]) -> list[str]:
        """Return size and version of each file, as listed.

        Files that were not listed are asked for together.
        """
        if not all(map(is_url, files)):
            return [self.version(file) for file in files]
        listed = self._find([*files], as_listed=True)
        return [f"{size} {version}" for _, size, version in listed]

    def written(self, file: str) -> int:
        """Return when a local file was last written, in nanoseconds; 0 if remote."""
        return 0 if is_url(file) else super().written(file)

    def size(self, file: str) -> int:
        """Return the bytes of a file."""
        if is_url(file):
            return self._find([file])[0][1]
        return super().size(file)

    def read(self, file: str, begin: int, end: int) -> bytes:
        """Read bytes ``[begin, end)`` of a file, which must have them."""
        if is_url(file):
            return self.remote.read(file, begin, end)
        return super().read(file, begin, end)

    def open_arrow(self, file: str) -> Any:
        """Open a file as a ``pyarrow.NativeFile``."""
        arrow = require("pyarrow", extra="pyarrow", purpose="reading columns")
        return arrow.PythonFile(RangeFile(self, file), mode="r")

    def counts(self) -> dict[str, int]:
        """Return counts of requests, retries and bytes."""
        return self.remote.counts()

    def _find(
        self, urls: list[str], *, as_listed: bool = False
    ) -> list[tuple[str, int, str]]:
        pinned = [self.name_of(url) for url in urls]
        return self.remote.find(pinned, as_listed=as_listed)

    def _names_of(self, single: list[str], suffixes: tuple[str, ...]) -> dict[str, str]:
        """Return the URLs of files as listings have them, without folders among them.

        Spark writes folders that are called like files: ``out.parquet/part-0.parquet``.
        """
        while True:
            try:  # All names in one call, since a call waits for the network.
                names = [name for name, _, _ in self._find(single)]
            except MissingFileError as error:
                others = [path for path in single if self.name_of(path) != error.file]
                [folder] = {*single} - {*others} or {""}
                if not folder or folder.startswith(("http://", "https://")):
                    raise
                try:
                    self._folder_or_file(f"{folder}/", suffixes)
                except MissingFileError:
                    raise error from None
                single = others
            else:
                return dict(zip(single, names, strict=True))

    def _expand(
        self, path: str, suffixes: tuple[str, ...], name_of: Mapping[str, str]
    ) -> Iterator[str]:
        if not is_url(path):
            yield from super().list_files(path, suffixes)
            return
        folder = listed_folder(path)
        if path in name_of:
            yield name_of[path]
        elif folder is not None:
            yield from self._named_or_matched(path, folder, suffixes)
        else:
            yield from self._folder_or_file(path, suffixes)

    def _named_or_matched(
        self, path: str, folder: str, suffixes: tuple[str, ...]
    ) -> list[str]:
        """Return the files of a name with wildcards, as a name or else as a pattern."""
        pattern = path.removeprefix(folder)
        below = f"{pattern.rstrip('/')}/"

        def is_named(name: str) -> bool:
            return name == pattern or (
                name.startswith(below) and name.endswith(suffixes)
            )

        files = self._listed(
            path,
            folder,
            suffixes,
            lambda name: is_named(name) or is_meant(name, pattern, suffixes),
        )
        begin = self.name_of(folder)
        named = [file for file in files if is_named(file.removeprefix(begin))]
        return named or files

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
        """Return the files below a folder whose names below it are meant."""
        files, begun, ended = [], set[str](), set[str]()
        source = self._hub if is_of_hub(folder) else self.remote
        folder = self.name_of(folder)
        before = self.counts()["names_skipped"]
        for url, _, _ in source.list_files(folder):
            name = url.removeprefix(folder)
            if name.startswith(f"{SHARED_INDEX}/"):
                tell_of_index(folder)
            if is_meant(name) and not any(map(is_hidden, name.split("/"))):
                files.append(url)
            elif f"/{UNFINISHED}/" in url:
                begun.add(url.partition(f"/{UNFINISHED}/")[0])
            elif url.endswith(f"/{MANIFEST}"):
                ended.add(url.rpartition("/")[0])
        if skipped := self.counts()["names_skipped"] - before:
            warn_user(
                f"{path}: {skipped} names were left out, with //, /./, /../ or control "
                "signs in them: no URL can name these; copy the objects to other names",
                PagefeedWarning,
            )
        self.finished |= ended
        for output in sorted(begun):
            check_finished(output, is_begun=True, is_ended=output in ended)
        if not files:
            raise nothing_listed(path, suffixes)
        return files


def options_of(
    paths: Paths, options: StorageOptions | None, other: PathLike
) -> StorageOptions | None:
    """Return the options for some paths; none if all of them are local.

    Example:
        >>> options_of("corpus/", {"region": "here"}, "s3://bucket/out")
        >>> options_of("corpus/", {"region": "here"}, "out")
        {'region': 'here'}
    """
    if is_url(plain_path(other, "output")) and not any(map(is_url, plain_paths(paths))):
        return None
    return options


def storage_of_options(
    options: Mapping[str, object] | None,
    is_remote: bool,  # noqa: FBT001 - as the core's type of it says
) -> Storage:
    """Return the storage of files with these settings.

    Raises:
        InvalidArgumentError: If all files are local, and there are settings other than
            those of the cache.
    """
    texts = options_as_texts(options)
    others = texts.keys() - (_OF_MOUNTS if "storage_cache" in texts else ())
    if is_remote or (texts and not others):
        return RemoteStorage(texts)
    if others:
        raise InvalidArgumentError(
            f"storage_options {', '.join(sorted(others))} are for remote storage, "
            "but all paths are local: leave them out, or give a URL such as "
            "s3://bucket/folder/"
        )
    return Storage()


_OF_MOUNTS = {"storage_cache", "storage_cache_dir", "max_in_flight"}
"""Settings for files of mounted folders too."""


def _is_one_file(path: str, suffixes: tuple[str, ...]) -> bool:
    """Whether the form of a URL shows that it is a file, not a folder."""
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
