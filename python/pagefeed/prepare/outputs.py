"""Writers of token files, one for each format; what they write appears whole."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import require
from pagefeed.dataset import StreamWriter, fitting
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.prepare.parquet_file import ParquetFileWriter
from pagefeed.prepare.rows import TokenRows
from pagefeed.storage import FileWriter, LocalStorage, make_folder

__all__ = ["OUTPUTS", "Output"]

Tokens = npt.NDArray[Any]


class Output(ABC):
    """Writes documents to files of one format.

    Args:
        path: Where: a folder, a prefix or a file, as the format has it.
        dtype: Type of the tokens.
        column: What they are called, where the format has names.
        shard_bytes: Bytes of tokens from which on another shard begins.
        num_tokens: Tokens that will be written.
    """

    def __init__(
        self,
        path: str,
        dtype: np.dtype[Any],
        *,
        column: str,
        shard_bytes: int,
        num_tokens: int,
    ) -> None:
        self.path = path
        self.dtype = dtype
        self.column = column
        self.shard_bytes = shard_bytes
        self.num_tokens = num_tokens
        self.files: list[str] = []
        """What was written, as it can be opened again."""
        self.num_left_out = 0
        """Documents that the format cannot hold."""
        self.stack = ExitStack()
        """Closes what is open; of a conversion that fails whole shards stay."""
        self.begin()

    def begin(self) -> None:  # noqa: B027 - some open files only later
        """Open what is written."""

    def write(self, rows: TokenRows) -> None:
        """Write documents.

        Raises:
            TokenRangeError: If a token does not fit the type.
        """
        tokens = fitting(rows.tokens, self.dtype, self.column)
        self.put(TokenRows(tokens.astype(self.dtype, copy=False), rows.offsets))

    @abstractmethod
    def put(self, rows: TokenRows) -> None:
        """Write documents whose tokens are of the type."""

    @abstractmethod
    def finish(self) -> None:
        """Write what comes last, once all went well."""


class RawOutput(Output):
    """One ``.bin`` file of tokens alone."""

    def begin(self) -> None:
        """Open what is written."""
        self._file = self.stack.enter_context(FileWriter(self.path))
        self._file.write(self.head())
        self.files = [self.path]

    def head(self) -> bytes:
        """Return what comes before the tokens."""
        return b""

    def put(self, rows: TokenRows) -> None:
        """Write documents, of which nothing but their tokens is left."""
        self._file.write(rows.tokens.tobytes())

    def finish(self) -> None:
        """Have the file under its name."""
        self._file.commit()


class NpyOutput(RawOutput):
    """One ``.npy`` file of tokens alone."""

    def head(self) -> bytes:
        """Return NumPy's header, of version 1."""
        about = {"descr": self.dtype.str, "fortran_order": False}
        text = repr(about | {"shape": (self.num_tokens,)})
        text += " " * (-(len(text) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


class MegatronOutput(Output):
    """A ``.bin`` and an ``.idx``: one sequence a document."""

    CODES = (None, "u1", "i1", "i2", "i4", "i8", "f8", "f4", "u2")

    def begin(self) -> None:
        """Open what is written."""
        known = [np.dtype(code) if code else None for code in self.CODES]
        if self.dtype not in known:
            raise InvalidArgumentError(
                f"dtype={self.dtype} is none of Megatron's: choose uint16 or int32"
            )
        self._code = known.index(self.dtype)
        prefix = self.path.removesuffix(".bin").removesuffix(".idx")
        self._tokens = self.stack.enter_context(FileWriter(f"{prefix}.bin"))
        self._index = self.stack.enter_context(FileWriter(f"{prefix}.idx"))
        self._lengths: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        self.files = [prefix]

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        self._tokens.write(rows.tokens.tobytes())
        self._lengths.append(np.diff(rows.offsets).astype(np.int32))

    def finish(self) -> None:
        """Write the index."""
        lengths = np.concatenate(self._lengths)
        ends = np.cumsum(lengths, dtype=np.int64) * self.dtype.itemsize
        head = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, self._code)
        self._index.write(head + struct.pack("<QQ", len(lengths), len(lengths) + 1))
        self._index.write(lengths.tobytes())
        self._index.write((ends - lengths * np.int64(self.dtype.itemsize)).tobytes())
        self._index.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())
        self._tokens.commit()
        self._index.commit()


