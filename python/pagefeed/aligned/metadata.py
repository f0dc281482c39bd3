"""Metadata of the documents in a batch, as a table next to the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pagefeed import _core
from pagefeed.core.batches import Fields
from pagefeed.core.dataset import (
    Dataset,
    FolderColumn,
    PageIndex,
    refuse_unknown_rows,
)
from pagefeed.errors import InvalidArgumentError

PLACES = ("sequence", "start", "stop", "first_token")
"""Columns of the table that say where a part of a document is."""

MetadataSource = _core.Index | _core.RecordColumn | list[int | None] | list[str | None]
"""Pages, or a value for each file."""


@dataclass(frozen=True)
class Metadata:
    """The columns of a table of metadata.

    Args:
        names: Names of the columns.
        are_spans: Which of them hold spans of tokens.
        sources: For each dataset, the source of each column; None if it lacks the
            column.
    """

    names: tuple[str, ...]
    are_spans: tuple[bool, ...]
    sources: tuple[tuple[MetadataSource | None, ...], ...]

    @classmethod
    def of(cls, datasets: Sequence[Dataset], fields: Fields) -> Metadata | None:
        """Return the metadata of datasets; None if it is not among the fields.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            InvalidArgumentError: If a name is taken, or names spans in some datasets
                only.
            UnsupportedError: If datasets store a column with different types, or a
                column named as spans holds none.
        """
        if "metadata" not in fields.names:
            return None
        spans = {name for data in datasets for name in data.span_columns}
        plain = {name for data in datasets for name in data.metadata}
        named = dict.fromkeys(
            name for data in datasets for name in (*data.metadata, *data.span_columns)
        )
        _check_names(named, spans & plain)
        for data in datasets:
            if not data.span_columns:  # Spans lie next to each token.
                refuse_unknown_rows(data.spans, "metadata")
        sources = (tuple(_source(data, name) for name in named) for data in datasets)
        metadata = cls(
            tuple(named), tuple(name in spans for name in named), tuple(sources)
        )
        _core.check_metadata(metadata.asked)
        return metadata

    @property
    def asked(self) -> tuple[Sequence[str], Sequence[bool], Sequence[Any]]:
        """Names, kinds and sources, as the engine takes them."""
        return self.names, self.are_spans, self.sources


def _check_names(names: dict[str, None], both: set[str]) -> None:
    for name in names:
        if name in PLACES:
            raise InvalidArgumentError(
                f"a table of metadata already has a column {name!r}, which says where "
                "a document is: rename the column of the files"
            )
    if both:
        raise InvalidArgumentError(
            f"column {min(both)!r} is named by spans= of one dataset and by metadata= "
            "of another, and a batch has one for both: name it in the same argument "
            "of both"
        )


def _source(dataset: Dataset, name: str) -> MetadataSource | None:
    if name not in dataset.metadata and name not in dataset.span_columns:
        return None
    source: PageIndex | FolderColumn = dataset.source_of(name)
    if isinstance(source, FolderColumn):
        values: Any = source.handle_of_files
        return values
    return source.handle
