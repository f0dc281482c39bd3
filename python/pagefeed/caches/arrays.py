"""Output that appears whole or not at all; arrays on disk, verified and mapped."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.caches.lease import UnusableError, check_owned, made_once
from pagefeed.core._base import Int64Array, in_order, logger, warn_user
from pagefeed.core.storage import write_errors
from pagefeed.errors import CacheWarning, FileAccessError
from pagefeed.parsing import SENSELESS, check_small


class WholeWriter(ABC):
    """A context manager that publishes its output, unless an error leaves the block.

    Example:
        >>> class Words(WholeWriter):
        ...     def commit(self): print("published")
        ...     def abandon(self): print("cleared")
        >>> with Words():
        ...     pass
        published
        cleared
    """

    @abstractmethod
    def commit(self) -> None:
        """Make the output visible."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove the incomplete output; does nothing after :meth:`commit`."""

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Publish the output, or remove it after an error."""
        try:
            if kind is None:
                self.commit()
        finally:
            self.abandon()


_ABOUT = "about.json"
_NUMBERS = "numbers"
_SPILL = "spill"
_VERSION = 3
_SPILLED_BYTES = 32 << 20
_CHECKED_BYTES = 1 << 20
"""Bytes under one checksum; several threads verify them."""
_COPIED = 1 << 17
"""Bytes of arrays that are copied, not mapped: files that are cut end no process."""
_told: set[str] = set()


class _UnwritableError(FileAccessError):
    """A folder of arrays cannot be written."""


class ArrayFolder:
    """Arrays that were written together, mapped from disk.

    The constructor verifies all checksums, or leaves that to :meth:`checked`.

    Args:
        path: The folder.
        key: The key it was written with.
        lazily: Verify numbers when they are read.

    Raises:
        OSError: If there is no such folder, or files of it are missing.
        ValueError: If it has another key, or is damaged.
    """

    def __init__(self, path: Path, key: str, *, lazily: bool = False) -> None:
        content = _read_about(path)
        if content.get("version") != _VERSION or content.get("key") != key:
            raise ValueError(f"{path} has other contents")
        self.about: Mapping[str, Any] = content["about"]
        """Plain JSON that was stored with the arrays."""
        sizes = content["arrays"]
        if not all(type(size) is int and size >= 0 for size in sizes.values()):
            raise ValueError(f"{path} does not say the sizes of its arrays")
        self.sizes: Mapping[str, int] = sizes
        """Number of values of each array."""
        numbers = _map(path / _NUMBERS, sum(sizes.values()))
        self._blocks = ChecksummedBlocks(path / _NUMBERS, numbers, content["checksums"])
        self._is_verified = not lazily
        if not lazily:
            self._blocks.verify_all()
        ends = np.cumsum(list(sizes.values()), dtype=np.int64).tolist()
        self._ranges = {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }

    def __getitem__(self, name: str) -> Int64Array:
        """Return an array, int64; verify all of it.

        Raises:
            FileAccessError: If it is damaged.
        """
        span = self._ranges[name]
        if not self._is_verified:
            self._blocks.verify(8 * span.start, 8 * span.stop)
        return self._blocks.numbers[span]

    def checked(self, name: str, size: int, most: float) -> CheckedArray:
        """Return the first float32 of an array; reading a block verifies it."""
        return CheckedArray(self._blocks, 2 * self._ranges[name].start, size, most)


IsSound: TypeAlias = Callable[[ArrayFolder], bool]
"""Says whether arrays are as many, and as large, as what they are made of asks for."""


def are_sums(numbers: Int64Array, most: int) -> bool:
    """Whether numbers are running sums that begin at 0 and stay within a limit.

    Example:
        >>> are_sums(np.array([0, 2, 2, 7]), 7), are_sums(np.array([0, 2, 1]), 7)
        (True, False)
    """
    return bool(numbers[0] == 0) and are_rising(numbers, most)


def are_rising(numbers: Int64Array, most: int) -> bool:
    """Whether numbers never fall, and lie between 0 and a limit.

    Example:
        >>> are_rising(np.array([3, 3, 7]), 7), are_rising(np.array([-1]), 7)
        (True, False)
    """
    ends = numbers[:1].sum() >= 0 and numbers[-1:].sum() <= most
    return bool(ends and (numbers[:-1] <= numbers[1:]).all())


class ChecksummedBlocks:
    """Numbers of a file, verified block by block, each block once in a process.

    Args:
        path: The file.
        numbers: Its numbers, mapped.
        checksums: Checksum of each block.

    Raises:
        ValueError: If there are not as many checksums as blocks.
    """

    def __init__(self, path: Path, numbers: Int64Array, checksums: list[int]) -> None:
        self.path = path
        self.numbers = numbers
        self._checksums = checksums
        count = _num_blocks(numbers)
        if count != len(checksums):
            raise ValueError(f"{path} has {count} checksums, not {len(checksums)}")
        self.are_verified = np.zeros(count, dtype=np.bool_)
        """Whether each block was verified: bool [blocks]."""

    def verify_all(self) -> None:
        """Verify all blocks, on several threads.

        Raises:
            ValueError: If a checksum does not match.
        """
        if [*_checksums(self.numbers)] != self._checksums:
            raise ValueError(f"{self.path} is damaged: its checksum does not match")
        self.are_verified[:] = True

    def verify(self, begin: int, end: int) -> None:
        """Verify the blocks of a range of bytes.

        Raises:
            FileAccessError: If a checksum does not match.
        """
        first, last = begin // _CHECKED_BYTES, -(-end // _CHECKED_BYTES)
        self.verify_blocks(np.arange(first, last))

    def verify_blocks(self, blocks: Int64Array) -> None:
        """Verify those blocks that were not verified yet.

        Raises:
            FileAccessError: If a checksum does not match.
        """
        left = blocks[~self.are_verified[blocks]]
        for block in np.unique(left).tolist() if len(left) else ():
            if _checksum(self.numbers, block) != self._checksums[block]:
                self.refuse("its checksum does not match")
            self.are_verified[block] = True

    def refuse(self, why: str) -> NoReturn:
        """Raise an error: the numbers are not those that were written.

        Raises:
            FileAccessError: Naming the file, and what to do.
        """
        raise FileAccessError(
            f"{self.path} is damaged: {why}; remove its folder, and pagefeed makes it "
            "again"
        ).at(file=str(self.path))


def _num_blocks(numbers: Int64Array) -> int:
    return -(-8 * len(numbers) // _CHECKED_BYTES)


def _checksum(numbers: Int64Array, block: int) -> int:
    step = _CHECKED_BYTES // 8
    return zlib.crc32(numbers[block * step : (block + 1) * step].data)


def _checksums(numbers: Int64Array) -> Iterable[int]:
    """Yield the checksum of each block, by several threads if there are many."""
    blocks, checksum = range(_num_blocks(numbers)), partial(_checksum, numbers)
    return map(checksum, blocks) if len(blocks) < 9 else in_order(checksum, blocks)


class CheckedArray:
    """Float32 numbers of a file, of which only the blocks that are read are verified.

    So opening takes equally long for any number of them.

    Args:
        blocks: Blocks of the file with the numbers.
        first: Index of the first number within the file.
        size: How many numbers.
        most: What none exceeds; the least is 0.
    """

    def __init__(
        self, blocks: ChecksummedBlocks, first: int, size: int, most: float
    ) -> None:
        self._blocks, self._most = blocks, np.float32(most)
        self._first = first
        self._numbers = blocks.numbers.view(np.float32)[first : first + size]

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._numbers)

    def __getitem__(self, places: slice | Int64Array) -> npt.NDArray[np.float32]:
        """Return a range of the numbers: float32.

        Raises:
            FileAccessError: If they are damaged.
        """
        if isinstance(places, slice):
            begin, end, _ = places.indices(len(self))
            self._blocks.verify(4 * (self._first + begin), 4 * (self._first + end))
        else:
            self._blocks.verify_blocks(4 * (self._first + places) // _CHECKED_BYTES)
        numbers = self._numbers[places]
        if not ((numbers >= 0) & (numbers <= self._most)).all():
            self._blocks.refuse(f"it has numbers that are not from 0 to {self._most}")
        return numbers


class ArrayWriter(WholeWriter):
    """Writes a folder of arrays. The folder appears complete or not at all.

    Any number of arrays may grow at the same time. Numbers that do not fit in memory
    are kept in a temporary file, in the order in which they were appended. At the end
    the arrays are assembled from it.

    Args:
        path: Path of the folder.
        key: Key that identifies the contents.
        durable: Flush the folder to disk before it appears.

    Raises:
        FileAccessError: If it cannot be written, here and later.
    """

    def __init__(self, path: Path, key: str, *, durable: bool) -> None:
        self._path = path
        self._key = key
        self._durable = durable
        with write_errors(path, _UnwritableError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._draft = path.with_name(f"{path.name}.{token_hex(8)}")
            self._draft.mkdir()
        self._waiting: dict[str, bytearray] = {}
        self._num_waiting = 0
        self._spilled: dict[str, list[tuple[int, int]]] = {}
        self._sizes: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self.about: dict[str, Any] = {}
        """Plain JSON to store with the arrays."""

    def append(self, name: str, values: npt.ArrayLike) -> None:
        """Append numbers to an array of int64."""
        self.append_bytes(name, np.asarray(values, dtype=np.int64).tobytes())

    def append_bytes(self, name: str, data: bytes) -> None:
        """Append bytes of numbers of another type, as which readers view the array."""
        self._waiting.setdefault(name, bytearray()).extend(data)
        self._sizes[name] = self._sizes.get(name, 0) + len(data)
        self._num_waiting += len(data)
        if self._num_waiting > _SPILLED_BYTES:
            with write_errors(self._path, _UnwritableError):
                self._spill()

    def append_sums(self, name: str, numbers: npt.ArrayLike) -> None:
        """Append running sums: the sum before each number, and at the end the total."""
        sums = self._totals.get(name, 0) + np.append(0, np.cumsum(numbers)).astype("i8")
        self.append(name, sums[:-1])
        self._totals[name] = int(sums[-1])

    def commit(self) -> None:
        """Make the folder visible."""
        for name, total in self._totals.items():
            self.append(name, [total])
        with write_errors(self._path, _UnwritableError):
            self._join()
            self._rename()

    def abandon(self) -> None:
        """Remove the incomplete folder."""
        shutil.rmtree(self._draft, ignore_errors=True)

    def _spill(self) -> None:
        with (self._draft / _SPILL).open("ab") as file:
            for name, waiting in self._waiting.items():
                spilled = file.tell(), len(waiting)
                self._spilled.setdefault(name, []).append(spilled)
                file.write(waiting)
                waiting.clear()
        self._num_waiting = 0

    def _join(self) -> None:
        """Write the arrays one after another."""
        self._spill()
        spill = self._draft / _SPILL
        with spill.open("rb") as parts, (self._draft / _NUMBERS).open("wb") as file:
            for name in self._sizes:
                for begin, size in self._spilled[name]:
                    parts.seek(begin)
                    file.write(parts.read(size))
                file.write(bytes(-self._sizes[name] % 8))
            self._finish(file)
        spill.unlink()

    def _finish(self, file: BinaryIO) -> None:
        file.flush()
        if self._durable:
            os.fsync(file.fileno())

    def _rename(self) -> None:
        sizes = {name: -(-size // 8) for name, size in self._sizes.items()}
        numbers = _map(self._draft / _NUMBERS, sum(sizes.values()))
        checksums = [*_checksums(numbers)]
        content = {"version": _VERSION, "key": self._key, "about": self.about}
        content |= {"arrays": sizes, "checksums": checksums}
        with (self._draft / _ABOUT).open("wb") as file:
            file.write(_with_checksum(content))
            self._finish(file)
        try:
            self._draft.rename(self._path)
        except OSError:
            # Another process was first, or the existing folder is damaged.
            if find_arrays(self._path.parent, self._path.name, self._key) is None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._draft.rename(self._path)


def stored_arrays(
    folder: str | None,
    name: str,
    key: str,
    write: Callable[[ArrayWriter], None],
    is_sound: IsSound,
    *,
    lazily: bool = False,
) -> ArrayFolder:
    """Map stored arrays; write them first if they are missing or not sound.

    Args:
        folder: Folder of stored arrays, which processes share. None keeps the arrays in
            temporary files of this process; so does, with a warning, a folder that
            cannot be used.
        name: Name of the arrays in the folder.
        key: Differs between any two arrays.
        write: Writes the arrays.
        is_sound: Checks stored arrays whole: their sizes, order and bounds.
        lazily: Verify numbers when they are read.

    Raises:
        FileAccessError: If the folder for temporary files cannot be used.
    """
    if folder is not None:
        path = Path(folder) / name

        def make(why: str | None) -> ArrayFolder:
            if why is not None:
                logger.info("made again, since it cannot be used: %s", why)
                remove_arrays(f"{path}")
            with ArrayWriter(path, key, durable=True) as writer:
                write(writer)
            logger.info("made, and kept: %s", path)
            return ArrayFolder(path, key, lazily=lazily)

        try:
            find = partial(_opened, path, key, is_sound, lazily=lazily)
            return made_once(path.with_name(f"{name}.lock"), find, make)
        except _UnwritableError as problem:
            warn_of_folder(folder, problem)
    try:
        scratch = tempfile.TemporaryDirectory(prefix="pagefeed-")
    except OSError as problem:
        raise _no_place(problem) from problem
    with scratch:
        unnamed = Path(scratch.name) / "arrays"
        try:
            with ArrayWriter(unnamed, key, durable=False) as writer:
                write(writer)
        except _UnwritableError as problem:
            raise _no_place(problem) from problem
        # The maps outlive the names of the files.
        return ArrayFolder(unnamed, key, lazily=lazily)


def find_arrays(
    folder: str | Path, name: str, key: str, is_sound: IsSound = lambda _: True
) -> ArrayFolder | None:
    """Map stored arrays; None if they are missing, damaged or not sound."""
    try:
        return _opened(Path(folder) / name, key, is_sound, lazily=False)
    except UnusableError:
        return None


def keeps_arrays(folder: str) -> bool:
    """Return whether a folder can be written. Creates it if it does not exist.

    Warns, once in a process, if it cannot be written.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=folder).cleanup()
    except OSError as problem:
        warn_of_folder(folder, problem)
        return False
    return True


