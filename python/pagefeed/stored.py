"""Arrays on disk, written as they grow, mapped when they are read."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from pagefeed.arrays import Int64Array

__all__ = ["ArrayFolder", "ArrayWriter", "stored_arrays"]

_ABOUT = "about.json"
_VERSION = 1
_logger = logging.getLogger("pagefeed")


class ArrayFolder:
    """Arrays that were written together, mapped from disk.

    Args:
        path: The folder.
        key: What it must hold.

    Raises:
        OSError: If there is no such folder, or files of it are missing.
        ValueError: If it holds something else, or files are not whole.
    """

    def __init__(self, path: Path, key: str) -> None:
        content = json.loads((path / _ABOUT).read_text())
        if content.get("version") != _VERSION or content.get("key") != key:
            raise ValueError(f"{path} holds something else")
        self.about: Mapping[str, Any] = content["about"]
        """What was noted beside the arrays."""
        self._arrays = {
            name: _map(path / name, size) for name, size in content["arrays"].items()
        }

    def __getitem__(self, name: str) -> Int64Array:
        """Return an array, int64."""
        return self._arrays[name]


class ArrayWriter:
    """Writes a folder of arrays, which appears whole or not at all.

    Args:
        path: Where it will be.
        key: What it holds.
        durable: Have it on disk before others can see it.
    """

    def __init__(self, path: Path, key: str, *, durable: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._key = key
        self._durable = durable
        self._draft = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
        self._files: dict[str, BinaryIO] = {}
        self._sizes: dict[str, int] = {}
        self.about: dict[str, Any] = {}
        """What is noted beside the arrays: plain JSON types."""

    def append(self, name: str, values: npt.ArrayLike) -> None:
        """Write further numbers of an array, int64."""
        if name not in self._files:
            self._files[name] = (self._draft / name).open("wb")
            self._sizes[name] = 0
        array = np.ascontiguousarray(values, dtype=np.int64)
        array.tofile(self._files[name])
        self._sizes[name] += array.size

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Publish the folder if all went well."""
        try:
            for file in self._files.values():
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
                file.close()
            if kind is None:
                self._publish()
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)

    def _publish(self) -> None:
        content = {"version": _VERSION, "key": self._key, "about": self.about}
        text = json.dumps(content | {"arrays": self._sizes})
        (self._draft / _ABOUT).write_text(text)
        self._draft.chmod(0o755)
        try:
            self._draft.rename(self._path)
        except OSError:
            # Another process was first, or what is there is damaged.
            if _opened(self._path, self._key) is None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._draft.rename(self._path)


def stored_arrays(
    folder: str | None, name: str, key: str, write: Callable[[ArrayWriter], None]
) -> ArrayFolder:
    """Map arrays that a process of this machine has written, or write them first.

    Args:
        folder: Where they are kept; None keeps them to this process, in an unnamed
            place on disk.
        name: Begin of the folder's name.
        key: What tells these arrays from all others.
        write: What writes them.
    """
    if folder is not None:
        path = Path(folder) / name
        found = _opened(path, key)
        if found is None:
            with ArrayWriter(path, key, durable=True) as writer:
                write(writer)
            found = ArrayFolder(path, key)
        return found
    with tempfile.TemporaryDirectory(prefix="pagefeed-") as place:
        path = Path(place) / "arrays"
        with ArrayWriter(path, key, durable=False) as writer:
            write(writer)
        # The maps outlive the names of the files.
        return ArrayFolder(path, key)


def _opened(path: Path, key: str) -> ArrayFolder | None:
    """The folder, or None: what is missing or damaged is made anew."""
    try:
        return ArrayFolder(path, key)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _logger.warning("made anew, since it cannot be used: %s", error)
        return None


def _map(path: Path, size: int) -> Int64Array:
    if path.stat().st_size != 8 * size:
        raise ValueError(f"{path} has not {size} numbers")
    if size == 0:
        return np.empty(0, dtype=np.int64)
    return np.asarray(np.memmap(path, dtype=np.int64, mode="r", shape=(size,)))
