"""Converts token files to another format, document by document."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    Work,
    check_choice,
    check_column,
    check_token,
    in_order,
    parse_bytes,
    require,
)
from pagefeed.core.dataset import Dataset, PageIndex, check_dataset
from pagefeed.core.storage import PathLike, Paths
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.flat import (
    FLAT_FORMATS,
    FlatName,
    Output,
    TokenFormat,
    TokenRows,
    given_dtype,
)
from pagefeed.parquet_files import parquet
from pagefeed.prepare.parquet_output import ParquetOutput
from pagefeed.prepare.parquet_sinks import Compression
from pagefeed.prepare.samples import write_samples
from pagefeed.remote import OutputFolder, StorageOptions, output_folder


def token_rows(dataset: Dataset, first: int = 0) -> Iterator[TokenRows]:
    """Yield the documents of a dataset from number ``first`` on, a page at a time.

    Reads pages ahead, with a thread per CPU. A null row is an empty document.

    Raises:
        UnsupportedError: If the column is not a list of integers.
        MissingDependencyError: If pyarrow is not installed.
    """
    arrow = require("pyarrow", extra="pyarrow", purpose="converting datasets")
    spans = dataset.spans
    pages, rows = spans.places(np.arange(len(spans)))
    borders = spans.first_rows(np.arange(len(spans) + 1))
    first_span = int(np.searchsorted(borders[1:], first, side="right"))

    def read(span: int) -> TokenRows:
        page = _page(spans.index, int(pages[span]), arrow)
        left_out = max(first - int(borders[span]), 0)
        begin = int(rows[span]) + left_out
        stop = int(rows[span]) + int(borders[span + 1] - borders[span])
        return page.some(begin, stop)

    return in_order(read, range(first_span, len(spans)))


def _page(index: PageIndex, page: int, arrow: Any) -> TokenRows:
    array = arrow.array(index.read_page(page))
    if not arrow.types.is_large_list(array.type):
        array = array.cast(arrow.large_list(array.type.value_type))
    kind = array.type.value_type
    if not arrow.types.is_integer(kind):
        raise UnsupportedError(
            f"column {index.column!r} holds {kind}, and tokens are integers: tokenize "
            "it first"
        )
    values = array.flatten()  # It skips values under null rows.
    if values.null_count:
        raise UnsupportedError(
            f"column {index.column!r} has a null token on page {page}: write the "
            "column without nulls"
        )
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return TokenRows(values.to_numpy(zero_copy_only=False), offsets)


TOKEN_FORMATS = {"parquet": TokenFormat(parquet, ParquetOutput), **FLAT_FORMATS}
"""Formats that are read and written, by name: Parquet and the flat formats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """Result of a conversion: files, rows and tokens written."""

    format: str
    """Format of the files."""
    files: tuple[str, ...]
    """Files, folders of shards, or a prefix, as datasets take them."""
    dtype: str
    """Type of the tokens."""
    num_documents: int
    """Documents written."""
    num_left_out: int
    """Empty documents, which MDS cannot hold and which were left out."""
    num_tokens: int
    """Tokens written, separators included."""


