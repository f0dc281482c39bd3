"""Folders that are written to: of this machine, and of buckets."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from pagefeed import _core
from pagefeed.core._base import format_bytes
from pagefeed.core.storage import (
    Storage,
    is_url,
    local_path,
    names_in,
    plain_path,
    write_errors,
)
from pagefeed.errors import (
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
)
from pagefeed.remote.options import (
    StorageOptions,
    core_settings,
    options_as_texts,
)
from pagefeed.remote.remote_storage import RemoteStorage
from pagefeed.remote.writing import (
    FileWriter,
    locked,
    make_folder,
    remove_files,
    this_process,
)

Version = tuple[str | None, str | None]
"""Entity tag and version of a file, which identify its contents."""
PART_BYTES = 16 << 20
"""Bytes of a part of an upload; 10,000 parts, the most allowed, are 160 GB."""
_PARTS_AT_A_TIME = 2
_UPLOAD = ".upload"
_LOCK = ".pagefeed.lock"


class OutputFolder:
    """A folder of this machine; files in it appear complete or not at all.

    Args:
        path: Path of the folder.

    Raises:
        FileAccessError: If it cannot be written, here and later.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = OutputFolder(place)
        ...     folder.write("a/b.txt", b"abc")
        ...     folder.read("a/b.txt"), folder.names(), folder.names("a")
        (b'abc', ['a'], ['b.txt'])
    """

    def __init__(self, path: str) -> None:
        self.path = path
        """Path or URL, without a slash at the end."""
        self.storage: Storage = Storage()
        """The storage of the folder."""

    def path_of(self, name: str) -> str:
        """Return the path of a file of the folder."""
        return f"{self.path}/{name}"

    def writer(self, name: str) -> FileWriter | ObjectWriter:
        """Return a writer of a file, which replaces one of this name."""
        path = self.path_of(name)
        make_folder(os.path.dirname(path))
        return FileWriter(path)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file."""
        with self.writer(name) as out:
            out.write(data)

    def read(self, name: str) -> bytes | None:
        """Return the contents of a small file; None if it does not exist."""
        with suppress(MissingFileError):
            return self.storage.read_all(self.path_of(name))
        return None

    def read_version(self, name: str) -> tuple[bytes, Version] | None:
        """Return the contents and version of a file.

        None if it does not exist.
        """
        path = self.path_of(name)
        try:
            contents = self.storage.read(path, 0, self.storage.size(path))
        except MissingFileError:
            return None
        return contents, (hashlib.sha256(contents).hexdigest(), None)

    def replace(self, name: str, data: bytes, version: Version | None) -> bool:
        """Write a small file if its version is still ``version``, or None if it is new.

        Returns:
            Whether it was written: else another process was first.
        """
        make_folder(self.path)
        with locked(self.path_of(_LOCK)):
            stored = self.read_version(name)
            if (None if stored is None else stored[1]) != version:
                return stored is not None and stored[0] == data
            # The address of a file may be a key to it.
            is_private = b"https://" in data or b"http://" in data
            path = self.path_of(name)
            make_folder(os.path.dirname(path))
            with FileWriter(path, is_private=is_private) as out:
                out.write(data)
            return True

    def names(self, below: str = "") -> list[str]:
        """Return the sorted names of files and folders in the folder."""
        return names_in(self.path_of(below) if below else self.path)

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None if it does not exist."""
        try:
            return self.storage.size(self.path_of(name))
        except MissingFileError:
            return None

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file in the folder, by name."""
        files = (name for name in self.names() if os.path.isfile(self.path_of(name)))
        return {name: self.storage.size(self.path_of(name)) for name in files}

    def remove(self, names: Iterable[str], below: str = "") -> None:
        """Remove files of a folder, and the folder if it is empty."""
        remove_files(self.path_of(below) if below else self.path, names)

    def check_room(self, num_bytes: int, advice: str) -> None:
        """Check that the disk has room for files, before they are written.

        Raises:
            FileAccessError: If it has not; the message ends with the advice.
        """
        make_folder(self.path)
        with write_errors(self.path):
            free = shutil.disk_usage(self.path).free
        if free < num_bytes:
            raise FileAccessError(
                f"{self.path} has room for {format_bytes(free)}, and "
                f"{format_bytes(num_bytes)} will be written: give a larger disk, or "
                f"{advice}"
            ).at(file=self.path)

    @contextmanager
    def claimed(self, lock: str) -> Iterator[None]:
        """Hold the folder, so that no other process writes it.

        Raises:
            FileAccessError: If another process does; the message names it.
        """
        make_folder(self.path)
        with locked(self.path_of(lock)):
            yield

    def check_claim(self) -> None:
        """Check that no other process took the folder over."""


