"""Parquet files and the columns wanted of them, named as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pagefeed._base import check_column, check_columns, check_flag
from pagefeed.dataset.aligned import parse_aligned
from pagefeed.dataset.index_recipe import PageIndexUse, check_page_index
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.storage import PathLike, Paths, StorageOptions, located, plain_path

__all__ = ["parquet"]


def parquet(
    paths: Paths,
    *,
    column: str,
    aligned: Iterable[str] | Mapping[str, float] = (),
    metadata: Iterable[str] = (),
    cache_dir: PathLike | None = None,
    page_index: PageIndexUse = True,
    verify_checksums: bool = True,
    storage_options: StorageOptions | None = None,
    storage_cache: str | int | None = None,
) -> ParquetDataset:
    """Name a dataset of Parquet files, as they lie.

    Args:
        paths: Files; folders, for the ``.parquet`` and ``.parq`` files below them;
            patterns; or a list of these, whose order is kept. URLs are such as well:
            ``s3://``, ``gs://``, ``az://``, ``https://`` and ``hf://datasets/``.
        column: The token column: a list of integers per row.
        aligned: Further columns with a number for every token of the same row, such as
            labels and loss weights. They take every cut of the tokens and arrive as
            ``batch["labels"]`` [batch_size, length], of the type that the files have.
            Where there is no token of a row, in padding and separators, they hold -100
            if they are called ``labels``, else 0, or what is given:
            ``aligned={"labels": -100, "loss_weight": 0.5}``.
        metadata: Further columns of the same rows, which batches of
            :class:`Documents` hold. Token sequences cannot carry them yet: a loader
            of these refuses a dataset with metadata.
        cache_dir: Folder for the page index, which every process of the machine then
            maps; by default ``$PAGEFEED_CACHE_DIR``, or memory.
        page_index: Use the files' own offset indexes where they have them, and page
            headers elsewhere; with False page headers alone. With ``"row_group"`` a
            page is a whole row group, of which the footer tells rows and tokens:
            nothing else is read for the index. It suits row groups of some megabytes,
            and ``shuffle="row_group"``, which then is the same order of the same
            windows. Each row group is held against these counts when it is read.
        verify_checksums: Verify checksums of pages where the writer stored them.
        storage_options: Settings of remote storage: ``endpoint_url``, ``region``,
            credentials, ``deadline`` in seconds. What is not given comes from the
            usual variables of the environment.
        storage_cache: What is fetched from remote storage is kept on a local disk, as
            much as this: ``"200GB"``. The folder is ``storage_cache_dir`` of
            ``storage_options``, or ``$PAGEFEED_CACHE_DIR``.

    Returns:
        The dataset. No data is read before it is used.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If metadata or aligned are no lists of other columns.

    Example:
        >>> web = parquet("corpus/web", column="input_ids")  # doctest: +SKIP
    """
    others = check_columns(metadata, "metadata")
    if column in others or len(set(others)) < len(others):
        raise InvalidArgumentError(
            f"metadata={list(others)} must name further columns, beside {column!r}, "
            "each once"
        )
    if storage_cache is not None:
        storage_options = {**(storage_options or {}), "storage_cache": storage_cache}
    found = located(paths, storage_options)
    return ParquetDataset(
        files=found.files,
        storage=found.storage,
        column=check_column(column, "column"),
        aligned=parse_aligned(aligned, (column, *others)),
        metadata=others,
        cache_dir=None if cache_dir is None else plain_path(cache_dir, "cache_dir"),
        page_index=check_page_index(page_index),
        verify_checksums=check_flag(verify_checksums, "verify_checksums"),
    )
