"""Where bytes lie: files are listed here, by path, folder and pattern."""

from pagefeed.storage.paths import PathLike, Paths, expand_paths, plain_path

__all__ = ["PathLike", "Paths", "expand_paths", "plain_path"]
