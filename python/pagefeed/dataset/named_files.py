"""Parquet files and the columns wanted of them, named as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pagefeed._base import check_column, check_columns, check_flag
from pagefeed.dataset.aligned import parse_aligned
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.storage import PathLike, Paths, StorageOptions, located, plain_path
from pagefeed.tokenizer import Tokenizer

__all__ = ["parquet"]


def parquet(
    paths: Paths,
    *,
    column: str,
    aligned: Iterable[str] | Mapping[str, float] = (),
    metadata: Iterable[str] = (),
    cache_dir: PathLike | None = None,
    page_index: bool = True,
    verify_checksums: bool = True,
    storage_options: StorageOptions | None = None,
    tokenizer: Tokenizer | None = None,
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
        page_index: Use the files' own offset indexes where they have them.
        verify_checksums: Verify checksums of pages where the writer stored them.
        storage_options: Settings of remote storage: ``endpoint_url``, ``region``,
            credentials, ``deadline`` in seconds. What is not given comes from the
            usual variables of the environment.
        tokenizer: The one that made the tokens: files that name another are refused.

    Returns:
        The dataset. No data is read before it is used.

    Raises:
        MissingFileError: If there is nothing at a path.
        InvalidArgumentError: If metadata or aligned are no lists of other columns, or
            the tokens are of another tokenizer.

    Example:
        >>> web = parquet("corpus/web", column="input_ids")  # doctest: +SKIP
    """
    others = check_columns(metadata, "metadata")
    if column in others or len(set(others)) < len(others):
        raise InvalidArgumentError(
            f"metadata={list(others)} must name further columns, beside {column!r}, "
            "each once"
        )
    found = located(paths, storage_options)
    dataset = ParquetDataset(
        files=found.files,
        storage=found.storage,
        column=check_column(column, "column"),
        aligned=parse_aligned(aligned, (column, *others)),
        metadata=others,
        cache_dir=None if cache_dir is None else plain_path(cache_dir, "cache_dir"),
        page_index=check_flag(page_index, "page_index"),
        verify_checksums=check_flag(verify_checksums, "verify_checksums"),
    )
    if tokenizer is not None:
        dataset.check_tokenizer(tokenizer)
    return dataset
