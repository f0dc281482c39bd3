"""Records of the Avro files of an Iceberg table, as pyiceberg reads them."""

from __future__ import annotations

import bz2
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from pagefeed.errors import (
    CorruptFileError,
    LimitExceededError,
    UnsupportedError,
    shown_path,
)
from pagefeed.parsing import check_small

MALFORMED = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError),
    *(RecursionError, StopIteration, SystemError, TypeError, ValueError),
    *(struct.error, zlib.error),
)
"""Errors of pyiceberg for metadata that are not as they should be."""


MOST_BYTES = 1 << 30
"""Bytes that the blocks of a file may hold together; writers end one at 8 MB."""
MOST_HEADER = 1 << 20
"""Bytes of a file that hold its schema."""
_NULLABLE_ENTRIES = re.compile(
    rb'"logicalType"\s*:\s*"map"[^{}]*"items"\s*:\s*\[\s*"null"'
)


class _Record(list[Any]):
    """Values of a record, in the order of its fields."""

    def __init__(self, *values: Any) -> None:
        super().__init__(values)


class _Stored:
    """A file whose bytes were read, as pyiceberg opens files."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored

    def open(self) -> Any:
        from pyarrow import BufferReader

        return BufferReader(self._stored)


class _Decompressor:
    """Decompresses the blocks of a file, until they are too much together."""

    def __init__(self, codec: str, own: Any, path: str) -> None:
        self._codec, self._own = codec, own
        self._left, self._path = MOST_BYTES, path

    def decompress(self, stored: bytes) -> bytes:
        """Return the bytes of a block.

        Raises:
            LimitExceededError: If the blocks so far are more than a file may have.
        """
        most = self._left + 1
        stream: Any = None
        if self._codec == "deflate":
            stream = zlib.decompressobj(-15)
        elif self._codec == "bzip2":
            stream = bz2.BZ2Decompressor()
        if stream is not None:
            data = stream.decompress(stored, most)
        elif self._codec == "zstandard":
            from zstandard import ZstdDecompressor

            data = ZstdDecompressor().stream_reader(stored).read(most)
        else:  # Snappy makes 21 bytes of one, at most.
            data = self._own.decompress(stored)
        self._left -= len(data)
        if self._left < 0:
            raise LimitExceededError(
                f"{shown_path(self._path)}: its blocks hold more than {MOST_BYTES:,} "
                "bytes when they are decompressed"
            ).at(file=self._path)
        if stream is not None and not stream.eof:
            raise ValueError("a block ends too early")
        return data


def records_of(
    io: Any, path: str, fields: Sequence[Any], structs: Sequence[int] = ()
) -> list[list[Any]]:
    """Return the records of a file: the values of some fields of each.

    Other fields are skipped, which takes less time than to read them. A field that is
    not required is None where the file lacks it.

    Args:
        io: A ``FileIO`` of pyiceberg.
        path: The file, as the table has it.
        fields: Fields of pyiceberg, which have ids.
        structs: Ids of those whose values are lists of values too.

    Raises:
        CorruptFileError: If it is not such a file, or is truncated.
        UnsupportedError: If its schema stores maps in another way.
    """
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.exceptions import ResolveError
    from pyiceberg.schema import Schema

    source = io.new_input(path)
    check_small(path, len(source))
    with source.open() as file:
        stored = file.read()
    kinds = dict.fromkeys((-1, *structs), _Record)
    try:
        with AvroFile[Any](_Stored(stored), Schema(*fields), kinds) as reader:  # type: ignore[arg-type]
            if own := reader.header.compression_codec():
                codec = _Decompressor(
                    reader.header.meta.get("avro.codec", ""), own, path
                )
                vars(reader.header)["compression_codec"] = lambda: codec
            records: list[list[Any]] = [*reader]
        # pyiceberg takes a block that is cut short for the end of the file.
        is_whole = reader.decoder.tell() == len(stored)
        is_whole &= stored.endswith(reader.header.sync)
    except LimitExceededError:
        raise
    except (ResolveError, *MALFORMED) as problem:
        if _NULLABLE_ENTRIES.search(stored[:MOST_HEADER]):
            raise UnsupportedError(
                f"{path}: in its Avro schema the entries of maps may be null, as "
                "BigQuery writes it, and pyiceberg knows the entries of the format's "
                "specification alone: write the table's manifests again, as "
                "rewrite_manifests of Spark does"
            ).at(file=path) from None
        text = " ".join(str(problem).split()) or type(problem).__name__
        raise CorruptFileError(f"{path}: pyiceberg says: {text}").at(
            file=path
        ) from None
    if not is_whole:
        raise CorruptFileError(
            f"{path}: the file is truncated: it has {len(stored)} bytes, and the last "
            "ones do not end a block of records"
        ).at(file=path)
    return records
