"""Payloads of spans: to bytes, and back."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pagefeed.core._base import require
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat.flat_file import parsing, whole

CUSTOM = "custom"
Serialize = Callable[[Any], bytes]
Deserialize = Callable[[bytes], Any]


def serializer(how: object) -> tuple[str, Serialize]:
    """Return the name of a serialization and its function.

    Raises:
        InvalidArgumentError: If there is none of this name.
        MissingDependencyError: If it needs an extra.
    """
    if callable(how):
        return CUSTOM, how
    if how == "msgpack":
        library = require("msgpack", extra="msgpack", purpose="payloads as msgpack")
        return "msgpack", _packing(library.packb)
    if how == "numpy":
        return "numpy", _array_bytes
    if how == "bytes":
        return "bytes", _plain_bytes
    raise InvalidArgumentError(
        f"serialize={how!r} is unknown: choose 'bytes', 'numpy' or 'msgpack', or give "
        "a callable that returns bytes"
    )


def deserializer(
    name: str, custom: Deserialize | None, path: str | None
) -> Deserialize:
    """Return the function that parses payloads; errors name the file ``path``.

    Raises:
        MissingDependencyError: If it needs an extra.
    """
    if custom is not None:
        return custom
    if name == "msgpack":
        library = require("msgpack", extra="msgpack", purpose="payloads as msgpack")
        return partial(_parsed, path, library.unpackb)
    return partial(_parsed, path, _array_of) if name == "numpy" else bytes


def _plain_bytes(payload: Any) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise InvalidArgumentError(
            f"a payload is {type(payload).__name__}, not bytes: give StreamWriter "
            "serialize='msgpack', 'numpy' or a callable that returns bytes"
        )
    return bytes(payload)


def _packing(pack: Serialize) -> Serialize:
    def packed(payload: Any) -> bytes:
        try:
            return pack(payload)
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidArgumentError(
                f"msgpack has no bytes for a payload: {problem}; give StreamWriter a "
                "callable that returns bytes"
            ) from problem

    return packed


def _parsed(path: str | None, load: Deserialize, data: bytes) -> Any:
    with parsing(path, "a payload is damaged"):
        return load(data)


def _array_bytes(payload: Any) -> bytes:
    array = np.ascontiguousarray(payload)
    if array.dtype.hasobject:
        raise InvalidArgumentError(
            "a payload holds Python objects, which have no bytes: give StreamWriter a "
            "callable that returns bytes"
        )
    shape = np.asarray(payload).shape
    return f"{array.dtype.str} {shape}\n".encode() + array.tobytes()


def _array_of(data: bytes) -> np.ndarray[Any, np.dtype[Any]]:
    head, _, values = bytes(data).partition(b"\n")
    dtype, _, shape = head.decode("ascii", "replace").partition(" ")
    sizes = [whole(size) for size in ast.literal_eval(shape)]
    return np.frombuffer(values, dtype).reshape(sizes)
