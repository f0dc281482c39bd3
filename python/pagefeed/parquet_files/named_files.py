"""Parquet files and columns, as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Required, TypedDict, Unpack

from pagefeed.aligned import AlignedColumnNames, parse_aligned
from pagefeed.core._base import (
    check_choice,
    check_column,
    check_columns,
    check_flag,
    near_name,
)
from pagefeed.core.dataset import PageIndexUse, cache_folder, check_page_index
from pagefeed.core.storage import (
    Located,
    PathLike,
    Paths,
    located,
    located_exactly,
    plain_path,
    plain_paths,
)
from pagefeed.errors import InvalidArgumentError
from pagefeed.parquet_files.manifests import check_listed
from pagefeed.parquet_files.parquet_dataset import ParquetDataset

if TYPE_CHECKING:
    from pagefeed.remote import OwnStore, SharedIndex, StorageOptions
    from pagefeed.selection import TableColumns
    from pagefeed.tokenizer import Tokenizer


def parquet(
    paths: Paths,
    *,
    column: str,
    aligned: AlignedColumnNames = (),
    metadata: Iterable[str] = (),
    spans: Iterable[str] = (),
    cache_dir: PathLike | None = None,
    page_index: PageIndexUse = True,
    verify_checksums: bool = True,
    storage_options: StorageOptions | None = None,
    storage_cache: str | int | None = None,
    tokenizer: Tokenizer | None = None,
    index: PathLike | None = None,
    missing: Literal["error", "null"] = "error",
    store: OwnStore | None = None,
) -> ParquetDataset:
    """Return a dataset of Parquet files, which are read in place.

    Args:
        paths: Files; folders, for the ``.parquet`` and ``.parq`` files below them;
            patterns; or a list of these, whose order is kept. Each may be a URL:
            ``s3://``, ``gs://``, ``az://``, ``https://`` or ``hf://datasets/``.
        column: The token column: a list of integers per row.
        aligned: Further columns with numbers for every token of the same row, such as
            labels, loss weights, and predictions of a teacher. They are cut together
            with the tokens, and arrive as ``batch["labels"]`` [batch_size, length], in
            the type that the files have. Padding and separators hold -100 in a column
            called ``labels``, else 0, or the number that is given:
            ``aligned={"labels": -100, "loss_weight": 0.5}``. Columns of several numbers
            a token arrive as [batch_size, length, width]: see :class:`Aligned`.
        metadata: Further columns of the same rows, of any type, by dotted paths:
            ``["id", "meta.lang"]``. A loader with ``fields=(..., "metadata")`` gives
            their values for every part of a document in its batches.
        spans: Columns of ranges of tokens in the same rows: lists of structs with whole
            numbers ``start`` and ``end``, the first token of the range and the token
            after its last, and any other fields. They become columns of the table of
            metadata. Each range is clipped to the part of the document, and moved to
            its position in the sequence.
        cache_dir: Folder for the page index, which all processes of the machine then
            share; by default ``$PAGEFEED_CACHE_DIR``. Without a folder it stays in
            memory.
        page_index: Use the files' own offset indexes where they have them, and page
            headers elsewhere; with False page headers alone. With ``"row_group"`` each
            row group counts as one page. Its rows and tokens come from the footer, so
            the index needs nothing else, and each row group is checked against them
            when it is read. This suits row groups of some megabytes, and
            ``shuffle="row_group"``, whose order of windows stays the same.
        verify_checksums: Verify checksums of pages where the writer stored them.
        storage_options: Settings of remote storage: ``endpoint_url``, ``region``,
            credentials, ``deadline`` in seconds. The usual variables of the environment
            give the others.
        storage_cache: Size of a cache on a local disk, such as ``"200GB"``, for remote
            data and mounted folders. Its folder is ``storage_cache_dir`` of
            ``storage_options``, or ``$PAGEFEED_CACHE_DIR``.
        tokenizer: The tokenizer that made the tokens. Files that record another one are
            refused.
        index: Folder of an index that ``pagefeed index --output`` wrote. The dataset
            then has the files of ``paths`` in this index: files are not listed, and no
            footer is read. To keep the same files after later writes, give the
            manifest whose name has a digest. Every read checks that its file is the one
            that was indexed.
        missing: Value of a column, or of a field in a struct, that some of the files
            lack. By default such a column is refused by name. With ``"null"`` the
            footers of all files are read first, and it is null in those files, for
            ``where`` and ``metadata``. Tokens and aligned columns are never made up.
        store: A store of your own in place of files and URLs: an object with the calls
            ``get_range``, ``list`` and ``head`` as ``obspec`` has them, such as a store
            of ``obstore``, see :class:`pagefeed.remote.OwnStore`. ``paths`` are then
            names in it. From ``storage_options`` it takes ``deadline``,
            ``max_in_flight``, ``storage_cache`` and ``storage_cache_dir``.

    Returns:
        The dataset. Files are read only when it is used.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If ``metadata``, ``spans`` or ``aligned`` are not lists of
            other columns, or another tokenizer made the tokens.

    Example:
        >>> web = parquet("corpus/web", column="input_ids")  # doctest: +SKIP
    """
    if storage_cache is not None:
        storage_options = {**(storage_options or {}), "storage_cache": storage_cache}
    shared = None
    if store is not None:
        from pagefeed.remote import located_in

        if index is not None:
            raise InvalidArgumentError("with store=, cache_dir= keeps the index")
        files = located_in(store, paths, storage_options)
    elif index is None:
        files = located(paths, storage_options)
        check_listed(*files, paths)
    else:
        shared, files = _shared(
            paths, index, column, page_index, cache_dir, storage_options
        )
    table = None
    if check_choice(missing, ("error", "null"), "missing") == "null":
        from pagefeed.parquet_files.united import united_columns

        table = united_columns(files)
    return named_dataset(
        files,
        table,
        shared,
        column=column,
        aligned=aligned,
        metadata=metadata,
        spans=spans,
        cache_dir=cache_dir,
        page_index=page_index,
        verify_checksums=verify_checksums,
        tokenizer=tokenizer,
    )


def _shared(
    paths: Paths,
    index: PathLike,
    column: str,
    page_index: PageIndexUse,
    cache_dir: PathLike | None,
    options: StorageOptions | None,
) -> tuple[SharedIndex, Located]:
    """Open a shared index; return it with those of its files that paths mean."""
    from pagefeed.remote import SharedIndex, located_among, options_of, output_folder

    location = plain_path(index, "index")
    if location.endswith((".json", ".index")):
        raise InvalidArgumentError(
            f"index={location} is a file: give the folder of the index, "
            f"{location.rpartition('/')[0]}"
        )
    folder = output_folder(location, options, "index")
    given = plain_paths(paths)
    storage = located_exactly(given, options_of(given, options, location)).storage
    shared = SharedIndex(folder, cache_folder(cache_dir), storage)
    opened = shared.open(check_column(column, "column"), check_page_index(page_index))
    indexed = opened.core.files
    opened.head.check_roots(given, indexed, folder.path)
    return shared, located_among(given, indexed, storage)


class Columns(TypedDict, total=False):
    """Columns to read, and how they are indexed: see :func:`parquet`."""

    column: Required[str]
    aligned: AlignedColumnNames
    metadata: Iterable[str]
    spans: Iterable[str]
    cache_dir: PathLike | None
    page_index: PageIndexUse
    verify_checksums: bool
    tokenizer: Tokenizer | None


GONE = {
    "key": ", as a state of an earlier snapshot loads into that snapshot alone: name "
    "it, by version= or snapshot="
}
"""Replacements of former arguments."""


def check_wanted(wanted: Mapping[str, object], *own: str) -> None:
    """Refuse unknown arguments, or a missing token column.

    Args:
        wanted: Further arguments of a function.
        own: Its other arguments, which may have been misspelt.

    Raises:
        InvalidArgumentError: Naming the argument.
    """
    arguments = [*own, *Columns.__annotations__]
    for name in wanted:
        told = GONE.get(name) or near_name(name, arguments)
        if name not in Columns.__annotations__:
            raise InvalidArgumentError(
                f"there is no argument {name!r}{told}; there are {', '.join(arguments)}"
            )
    if "column" not in wanted:
        raise InvalidArgumentError("name the token column: column='input_ids'")


def named_dataset(
    files: Located,
    table: TableColumns | None = None,
    shared: SharedIndex | None = None,
    **wanted: Unpack[Columns],
) -> ParquetDataset:
    """Return a dataset of located files, possibly those of a table."""
    column = check_column(wanted["column"], "column")
    tokenizer = wanted.get("tokenizer")
    others = check_columns(wanted.get("metadata", ()), "metadata")
    ranges = check_columns(wanted.get("spans", ()), "spans")
    for name, columns in (("metadata", others), ("spans", ranges)):
        taken = {column, *others} if name == "spans" else {column}
        if taken & set(columns) or len(set(columns)) < len(columns):
            raise InvalidArgumentError(
                f"{name}={list(columns)} must name columns other than "
                f"{', '.join(map(repr, sorted(taken)))}, and none of them twice"
            )
    dataset = ParquetDataset(
        files=files.files,
        storage=files.storage,
        column=column,
        aligned=parse_aligned(wanted.get("aligned", ()), (column, *others, *ranges)),
        metadata=others,
        span_columns=ranges,
        cache_dir=wanted.get("cache_dir"),
        _page_index=check_page_index(wanted.get("page_index", True)),
        verify_checksums=check_flag(
            wanted.get("verify_checksums", True), "verify_checksums"
        ),
        table=table,
        shared=shared,
    )
    if tokenizer is not None:
        dataset.check_tokenizer(tokenizer)
    return dataset
