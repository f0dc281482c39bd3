"""Arrays that are made of the files of an index, kept by contents and versions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pagefeed.caches.arrays import ArrayFolder, ArrayWriter, IsSound, stored_arrays
from pagefeed.core.dataset import PageIndex


def derived_key(index: PageIndex, *parts: str | bytes) -> str:
    """Return a key that differs between any two derived arrays: 32 hexadecimal digits.

    The key includes the versions of the files. Fingerprints cover only footers, and a
    file may be rewritten with other values and an equal footer.

    Args:
        index: The index of the files.
        parts: Everything else that the arrays depend on: contents, settings, version of
            the code.

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
    is_sound: IsSound,
    *,
    lazily: bool = False,
) -> ArrayFolder:
    """Map arrays that are derived from the files of an index; derive them if missing.

    They are stored in the cache folder, and all processes of the machine map them.
    Without a cache folder, every process derives its own.

    Args:
        index: The index of the files.
        kind: Prefix of the folder name of the arrays.
        key: Differs between any two arrays, see :func:`derived_key`.
        write: Function that reads the files and writes the arrays.
        is_sound: Checks stored arrays whole, against the index.
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
    return stored_arrays(folder, name, key, write_checked, is_sound, lazily=lazily)
