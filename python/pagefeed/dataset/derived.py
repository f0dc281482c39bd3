"""What is derived from the rows of an index and kept beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pagefeed._base import ArrayFolder, ArrayWriter, stored_arrays
from pagefeed.dataset.token_index import TokenIndex

__all__ = ["derived_arrays", "derived_key"]


def derived_key(index: TokenIndex, *parts: str | bytes) -> str:
    """Return what tells derived arrays from all others: 32 hexadecimal digits.

    Versions of the files are part of it, since a file may be rewritten with other
    values under an equal footer, which is all that fingerprints know.

    Args:
        index: Whose files they are derived from.
        parts: All else that they depend on: contents, settings, version of the code.

    Raises:
        MissingFileError: If a file is gone.
    """
    digest = hashlib.blake2b(digest_size=16)
    versions = (index.storage.version(file) for file in index.files)
    for part in (*parts, *versions):
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(f"{len(data)} ".encode() + data)
    return digest.hexdigest()


def derived_arrays(
    index: TokenIndex, kind: str, key: str, write: Callable[[ArrayWriter], None]
) -> ArrayFolder:
    """Map arrays derived from the files of an index, or derive them first.

    With a cache folder they lie there, and all processes of the machine map them;
    without, every process makes its own.

    Args:
        index: Whose files they are derived from.
        kind: What they are: begin of the folder's name.
        key: What tells them from all others, see :func:`derived_key`.
        write: Derives them; reads files.

    Raises:
        StaleFileError: If a file is not as it was indexed, before or after.
        MissingFileError: If one is gone.
    """

    def write_checked(writer: ArrayWriter) -> None:
        write(writer)
        index.check_files()  # What was read may not be what was indexed.

    index.check_files()
    return stored_arrays(index.cache_dir, f"{kind}-{key}", key, write_checked)