class StreamOutput(Output):
    """Shards of a stream, in folders of their own."""

    _shard: StreamWriter | None = None

    def begin(self) -> None:
        """Refuse a folder with shards: those to write would be read with them."""
        with suppress(MissingFileError):
            found = LocalStorage().list_files(self.path, ("stream.json",))
            raise InvalidArgumentError(
                f"{self.path} has a stream already, {found[0]}: write to another "
                "folder, or remove it"
            )

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        most = self.shard_bytes // self.dtype.itemsize
        if self._shard is None or self._shard.num_tokens >= most:
            self.finish()
            folder = f"{self.path}/{len(self.files):05}"
            writer = StreamWriter(folder, dtype=self.dtype)
            self._shard = self.stack.enter_context(writer)
            self.files.append(self._shard.folder)
        self._shard.append_many(rows.tokens, np.diff(rows.offsets))

    def finish(self) -> None:
        """Write the header of the last shard."""
        if self._shard is not None:
            self._shard.close()


class ParquetOutput(Output):
    """Parquet files with a list of tokens a row."""

    _file: ParquetFileWriter | None = None

    def put(self, rows: TokenRows) -> None:
        """Write documents: those of a page are a row group at least."""
        arrow = require("pyarrow", extra="pyarrow", purpose="Parquet files")
        lists = arrow.LargeListArray.from_arrays(rows.offsets, arrow.array(rows.tokens))
        kind = arrow.list_(arrow.from_numpy_dtype(self.dtype))
        table = arrow.table({self.column: lists.cast(kind)})
        if self._file is None or self._file.size >= self.shard_bytes:
            self._begin(table.schema)
        self._waiting.append(table)
        if sum(table.nbytes for table in self._waiting) >= _GROUP_BYTES:
            self._flush(arrow)

    def _begin(self, schema: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self.finish()
        path = f"{make_folder(self.path)}/part-{len(self.files):05}.parquet"
        self._file = self.stack.enter_context(
            ParquetFileWriter(
                path,
                schema,
                compression="zstd",
                use_dictionary=False,
                data_page_size=256 << 10,
            )
        )
        self.files.append(path)
        self._waiting: list[Any] = []

    def _flush(self, arrow: Any) -> None:  # noqa: ANN401
        if self._waiting and self._file is not None:
            self._file.write(arrow.concat_tables(self._waiting))
            self._waiting = []

    def finish(self) -> None:
        """Write the last footer."""
        if self._file is not None:
            self._flush(require("pyarrow", extra="pyarrow", purpose="Parquet files"))
            self._file.commit()


_GROUP_BYTES = 64 << 20


class MdsOutput(Output):
    """MDS shards with one column of arrays, and their index."""

    def begin(self) -> None:
        """Open what is written."""
        make_folder(self.path)
        self._samples: list[bytes] = []
        self._size = 0
        self._shards: list[dict[str, Any]] = []
        self._encoding = f"ndarray:{self.dtype.name}"
        self.files = [self.path]

    def put(self, rows: TokenRows) -> None:
        """Write documents; MDS has none without tokens, and these are left out."""
        for tokens in rows.each():
            if not len(tokens):
                self.num_left_out += 1
                continue
            width = next(w for w in range(4) if len(tokens) < 1 << (8 << w))
            shape = len(tokens).to_bytes(1 << width, "little")
            value = bytes([1 << 2 | width]) + shape + tokens.tobytes()
            sample = struct.pack("<I", len(value)) + value
            if self._samples and self._size + len(sample) > self._most:
                self._write_shard()
            self._samples.append(sample)
            self._size += len(sample) + 4

    @property
    def _most(self) -> int:
        return min(self.shard_bytes, 1 << 31)  # Places in a shard have 32 bits.

    def _write_shard(self) -> None:
        about: dict[str, Any] = {
            "column_encodings": [self._encoding],
            "column_names": [self.column],
            "column_sizes": [None],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": self._most,
            "version": 2,
        }
        config = json.dumps(about, sort_keys=True).encode()
        count = len(self._samples)
        begins = np.cumsum([0, *map(len, self._samples)])
        begins += 4 * (count + 2) + len(config)
        name = f"shard.{len(self._shards):05}.mds"
        file = self.stack.enter_context(FileWriter(f"{self.path}/{name}"))
        file.write(struct.pack("<I", count) + begins.astype("<u4").tobytes() + config)
        for sample in self._samples:
            file.write(sample)
        file.commit()
        raw = {"basename": name, "bytes": file.size, "hashes": {}}
        self._shards.append(
            about | {"raw_data": raw, "samples": count, "zip_data": None}
        )
        self._samples, self._size = [], 0

    def finish(self) -> None:
        """Write the last shard, and the index."""
        if self._samples:
            self._write_shard()
        text = json.dumps({"version": 2, "shards": self._shards}, sort_keys=True)
        index = self.stack.enter_context(FileWriter(f"{self.path}/index.json"))
        index.write(text.encode())
        index.commit()


OUTPUTS: dict[str, type[Output]] = {
    "parquet": ParquetOutput,
    "stream": StreamOutput,
    "megatron": MegatronOutput,
    "mds": MdsOutput,
    "raw": RawOutput,
    "npy": NpyOutput,
}
"""The formats that are written, by their names."""
