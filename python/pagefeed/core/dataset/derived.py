"""Arrays derived from the rows of an index, stored in the cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pagefeed.core._base import ArrayFolder, ArrayWriter, stored_arrays
from pagefeed.core.dataset.page_index import PageIndex

__all__ = ["derived_arrays", "derived_key"]


def derived_key(index: PageIndex, *parts: str | bytes) -> str:
    """Return a key that differs between any two derived arrays: 32 hexadecimal digits.

    Versions of the files belong to it: a file may be rewritten with other values and
    an equal footer, and fingerprints cover footers alone.

    Args:
        index: The index of the files.
        parts: All else that decides on them: contents, settings, version of the code.

    """
    digest = hashlib.blake2b(digest_size=16)
    for value in (*parts, index.core.states):
        data = value if isinstance(value, bytes) else value.encode()
        digest.update(f"{len(data)} ".encode() + data)
    return digest.hexdigest()


def derived_arrays(
    index: PageIndex,
    kind: str,
    key: str,
    write: Callable[[ArrayWriter], None],
    *,
    lazily: bool = False,
) -> ArrayFolder:
    """Map arrays derived from the files of an index; derive them first if needed.

    The cache folder keeps them, and all processes of the machine map them. Without a
    folder, every process makes its own.

    Args:
        index: The index of the files.
        kind: Begin of the name of the folder with the arrays.
        key: Differs between any two arrays, see :func:`derived_key`.
        write: Reads files and derives the arrays.
        lazily: Verify numbers when they are read.

    Raises:
        StaleFileError: If a file changed since it was indexed.
        MissingFileError: If a file is gone.
    """

    def write_checked(writer: ArrayWriter) -> None:
        write(writer)
        index.check_files()  # Files may have changed while they were read.

    index.check_files()
    folder, name = index.cache_dir, f"{kind}-{key}"
    return stored_arrays(folder, name, key, write_checked, lazily=lazily)
