"""Checkpoints of safetensors and of torch: some tensors changed, the others copied."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import of_bfloat16, require, to_bfloat16
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError, InvalidArgumentError, UnsupportedError
from pagefeed.remote import FileWriter, make_folder

__all__ = ["Change", "Checkpoint", "TensorFacts", "check_output", "open_checkpoint"]

Values = npt.NDArray[Any]
Change = Callable[[Values], Values]
"""Function from the values of a tensor to new values: float [rows, ...]."""

MOST_HEADER = 100 << 20
"""Bytes of a header at most, as safetensors itself has it."""
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class TensorFacts(NamedTuple):
    """Facts about a tensor that are known without reading it."""

    shape: tuple[int, ...]
    dtype: str
    begin: int
    """First byte in the file; of torch 0."""
    end: int


def open_checkpoint(path: str) -> Checkpoint:
    """Open a checkpoint.

    Raises:
        MissingFileError: If there is no such file.
        CorruptFileError: If it is not what its name says.
        MissingDependencyError: If it is a checkpoint of torch, and torch is not
            installed.
        InvalidArgumentError: If its name has no known suffix.
    """
    return _kind_of(path)(path)


def check_output(path: str, output: str) -> None:
    """Refuse to write a different kind of checkpoint than was read.

    Raises:
        InvalidArgumentError: If the kinds differ, or shards would replace those that
            are read.
    """
    kind = _kind_of(path)
    if _kind_of(output) is not kind:
        raise InvalidArgumentError(f"output={output!r} must have the suffix of {path}")
    folders = {
        os.path.dirname(Storage().name_of(checkpoint)) for checkpoint in (path, output)
    }
    if kind is _Sharded and len(folders) < 2:
        raise InvalidArgumentError(
            f"output={output!r} would replace the shards of {path}: name a file in "
            "another folder"
        )


def _kind_of(path: str) -> type[Checkpoint]:
    for end, kind in _KINDS.items():
        if path.endswith(end):
            return kind
    raise InvalidArgumentError(
        f"{path} is no checkpoint that is known by its name: give a .safetensors file, "
        "the .safetensors.index.json of several, or torch's .pt, .pth, .bin or .ckpt"
    )


class _Safetensors:
    """A header in JSON and the bytes of tensors, of which a few are read."""

    def __init__(self, path: str) -> None:
        self._storage = Storage()
        self.path = self._storage.name_of(path)
        size = self._storage.size(self.path)
        length = int.from_bytes(
            self._storage.read(self.path, 0, min(8, size)), "little"
        )
        if not 0 < length <= min(MOST_HEADER, size - 8):
            raise self._corrupt(f"a header of {length} bytes in a file of {size}")
        try:
            header = json.loads(self._storage.read(self.path, 8, 8 + length))
            self._about = header.pop("__metadata__", None)
            self.tensors = {
                name: TensorFacts(
                    tuple(entry["shape"]),
                    entry["dtype"],
                    *(8 + length + offset for offset in entry["data_offsets"]),
                )
                for name, entry in header.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise self._corrupt(f"its header cannot be read: {problem}") from problem
        for name, facts in self.tensors.items():
            if not 8 + length <= facts.begin <= facts.end <= size:
                raise self._corrupt(
                    f"{name!r} ends beyond the {size} bytes of the file"
                )

    def write(self, output: str, names: Sequence[str], change: Change) -> None:
        """Write a copy with some tensors changed; only these are held in memory."""
        changed = {name: self._changed(name, change) for name in names}
        order = sorted(self.tensors, key=lambda name: self.tensors[name].begin)
        header = {} if self._about is None else {"__metadata__": self._about}
        offset = 0
        for name in order:
            facts, new = self.tensors[name], changed.get(name)
            size = facts.end - facts.begin if new is None else new.nbytes
            header[name] = {
                "dtype": facts.dtype,
                "shape": list((facts if new is None else new).shape),
                "data_offsets": [offset, offset + size],
            }
            offset += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with FileWriter(output) as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                if name in changed:
                    out.write(changed[name].data.cast("B"))
                    continue
                facts = self.tensors[name]
                for chunk in self._storage.parts(self.path, facts.begin, facts.end):
                    out.write(chunk)

    def _changed(self, name: str, change: Change) -> Values:
        facts = self.tensors[name]
        if facts.dtype not in _FLOATS:
            raise _no_floats(self.path, name, facts.dtype)
        data = self._storage.read(self.path, facts.begin, facts.end)
        stored = np.frombuffer(data, dtype=_FLOATS[facts.dtype])
        if stored.size != math.prod(facts.shape):
            raise self._corrupt(f"{name!r} has {len(data)} bytes for {facts.shape}")
        stored = stored.reshape(facts.shape)
        if facts.dtype != "BF16":
            return np.ascontiguousarray(change(stored))
        return to_bfloat16(change(of_bfloat16(stored)))

    def _corrupt(self, what: str) -> CorruptFileError:
        return _corrupt(self.path, f"is no file of safetensors: {what}")


class _Sharded:
    """Several files of safetensors in one folder, and which has which tensor."""

    def __init__(self, path: str) -> None:
        storage = Storage()
        self.path = storage.name_of(path)
        folder = os.path.dirname(self.path)
        try:
            self._content: dict[str, Any] = json.loads(storage.read_all(self.path))
            self._file_of: dict[str, str] = dict(self._content["weight_map"])
            files = sorted(set(self._file_of.values()))
        except (ValueError, KeyError, TypeError) as problem:
            what = f"is no index of safetensors: {problem!r}"
            raise _corrupt(self.path, what) from problem
        strange = [name for name in files if os.path.basename(name) != name]
        if strange:
            raise _corrupt(self.path, f"names {strange[0]!r}, which lies elsewhere")
        self._parts = {name: _Safetensors(os.path.join(folder, name)) for name in files}
        shard_of = {n: f for f, shard in self._parts.items() for n in shard.tensors}
        if shard_of != self._file_of:
            raise _corrupt(self.path, "does not name the tensors that its files hold")
        self.tensors = {
            name: self._parts[file].tensors[name]
            for name, file in self._file_of.items()
        }

    def write(self, output: str, names: Sequence[str], change: Change) -> None:
        """Write all files beside ``output``, and ``output`` last."""
        folder, total = make_folder(os.path.dirname(Storage().name_of(output))), 0
        for name, shard in self._parts.items():
            path = os.path.join(folder, name)
            shard.write(path, [n for n in names if self._file_of[n] == name], change)
            written = _Safetensors(path).tensors.values()
            total += sum(facts.end - facts.begin for facts in written)
        about = (self._content.get("metadata") or {}) | {"total_size": total}
        with FileWriter(output) as out:
            text = json.dumps(self._content | {"metadata": about}, indent=2)
            out.write(text.encode())


def _corrupt(path: str, what: str) -> CorruptFileError:
    return CorruptFileError(f"{path} {what}").at(file=path)


def _no_floats(path: str, name: str, dtype: object) -> UnsupportedError:
    return UnsupportedError(
        f"{path}: {name!r} is {dtype}: rows can be the mean of others in floats of 16, "
        "32 and 64 bits"
    )


class _Torch:
    """A file that torch saved: a dictionary of tensors, possibly nested."""

    def __init__(self, path: str) -> None:
        self._torch = require("torch", extra="torch", purpose="a torch checkpoint")
        storage = Storage()
        self.path = storage.name_of(path)
        storage.size(self.path)  # Tells whether there is such a file.
        try:
            self._content = self._torch.load(
                self.path, map_location="cpu", weights_only=True, mmap=True
            )
        except Exception as problem:  # Of many kinds, by what is wrong with it.
            what = f"is no checkpoint of torch with weights alone: {problem}"
            raise _corrupt(self.path, what) from problem
        self._holder_of = dict(_tensors(self._torch, self._content))
        self.tensors = {
            name: TensorFacts(tuple(holder[key].shape), str(holder[key].dtype), 0, 0)
            for name, (holder, key) in self._holder_of.items()
        }

    def write(self, output: str, names: Sequence[str], change: Change) -> None:
        """Write a copy with some tensors changed. Shared memory stays shared."""
        torch = self._torch
        changed: dict[tuple[int, ...], Any] = {}
        for name in names:
            holder, key = self._holder_of[name]
            given = holder[key]
            if not given.is_floating_point() or given.itemsize < 2:
                raise _no_floats(self.path, name, given.dtype)
            same = (given.data_ptr(), *given.shape, *given.stride())
            if same not in changed:
                wide = given.float() if given.dtype == torch.bfloat16 else given
                values = torch.from_numpy(change(wide.detach().numpy()))
                changed[same] = values.to(given.dtype)
            holder[key] = changed[same]
        with _Output(output) as out:
            torch.save(self._content, out)


class _Output(FileWriter):
    """A file as torch writes to it."""

    def flush(self) -> None:
        """Do nothing: it is flushed when it is complete."""


def _tensors(
    torch: Any, content: object, before: str = ""
) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    """Yield the name of every tensor, with its dictionary and its key there."""
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        name = f"{before}{key}"
        if isinstance(value, torch.Tensor):
            yield name, (content, key)
        else:
            yield from _tensors(torch, value, f"{name}.")


Checkpoint: TypeAlias = _Safetensors | _Sharded | _Torch
"""Tensors by their names."""
_KINDS: dict[str, type[Checkpoint]] = {
    ".safetensors.index.json": _Sharded,
    ".safetensors": _Safetensors,
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _Torch),
}
"""Kinds of checkpoints by the ends of their names."""
