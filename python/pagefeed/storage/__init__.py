"""Where files of data lie: listed, told apart by versions, read by ranges of bytes.

:class:`Storage` is what other layers know of it, :func:`located` finds files and their
storage: :class:`LocalStorage`, the only module of Python that opens files of data,
or :class:`RemoteStorage`, whose requests the data plane sends. :class:`FileWriter`
writes new ones.
"""

from pagefeed.storage.options import StorageOptions
from pagefeed.storage.paths import PARQUET, PathLike, Paths, local_path
from pagefeed.storage.remote import Located, RemoteStorage, located
from pagefeed.storage.storage import LocalStorage, Storage
from pagefeed.storage.writing import (
    FileWriter,
    SummedWriter,
    locked,
    make_folder,
    names_in,
    remove_files,
)

__all__ = [
    "PARQUET",
    "FileWriter",
    "LocalStorage",
    "Located",
    "PathLike",
    "Paths",
    "RemoteStorage",
    "Storage",
    "StorageOptions",
    "SummedWriter",
    "local_path",
    "located",
    "locked",
    "make_folder",
    "names_in",
    "remove_files",
]
