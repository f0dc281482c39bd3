"""Folders in buckets of the hub that are written to, by the hub's own library.

Contents go to Xet, which cuts them into chunks and packs them: ``hf_xet`` knows how.
Then one request gives them names in the bucket. The hub has no conditional writes: of
several processes that write one name, the last one wins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pagefeed.core._base import require
from pagefeed.errors import FileAccessError, MissingFileError
from pagefeed.remote.hub import Hub
from pagefeed.remote.outputs import BucketFolder, OutputFolder, Version
from pagefeed.remote.remote_storage import RemoteStorage
from pagefeed.remote.writing import FileWriter


class HubFolder(BucketFolder):
    """A folder in a bucket of the hub.

    Args:
        url: Its URL, ``hf://buckets/OWNER/NAME/PATH``.
        storage: Storage of the hub.
        endpoint: Address of the hub.
        token: Token of the user; None for that of a login.

    Raises:
        MissingDependencyError: If the library that writes to the hub is not installed.
    """

    def __init__(
        self, url: str, storage: RemoteStorage, endpoint: str, token: str | None
    ) -> None:
        super().__init__(url, storage)
        library, _ = (
            require(name, extra="hub", purpose="writing to buckets of the hub")
            for name in ("huggingface_hub", "hf_xet")
        )
        self._api = library.HfApi(endpoint=endpoint, token=token)
        self._hub = Hub(storage.remote, endpoint)
        place, owner, name = url.removeprefix("hf://").split("/", 3)[:3]
        self._bucket, self._base = f"{owner}/{name}", f"hf://{place}/{owner}/{name}/"

    def writer(self, name: str) -> FileWriter:
        """Return a writer of a file, which replaces one of this name."""
        return _HubWriter(self, self.path_of(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        self.add(data, self.path_of(name))

    def add(self, source: bytes | str, url: str) -> None:
        """Give contents, or those of a local file, a name in the bucket."""
        with self._writing(url):
            name = url.removeprefix(self._base)
            self._api.batch_bucket_files(self._bucket, add=[(source, name)])

    def read(self, name: str) -> bytes | None:
        """Return the contents of a small file; None if it does not exist."""
        stored = self.read_version(name)
        return None if stored is None else stored[0]

    def read_version(self, name: str) -> tuple[bytes, Version] | None:
        """Return the contents and version of a file; None if it does not exist."""
        path = self.path_of(name)
        # The storage knows files as they were listed last.
        listed = self._listed(path.rpartition("/")[0] + "/")
        if path not in {url for url, _, _ in listed}:
            return None
        return OutputFolder.read_version(self, name)

    def replace(self, name: str, data: bytes, version: Version | None) -> bool:
        """Write a small file if it has this version; others may do so meanwhile."""
        stored = self.read_version(name)
        if (None if stored is None else stored[1]) == version:
            self.write(name, data)
        return self.read(name) == data

    def remove(self, names: Iterable[str], below: str = "") -> None:
        """Remove files of a folder."""
        folder = self.path_of(below) if below else self.path
        there = {url for url, _, _ in self._listed(f"{folder}/")}
        urls = [url for name in names if (url := f"{folder}/{name}") in there]
        with self._writing(folder):
            gone = [url.removeprefix(self._base) for url in urls]
            self._api.batch_bucket_files(self._bucket, delete=gone)

    def _listed(self, folder: str) -> Iterable[tuple[str, int, str]]:
        try:
            return self._hub.list_files(folder)
        except MissingFileError:
            return []

    @contextmanager
    def _writing(self, url: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - the libraries share none
            answer = getattr(problem, "response", None)
            status = "" if answer is None else f", status {answer.status_code}"
            text = " ".join(f"{problem}".split())
            raise FileAccessError(
                f"{url}: the hub did not take it{status}: {type(problem).__name__}: "
                f"{text:.200}. Check that the token may write to the bucket"
            ).at(file=url) from None


class _HubWriter(FileWriter):
    """Writes a local file, and brings it to the bucket when it is complete."""

    def __init__(self, folder: HubFolder, url: str) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="pagefeed-")
        super().__init__(f"{self._scratch.name}/file")
        self._folder, self._local, self.path = folder, self.path, url

    def commit(self) -> None:
        """Make the file appear in the bucket."""
        if self._file.closed:
            return
        self.path, url = self._local, self.path
        super().commit()
        self.path = url
        self._folder.add(self._local, url)

    def abandon(self) -> None:
        """Remove the local file."""
        super().abandon()
        self._scratch.cleanup()
