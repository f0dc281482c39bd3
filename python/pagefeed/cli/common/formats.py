"""Token files that are no Parquet, on the command line: known by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagefeed.dataset import FlatDataset, mds, megatron, stream, tokens
from pagefeed.errors import InvalidArgumentError, MissingFileError
from pagefeed.storage import LocalStorage

__all__ = ["format_of", "make_flat"]

SIGNS = (
    ("parquet", (".parquet", ".parq")),
    ("stream", ("stream.json", "stream.bin")),
    ("mds", ("index.json", ".mds")),
    ("megatron", (".idx",)),
    ("raw", (".npy", ".bin")),
)
"""By which names of files a format is known, the first that fits."""


def format_of(paths: Sequence[str]) -> str | None:
    """Return the format of files by their names; None if these do not tell."""
    if any("://" in path for path in paths):
        return None  # Read where they lie, flat files are local.
    for kind, names in SIGNS:
        if all(_holds(path, names) for path in paths):
            return kind
    return None


def make_flat(
    kind: str,
    paths: Sequence[str],
    *,
    column: str | None,
    dtype: str | None = None,
    eos: int | None = None,
    cache_dir: str | None = None,
    beside: Mapping[str, Any] | None = None,
) -> FlatDataset:
    """Return the dataset of files of a format that is not Parquet.

    Args:
        kind: The format.
        paths: The files.
        column: What the tokens are called; None for what they are by default.
        dtype: Their type where the files do not say it.
        eos: Last token of documents where the files say nothing of them.
        cache_dir: Folder for the index.
        beside: Columns that come with the tokens, by the arguments that name them.

    Raises:
        InvalidArgumentError: If such files have no such columns.
    """
    named: dict[str, Any] = {"cache_dir": cache_dir}
    if column is not None:
        named["column"] = column
    known = ("aligned", "spans") if kind == "stream" else ()
    for option, names in (beside or {}).items():
        if option not in known:
            raise InvalidArgumentError(
                f"--{option} names {[*names]}, which {paths[0]} cannot have: it lies "
                "in Parquet, or for --aligned and --spans in streams"
            )
    if kind == "mds":
        return mds([*paths], dtype=dtype, **named)
    if kind == "stream":
        return stream([*paths], **named, **(beside or {}))
    if kind == "megatron":
        return megatron([*paths], **named)
    raw: Callable[..., FlatDataset] = tokens
    return raw([*paths], dtype=dtype, eos=eos, **named)


def _holds(path: str, names: tuple[str, ...]) -> bool:
    """Whether a path is a file of such a name, the begin of one, or has some below."""
    storage = LocalStorage()
    for meant in (path, *(path + name for name in names)):
        try:
            return all(
                file.endswith(names) for file in storage.list_files(meant, names)
            )
        except MissingFileError:
            continue
    return False
