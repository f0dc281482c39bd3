"""Where files of data lie: listed, told apart by versions, read by ranges of bytes.

:class:`Storage` is what other layers know of it; :class:`LocalStorage` is the only
module of Python that opens files of data (the data plane has its own store).
"""

from pagefeed.storage.paths import PathLike, Paths, plain_path
from pagefeed.storage.storage import LocalStorage, Storage

__all__ = ["LocalStorage", "PathLike", "Paths", "Storage", "plain_path"]
