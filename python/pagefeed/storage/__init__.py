"""Where files of data lie: listed, told apart by versions, read by ranges of bytes.

:class:`Storage` is what other layers know of it; :class:`LocalStorage` is the only
module of Python that opens files of data (the data plane has its own store).
:class:`FileWriter` writes new ones.
"""

from pagefeed.storage.paths import PathLike, Paths, plain_path
from pagefeed.storage.storage import LocalStorage, Storage
from pagefeed.storage.writing import FileWriter, make_folder

__all__ = [
    "FileWriter",
    "LocalStorage",
    "PathLike",
    "Paths",
    "Storage",
    "make_folder",
    "plain_path",
]
