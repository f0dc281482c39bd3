"""Files with a teacher's most likely next tokens, and their log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    WholeWriter,
    check_choice,
    check_column,
    check_positive,
    check_whole,
    parse_bytes,
    require,
)
from pagefeed.core.storage import PathLike
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.prepare.parquet_sinks import Compression, ParquetSink
from pagefeed.prepare.teacher_rows import (
    Numbers,
    cut_rows,
    named,
    num_of,
    stored_type,
    typed,
)
from pagefeed.remote import StorageOptions, output_folder

__all__ = ["TeacherWriter"]

KEY = b"pagefeed.teacher"
"""Key of the settings in the footer of a file."""

IdType: TypeAlias = Literal["int32", "uint16", "uint32", "int64"]
LogprobType: TypeAlias = Literal["float16", "float32", "bfloat16"]


class TeacherWriter(WholeWriter):
    """Writes tokens together with a teacher's top ids and log-probabilities.

    The files are Parquet, with a row for each document or prompt: ``input_ids``, a list
    of tokens, and ``teacher_ids`` and ``teacher_logprobs``, lists of ``k`` numbers for
    each of them. Row groups are small, so that a loader reads any of them alone; pages
    have checksums and a page index. ``pagefeed.parquet(folder, column="input_ids",
    aligned=["teacher_ids", "teacher_logprobs"])`` reads them.

    Several processes write to one folder, each with a number of its own. A file appears
    complete or not at all. After a crash :attr:`num_rows` says how many rows of this
    process are there: continue with the next.

    Args:
        folder: Folder of the files, or a URL of a bucket; it is created. A bucket has
            no lock that ends with its holder: if two writers there have one number, the
            one that began last goes on.
        k: How many ids and log-probabilities each token has.
        process: Number of this process among those that write to the folder.
        dtype: Type of tokens: ``"int32"``, ``"uint16"``, ``"uint32"`` or ``"int64"``.
        id_dtype: Type of the teacher's ids, one of the same.
        logprob_dtype: Type of log-probabilities: ``"float16"``, ``"float32"``, or
            ``"bfloat16"``, which is written as the bits of uint16: read it with
            ``pagefeed.Aligned(dtype="bfloat16")``.
        columns: Types of further columns with a value for each row, by name, as Arrow
            calls them: ``{"id": "string"}``.
        compression: ``"none"``, ``"zstd"``, ``"lz4"`` or ``"snappy"``.
        group_size: Bytes of a row group before compression: ``"4MiB"``. A loader reads
            a row group at once.
        file_size: Bytes at which a file ends and the next begins.
        storage_options: Settings of remote storage, see :func:`pagefeed.parquet`.

    Raises:
        InvalidArgumentError: If an argument is invalid, or the folder holds files of
            this process with other settings.
        FileAccessError: If another process writes with this number, or the folder
            cannot be written.
        MissingDependencyError: If pyarrow is not installed.

    Example:
        >>> import tempfile
        >>> tokens = np.arange(6).reshape(2, 3)
        >>> ids = np.zeros((2, 3, 4), np.int32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with TeacherWriter(folder, k=4) as out:
        ...         out.append(tokens, ids, -np.ones((2, 3, 4)), lengths=[3, 1])
        ...     TeacherWriter(folder, k=4).num_rows
        2
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        k: int,
        process: int = 0,
        dtype: IdType = "int32",
        id_dtype: IdType = "int32",
        logprob_dtype: LogprobType = "float16",
        columns: Mapping[str, str] | None = None,
        compression: Compression = "none",
        group_size: str | int = "4MiB",
        file_size: str | int = "1GB",
        storage_options: StorageOptions | None = None,
    ) -> None:
        self.k = check_positive(k, "k")
        self._process = check_whole(process, "process", least=0, most=99_999)
        self._types = {
            "input_ids": check_choice(dtype, get_args(IdType), "dtype"),
            "teacher_ids": check_choice(id_dtype, get_args(IdType), "id_dtype"),
            "teacher_logprobs": check_choice(
                logprob_dtype, get_args(LogprobType), "logprob_dtype"
            ),
        }
        self._columns = named(columns, "columns", "a type each, such as 'string'")
        for name, kind in self._columns.items():
            check_column(name, "columns")
            if not isinstance(kind, str):
                raise InvalidArgumentError(
                    f"columns[{name!r}]={kind!r:.60} must name a type of Arrow, "
                    "such as 'string'"
                )
            if name in self._types:
                raise InvalidArgumentError(f"columns has {name!r}, which is written")
        check_choice(compression, get_args(Compression), "compression")
        self._compression: Compression = compression
        self._group_bytes = parse_bytes(group_size, name="group_size")
        self._file_bytes = parse_bytes(file_size, name="file_size")
        self._schema = self._make_schema()
        self._out = output_folder(folder, storage_options, "folder")
        self.folder = self._out.path
        """The folder of the files, or its URL."""
        self._stack = ExitStack()
        self._file: ParquetSink | None = None
        self._waiting: list[Any] = []
        self._is_claimed, self._num_in_file = False, 0
        self._num_files, self._num_written = self._counted()
        self.num_rows = self._num_written
        """Rows of this process that are in the folder, or were appended since."""

    def __enter__(self) -> Self:
        """Take the number of this process, for as long as rows are appended."""
        self._claim()
        self.num_rows = self._num_written
        return self

    def _claim(self) -> None:
        """Take the number of this process, and list the files again."""
        if self._is_claimed:
            return
        self._stack.enter_context(self._out.claimed(f".{self._prefix}.lock"))
        self._is_claimed = True
        self._num_files, self._num_written = self._counted()

    def append(
        self,
        tokens: Numbers,
        ids: Numbers,
        logprobs: Numbers,
        *,
        lengths: Sequence[int] | npt.NDArray[Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Append rows.

        Args:
            tokens: Token ids, [rows, length] or an array [length] for each row; of
                NumPy or torch, as are the others.
            ids: The teacher's ids, [rows, length, k] or an array [length, k] for each.
                You choose which token they predict; best is to store at each token the
                predictions of the next one, as logits do.
            logprobs: Their log-probabilities, of the same shape.
            lengths: Tokens of each row that are written; the rest is padding.
            columns: Values of the further columns, one for each row.

        Raises:
            InvalidArgumentError: If shapes do not fit each other, a number does not fit
                its type, or a log-probability is NaN.
            FileAccessError: If the file cannot be written.
        """
        numbers = {
            "input_ids": cut_rows(tokens, lengths, "tokens", ()),
            "teacher_ids": cut_rows(ids, lengths, "ids", (self.k,)),
            "teacher_logprobs": cut_rows(logprobs, lengths, "logprobs", (self.k,)),
        }
        counts = [len(row) for row in numbers["input_ids"]]
        for name, values_of_rows in numbers.items():
            if [len(row) for row in values_of_rows] != counts:
                raise InvalidArgumentError(
                    f"{name} has rows of {[len(row) for row in values_of_rows][:8]} "
                    f"tokens and input_ids of {counts[:8]}: give as many for both"
                )
        others = named(columns, "columns", "a list of values each")
        if others.keys() != self._columns.keys() or any(
            num_of(values) != len(counts) for values in others.values()
        ):
            raise InvalidArgumentError(
                f"columns={sorted(others)} must be {sorted(self._columns)}, with a "
                f"value for each of {len(counts)} rows"
            )
        if counts:
            table = self._table(counts, numbers, others)
            if not self._is_claimed:
                self._claim()
                self._check_unchanged()
            self._append(counts, table)

    def _check_unchanged(self) -> None:
        """Refuse to continue if another process has written to the folder."""
        num_written, num_appended = self._num_written, self.num_rows
        if num_written != num_appended:
            self._release()
            raise FileAccessError(
                f"{self.folder} holds {num_written} rows of process {self._process}, "
                f"and had {num_appended} when this writer was made: make a new writer "
                "to continue after them, or give another process"
            )

    def _table(
        self,
        counts: list[int],
        numbers: Mapping[str, list[npt.NDArray[Any]]],
        others: Mapping[str, Any],
    ) -> Any:
        arrow = _arrow()
        offsets = arrow.array(np.concatenate([[0], np.cumsum(counts)]), arrow.int32())
        arrays = {name: self._column(name, values) for name, values in others.items()}
        for name, values_of_rows in numbers.items():
            values = typed(np.concatenate(values_of_rows), self._types[name], name)
            kind = self._schema.field(name).type
            flat = arrow.array(values.reshape(-1))
            if values.ndim == 2:
                flat = arrow.FixedSizeListArray.from_arrays(flat, type=kind.value_type)
            arrays[name] = arrow.ListArray.from_arrays(offsets, flat, type=kind)
        return arrow.table(arrays, schema=self._schema)

    def _column(self, name: str, values: Any) -> Any:
        """Return the values of a further column in its type."""
        arrow, kind = _arrow(), self._schema.field(name).type
        try:
            return arrow.array(values, kind)
        except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            problem = str(error).partition("\n")[0]
            raise InvalidArgumentError(
                f"columns[{name!r}] must hold values of type {kind}: {problem}"
            ) from None

    def _append(self, counts: list[int], table: Any) -> None:
        # Rows of a group are read at once.
        bytes_of_row = np.array(counts) * self._token_bytes
        waiting = sum(int(table_waiting.nbytes) for table_waiting in self._waiting)
        first = 0
        for row, size in enumerate(bytes_of_row.tolist()):
            if waiting and waiting + size > self._group_bytes:
                self._waiting.append(table.slice(first, row - first))
                self._flush()
                first, waiting = row, 0
            waiting += size
        self._waiting.append(table.slice(first))
        self.num_rows += len(counts)

    def _flush(self) -> None:
        """Write a row group of what waits."""
        table = _arrow().concat_tables(self._waiting)
        self._waiting = []
        if not len(table):
            return
        if self._file is None:
            name = f"{self._prefix}-{self._num_files:05}.parquet"
            self._file = ParquetSink(
                self._out.writer(name),
                self._schema,
                compression=self._compression,
                page_bytes=max(1024, self._group_bytes),
            )
        self._file.writer.write_table(table, row_group_size=len(table))
        self._num_in_file += len(table)
        if self._file.file.size >= self._file_bytes:
            self._end_file()

    def _end_file(self) -> None:
        if self._file is not None:
            self._out.check_claim()
            self._file.commit()
            self._file, self._num_files = None, self._num_files + 1
            self._num_written += self._num_in_file
            self._num_in_file = 0

    def commit(self) -> None:
        """Complete the file, so that its rows survive a crash."""
        if self._waiting:
            self._flush()
        self._end_file()

    def abandon(self) -> None:
        """Remove the unfinished file. Complete files stay."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        self._waiting, self._num_in_file = [], 0
        self.num_rows = self._num_written
        self._release()

    def _release(self) -> None:
        self._stack.close()
        self._is_claimed = False

    @property
    def _prefix(self) -> str:
        return f"part-{self._process:05}"

    @property
    def _token_bytes(self) -> int:
        own, *teachers = (
            np.dtype(stored_type(t)).itemsize for t in self._types.values()
        )
        return own + self.k * sum(teachers)

    def _make_schema(self) -> Any:
        arrow = _arrow()

        def listed(kind: Any, size: int = -1) -> Any:
            return arrow.list_(arrow.field("element", kind, nullable=False), size)

        fields = []
        for name, kind in self._types.items():
            number_type = arrow.from_numpy_dtype(np.dtype(stored_type(kind)))
            if name != "input_ids":
                number_type = listed(number_type, self.k)
            fields.append(arrow.field(name, listed(number_type), nullable=False))
        try:
            for name, type_name in self._columns.items():
                fields.append(arrow.field(name, arrow.type_for_alias(type_name)))
        except ValueError as error:
            raise InvalidArgumentError(f"columns={self._columns}: {error}") from None
        about = {"version": 1, "k": self.k, "types": self._types}
        return arrow.schema(fields, metadata={KEY: json.dumps(about)})

    def _counted(self) -> tuple[int, int]:
        """Return the number of files of this process, and of their rows."""
        parquet, rows, count = _arrow("pyarrow.parquet"), 0, 0
        for name in self._out.names():
            if not (name.startswith(f"{self._prefix}-") and name.endswith(".parquet")):
                continue
            try:
                path = self._out.path_of(name)
                with parquet.ParquetFile(self._out.storage.open_arrow(path)) as file:
                    rows += file.metadata.num_rows
                    schema = file.schema_arrow
            except FileAccessError:
                raise
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(
                    f"{self.folder}/{name} is no file of a TeacherWriter: {error}"
                ) from None
            count += 1
            if not schema.equals(self._schema, check_metadata=True):
                raise InvalidArgumentError(
                    f"{self.folder}/{name} was written with other settings, "
                    f"{_shown(schema)}, and these are {_shown(self._schema)}: give the "
                    "same, another folder, or another process"
                )
        return count, rows


def _shown(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _arrow(name: str = "pyarrow") -> Any:
    return require(name, extra="pyarrow", purpose="TeacherWriter")