def remove_arrays(folder: str) -> None:
    """Remove a folder of stored arrays, if it exists.

    Mapped arrays stay readable.
    """
    shutil.rmtree(folder, ignore_errors=True)


def warn_of_folder(folder: str, problem: Exception) -> None:
    """Warn, once in a process, that a cache folder cannot be used."""
    if folder in _told:
        return
    _told.add(folder)
    warn_user(
        f"the cache folder {folder} cannot be used: {problem}; every process makes "
        "its own index and selections, which takes memory and time. Give cache_dir, or "
        "$PAGEFEED_CACHE_DIR, a folder that can be written and has room",
        CacheWarning,
    )


def _no_place(problem: OSError) -> FileAccessError:
    return FileAccessError(
        f"no room for temporary files: {problem}; set $TMPDIR to a folder that can be "
        "written and has room, or give the dataset a cache_dir"
    )


def _with_checksum(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content)
    return f'{{"checksum": {zlib.crc32(text.encode())}, "content": {text}}}'.encode()


def _read_about(path: Path) -> dict[str, Any]:
    if not (path / _ABOUT).is_file():  # A pipe would be waited for.
        raise FileNotFoundError(path)
    check_small(f"{path / _ABOUT}", (path / _ABOUT).stat().st_size)
    written = (path / _ABOUT).read_bytes()
    content: dict[str, Any] = json.loads(written)["content"]
    if written != _with_checksum(content):
        raise ValueError(f"{path / _ABOUT} is damaged: its checksum does not match")
    return content


def _opened(
    path: Path, key: str, is_sound: IsSound, *, lazily: bool
) -> ArrayFolder | None:
    """Return the arrays of a folder; None if there is none."""
    check_owned(path.parent, path)
    try:
        opened = ArrayFolder(path, key, lazily=lazily)
        if not is_sound(opened):
            raise ValueError(f"{path} has numbers that do not fit what it is made of")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *SENSELESS) as problem:
        raise UnusableError(str(problem)) from problem
    logger.debug("found, and used: %s", path)
    return opened


def _map(path: Path, size: int) -> Int64Array:
    if path.stat().st_size != 8 * size:
        raise ValueError(f"{path} has not {size} numbers")
    if size <= _COPIED:
        return np.fromfile(path, dtype=np.int64)
    return np.asarray(np.memmap(path, dtype=np.int64, mode="r", shape=(size,)))