def convert(
    dataset: Dataset | PathLike | list[Any] | tuple[Any, ...],
    output: PathLike,
    *,
    to: Literal["parquet"] | FlatName,
    dtype: npt.DTypeLike | None = None,
    eos: int | None = None,
    column: str | None = None,
    shard_size: int | str = "512MiB",
    page_size: int | str | None = None,
    compression: Compression | None = None,
    storage_options: StorageOptions | None = None,
) -> Conversion:
    """Write the tokens of a dataset in another format, document by document.

    Memory does not grow with the dataset, except for 4 bytes a document of Megatron's
    index. Files and shards appear when they are complete; indexes of Megatron and MDS
    appear last. Documents keep their order. Empty documents are kept too, except in
    MDS, where they are left out and counted.

    Readers refuse a folder of Parquet or stream files until it is complete. Start a
    killed conversion to Parquet again to continue it: its files are, byte for byte,
    those of an uninterrupted one, and its manifest comes last. For other formats,
    remove what is there first.

    Args:
        dataset: Any dataset: Parquet files, a selection of them, or token files. Or
            paths of samples, for ``to="parquet"``: tars of WebDataset, whose extensions
            become columns (``json`` and ``txt`` as text), or folders of images, with
            columns ``image``, ``label`` (the first folder) and ``path``.
        output: A folder for ``"parquet"``, ``"stream"`` and ``"mds"``, a prefix for
            ``"megatron"``, and a file for ``"raw"`` and ``"npy"``. Parquet is written
            to a URL of a bucket as well.
        to: The format.
        dtype: Type of the tokens, of at most 32 bits for Parquet; by default the one
            they are read in.
        eos: A token to write after every document; raw files have no other border.
        column: Name of the tokens; by default that of the dataset.
        shard_size: Bytes of tokens, before compression, after which a new file or shard
            begins.
        page_size: Bytes of tokens in a page of Parquet, at four bytes a token; by
            default ``"64KiB"``.
        compression: The codec of pages of Parquet: ``"zstd"``, the default, makes the
            smallest files; ``"none"`` is loaded fastest, at two bytes a token, or three
            for ``uint32``; ``"lz4"`` and ``"snappy"`` lie between.
        storage_options: Settings of remote storage of the output, see
            :func:`pagefeed.parquet`.

    Returns:
        What was written.

    Raises:
        InvalidArgumentError: If an argument is invalid.
        TokenRangeError: If a token does not fit ``dtype``.
        UnsupportedError: If the column is not a list of integers.
        FileAccessError: If the output cannot be written.

    Example:
        >>> web = pagefeed.parquet("corpus", column="input_ids")  # doctest: +SKIP
        >>> convert(web, "corpus-stream", to="stream", dtype="uint16")  # doctest: +SKIP
        >>> convert(web, "fast", to="parquet", compression="none")  # doctest: +SKIP
    """
    if isinstance(dataset, str | os.PathLike | list | tuple):
        return _converted_samples(
            dataset,
            output_folder(output, storage_options, "output"),
            to,
            {"dtype": dtype, "eos": eos, "column": column},
            max(1, parse_bytes(shard_size, name="shard_size")),
            _parquet_settings(page_size, compression),
        )
    check_dataset(dataset, "dataset")
    if dataset.spans.erased is not None:
        raise InvalidArgumentError(
            "documents of the dataset are erased, and convert cannot leave them out: "
            "select the other documents by where()"
        )
    check_choice(to, tuple(TOKEN_FORMATS), "to")
    behind = check_token(eos, "eos")
    name = check_column(dataset.column if column is None else column, "column")
    more: dict[str, Any] = {}
    if to == "parquet":
        more = _parquet_settings(page_size, compression)
    elif page_size is not None or compression is not None:
        given = "compression" if page_size is None else "page_size"
        raise InvalidArgumentError(f"{given} is for to='parquet': {to!r} has no pages")
    make = TOKEN_FORMATS[to].writer
    kind = _dtype(dataset, dtype, make)
    num_rows = len(dataset)
    num_tokens = dataset.spans.num_values + num_rows * (behind is not None)
    out = make(
        output_folder(output, storage_options, "output", buckets=to == "parquet"),
        kind,
        column=name,
        shard_bytes=max(1, parse_bytes(shard_size, name="shard_size")),
        num_tokens=num_tokens,
        source={"dataset": dataset.fingerprint, "eos": behind},
        **more,
    )
    with (
        out.stack,
        Work(f"converting to {to}", total=num_rows, unit="documents") as work,
    ):
        out.begin()
        work.advance(out.num_done)
        for rows in token_rows(dataset, out.num_done):
            ended = rows if behind is None else _with_ends(rows, behind)
            out.write(ended)
            work.advance(len(ended.offsets) - 1)
        out.finish()
    return Conversion(
        format=to,
        files=tuple(out.files),
        dtype=kind.name,
        num_documents=num_rows - out.num_left_out,
        num_left_out=out.num_left_out,
        num_tokens=num_tokens,
    )


def _converted_samples(
    paths: Paths,
    folder: OutputFolder,
    to: str,
    others: dict[str, Any],
    shard_bytes: int,
    settings: dict[str, Any],
) -> Conversion:
    check_choice(to, ("parquet",), "to")
    for name, value in others.items():
        if value is not None:
            raise InvalidArgumentError(f"{name} is for tokens, and samples have none")
    files, count = write_samples(paths, folder, shard_bytes=shard_bytes, **settings)
    return Conversion(
        format=to,
        files=tuple(files),
        dtype="samples",
        num_documents=count,
        num_left_out=0,
        num_tokens=0,
    )


def _parquet_settings(
    page_size: int | str | None, compression: Compression | None
) -> dict[str, Any]:
    """Return the arguments for Parquet alone."""
    codec = "zstd" if compression is None else compression
    check_choice(codec, get_args(Compression), "compression")
    size = parse_bytes("64KiB" if page_size is None else page_size, name="page_size")
    return {"page_bytes": max(1, size), "compression": codec}


def _dtype(
    dataset: Dataset, dtype: npt.DTypeLike | None, make: type[Output]
) -> np.dtype[np.generic]:
    given = given_dtype(dtype)
    narrow = dataset.index.value_bytes
    if not narrow:
        raise UnsupportedError(
            f"column {dataset.column!r} is not a list of integers: tokenize it first"
        )
    fitting = "uint16" if narrow <= 2 else make.wide if narrow == 4 else make.widest
    return np.dtype(given or fitting)


def _with_ends(rows: TokenRows, eos: int) -> TokenRows:
    """Return documents with ``eos`` added at the end of each."""
    kind = np.promote_types(rows.tokens.dtype, np.min_scalar_type(eos))
    tokens = np.insert(rows.tokens.astype(kind), rows.offsets[1:], eos)
    return TokenRows(tokens, rows.offsets + np.arange(len(rows.offsets)))
