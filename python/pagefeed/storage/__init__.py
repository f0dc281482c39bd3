"""Where files of data lie: listed, told apart by versions, read by ranges of bytes.

:class:`Storage` is what other layers know of it, :func:`storage_of` makes the one that has
given paths: :class:`LocalStorage`, the only module of Python that opens files of data, or
:class:`RemoteStorage`, whose requests the data plane sends.
"""

from pagefeed.storage.paths import PathLike, Paths, plain_path
from pagefeed.storage.remote import RemoteStorage, StorageOptions, storage_of
from pagefeed.storage.storage import LocalStorage, Storage

__all__ = [
    "LocalStorage",
    "PathLike",
    "Paths",
    "RemoteStorage",
    "Storage",
    "StorageOptions",
    "plain_path",
    "storage_of",
]