class BucketFolder(OutputFolder):
    """A folder of a bucket."""

    def __init__(self, url: str, storage: RemoteStorage) -> None:
        super().__init__(url)
        self.storage: RemoteStorage = storage
        self._owner = self._token = ""

    @property
    def _handle(self) -> _core.Remote:
        return self.storage.remote

    def writer(self, name: str) -> FileWriter:
        """Return a writer of a file, which replaces one of this name."""
        return ObjectWriter(self.path_of(name), self.storage)

    def read(self, name: str) -> bytes | None:
        """Return the contents of a small file; None if it does not exist."""
        stored = self.read_version(name)  # One request.
        return None if stored is None else stored[0]

    def read_version(self, name: str) -> tuple[bytes, Version] | None:
        """Return the contents and version of a file; None if it does not exist."""
        return self._handle.fetch(self.path_of(name))

    def replace(self, name: str, data: bytes, version: Version | None) -> bool:
        """Write a small file on the condition of its version."""
        new = version is None
        done = self._handle.put(self.path_of(name), data, new=new, unchanged=version)
        return done is not None

    def check_room(self, num_bytes: int, advice: str) -> None:
        """Do nothing: a bucket has room."""

    def names(self, below: str = "") -> list[str]:
        """Return the sorted names of files and folders in the folder."""
        folder = f"{self.path_of(below)}/" if below else f"{self.path}/"
        listed = (url.removeprefix(folder) for url, _, _ in self._listed(folder))
        return sorted({name.partition("/")[0] for name in listed})

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file in the folder, by name."""
        listed = self._listed(f"{self.path}/")
        size_of = {url.removeprefix(f"{self.path}/"): size for url, size, _ in listed}
        return {name: size for name, size in size_of.items() if "/" not in name}

    def _listed(self, folder: str) -> Iterable[tuple[str, int, str]]:
        try:
            return self._handle.list_files(folder)
        except MissingFileError:
            return []

    def remove(self, names: Iterable[str], below: str = "") -> None:
        """Remove files of a folder."""
        folder = self.path_of(below) if below else self.path
        urls = [f"{folder}/{name}" for name in names]
        for url in urls:
            if url.endswith(_UPLOAD):
                _abort(self._handle, url)
        self._handle.remove(urls)

    @contextmanager
    def claimed(self, lock: str) -> Iterator[None]:
        """Own the folder while the block runs; an earlier owner ends at its next check.

        A bucket has no lock that ends with its process: the latest one continues.
        """
        self._owner = lock
        self._token = f"{this_process()} {secrets.token_hex(8)}"
        self.write(lock, self._token.encode())
        try:
            yield
            self.check_claim()
        except FileAccessError:
            raise  # The storage may be away, or another process has the folder.
        except BaseException:
            with suppress(FileAccessError):
                self.check_claim()
                self.remove([lock])
            raise
        self.remove([lock])

    def check_claim(self) -> None:
        """Check that no other process took the folder over."""
        if not self._token:
            return
        owner = self.read(self._owner)
        if owner != self._token.encode():
            other = (owner or b"another process").decode().rpartition(" ")[0]
            raise FileAccessError(
                f"{self.path} was taken over by {other}, which continues after the "
                "finished parts; this process ends"
            )


class ObjectWriter(FileWriter):
    """Writes an object of a bucket, which appears when it is complete.

    Long objects are uploaded in parts. Until an upload ends, a file ``.NAME.upload`` in
    the folder records it, so that parts of killed processes can be removed.
    """

    def __init__(self, url: str, storage: RemoteStorage) -> None:
        self.path = url
        self.size = 0
        self._handle = storage.remote
        self._waiting = bytearray()
        folder, _, name = url.rpartition("/")
        self._note = f"{folder}/.{name}{_UPLOAD}"
        self._upload: str | None = None
        self._parts: list[Future[str]] = []
        self._threads = ThreadPoolExecutor(_PARTS_AT_A_TIME, "pagefeed-upload")
        self._is_done = False

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self._waiting += data
        self.size += len(data)
        while len(self._waiting) >= 2 * PART_BYTES:
            self._send(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]

    def _send(self, chunk: bytes) -> None:
        if self._upload is None:
            _abort(self._handle, self._note)
            self._upload = self._handle.begin_upload(self.path)
            self._handle.put(self._note, self._upload.encode())
        chunk_number = len(self._parts)
        if chunk_number >= _PARTS_AT_A_TIME:  # No more than these wait in memory.
            self._parts[chunk_number - _PARTS_AT_A_TIME].result()
        self._parts.append(
            self._threads.submit(
                self._handle.put_part, self.path, self._upload, chunk_number, chunk
            )
        )

    def commit(self) -> None:
        """Make the object appear."""
        if self._is_done:
            return
        if self._upload is None:
            self._handle.put(self.path, bytes(self._waiting))
        else:
            self._send(bytes(self._waiting))
            parts = [sent.result() for sent in self._parts]
            self._handle.finish_upload(self.path, self._upload, parts)
            self._handle.remove([self._note])
        self._is_done = True

    def abandon(self) -> None:
        """Remove the uploaded parts, unless they were committed."""
        self._waiting.clear()
        self._threads.shutdown(cancel_futures=True)
        if self._upload is not None and not self._is_done:
            with suppress(FileAccessError):
                self._handle.abort_upload(self.path, self._upload)
                self._handle.remove([self._note])
        self._is_done = True


def _abort(handle: _core.Remote, note: str) -> None:
    """Remove the parts of an upload that a killed process began."""
    stored = handle.fetch(note)
    if stored is not None:
        folder, _, name = note.rpartition("/")
        url = f"{folder}/{name.removeprefix('.').removesuffix(_UPLOAD)}"
        handle.abort_upload(url, stored[0].decode())


def output_folder(
    path: object, options: StorageOptions | None, name: str, *, buckets: bool = True
) -> OutputFolder:
    """Return a folder that is written to, of this machine or a bucket.

    All outputs go through here, so that no URL becomes a local path.

    Args:
        path: Path or URL.
        options: Settings of remote storage; not used for a local path.
        name: What the argument is called.
        buckets: Whether it may be a URL of a bucket.

    Raises:
        InvalidArgumentError: If it is not a path, or a URL that cannot be written to.
    """
    text, settings = plain_path(path, name), options_as_texts(options)
    if buckets and text.startswith(_BUCKETS):
        return BucketFolder(text.removesuffix("/"), RemoteStorage(settings))
    if buckets and text.startswith("hf://buckets/"):
        from pagefeed.remote.hub_folder import HubFolder

        given = core_settings(settings)
        storage = RemoteStorage(settings)
        url = storage.name_of(text.removesuffix("/"))
        return HubFolder(url, storage, given["hub_endpoint"], given["hub_token"])
    if text.startswith("hf://"):
        raise InvalidArgumentError(
            f"{name} is a URL, hf://..., and datasets of the hub are only read: give a "
            "folder, and bring it there by `hf upload`, or write to a bucket, "
            "hf://buckets/OWNER/NAME/PATH"
        )
    return OutputFolder(os.path.abspath(local_path(text, name)))


_BUCKETS = (
    *("s3://", "s3a://", "gs://", "gcs://", "az://", "azure://", "abfs://"),
    "abfss://",
)


def output_file(
    path: object, options: StorageOptions | None, name: str, *, buckets: bool = True
) -> FileWriter | ObjectWriter:
    """Return the writer of a file of this machine or a bucket.

    The folder of a local file must be there.

    Raises:
        InvalidArgumentError: As :func:`output_folder`.
    """
    text = checked_output(path, options, name, buckets=buckets)
    if is_url(text):
        folder, _, file = text.rpartition("/")
        return output_folder(folder, options, name).writer(file)
    return FileWriter(text)


def checked_output(
    path: object, options: StorageOptions | None, name: str, *, buckets: bool = True
) -> str:
    """Return the path or URL of an output file after checking it; write nothing.

    Raises:
        InvalidArgumentError: As :func:`output_folder`.
    """
    text = plain_path(path, name)
    if buckets and is_url(text):
        output_folder(text.rpartition("/")[0], options, name)
        return text
    return local_path(text, name)
