"""Sequences of several datasets with one cut, numbered consecutively."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, distinct
from pagefeed.core.sequences.bundles import Bundles, bundle_keys, page_numbers
from pagefeed.core.sequences.sequence_index import (
    Segments,
    SequenceIndex,
)


class DocumentsOf(NamedTuple):
    """Documents of some sequences, in order; arrays of [documents]."""

    row: Int64Array
    """Row among all rows of the files of its dataset."""
    dataset: Int64Array
    """Number of the dataset."""
    which: Int64Array
    """Position of its sequence among the sequences asked for; rises."""
    is_left: npt.NDArray[np.bool_]
    """Whether the document was not erased."""


class JoinedIndex:
    """The sequences and pages of several datasets, numbered consecutively.

    Args:
        parts: The datasets, cut to one length.
    """

    def __init__(self, parts: Sequence[SequenceIndex]) -> None:
        self.parts = tuple(parts)
        """The datasets, cut."""
        self.first_sequence = np.cumsum([0, *(index.num_sequences for index in parts)])
        """Sequences before each dataset, and of all: int64 [datasets + 1]."""
        self.first_page = np.cumsum([0, *(len(index.spans.index) for index in parts)])
        """Pages before each dataset, and of all: int64 [datasets + 1]."""
        self.num_sequences = int(self.first_sequence[-1])
        """Sequences of all datasets together."""
        self.length, self.layout = parts[0].length, parts[0].layout
        """Tokens of a sequence, padding included; and how rows are written into it."""
        self.tokens_differ = parts[0].tokens_differ
        """Whether sequences differ in their number of tokens, padding included."""

    @property
    def num_padding_tokens(self) -> int:
        """Padding of all sequences together."""
        return sum(index.num_padding_tokens for index in self.parts)

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens that are in no sequence."""
        return sum(index.num_dropped_tokens for index in self.parts)

    def dataset_of(self, sequences: Int64Array) -> Int64Array:
        """Return the dataset of each sequence, -1 for padding: int64."""
        return np.searchsorted(self.first_sequence, sequences, side="right") - 1

    def documents_of(self, sequences: Int64Array) -> DocumentsOf:
        """Return the documents of sequences, where these do not cut them anywhere."""
        nothing = np.empty(0, dtype=np.int64)
        documents = [DocumentsOf(nothing, nothing, nothing, nothing == 0)]
        owner = self.dataset_of(sequences)
        for n in distinct(owner).tolist():
            index, which = self.parts[n], np.flatnonzero(owner == n)
            local = sequences[which] - self.first_sequence[n]
            rows, of = index.documents_of(local)
            is_left = np.ones(len(rows), dtype=bool)
            if index.erased is not None:
                is_left = ~index.erased.holds(rows)
            rows, dataset = index.spans.rows_of_index(rows), np.full_like(rows, n)
            documents.append(DocumentsOf(rows, dataset, which[of], is_left))
        joined: Any = [np.concatenate(c) for c in zip(*documents, strict=True)]
        order = np.argsort(joined[2], kind="stable")
        return DocumentsOf(*(column[order] for column in joined))

    def bundles(self, keys: Int64Array) -> Bundles:
        """Return the bundles of these keys, which rise."""
        if len(self.parts) == 1:
            return self.parts[0].bundles(keys)
        borders = np.searchsorted(keys, bundle_keys(self.first_page))
        bundles_of = []
        for dataset in np.flatnonzero(np.diff(borders)).tolist():
            first_page = self.first_page[dataset]
            mine = keys[borders[dataset] : borders[dataset + 1]]
            bundles = self.parts[dataset].bundles(mine - first_page)
            page = bundles.slice_page + first_page
            bundles_of.append(bundles._replace(key=mine, slice_page=page))
        if not bundles_of:
            return self.parts[0].bundles(keys)
        return Bundles.joined(bundles_of)

    def segments(self, sequences: Int64Array) -> Segments:
        """Return the token ranges of ``sequences``, in their order."""
        dataset = self.dataset_of(sequences)
        segments = []
        for n in np.flatnonzero(np.bincount(dataset)).tolist():
            which = np.flatnonzero(dataset == n)
            local = self.parts[n].segments(sequences[which] - self.first_sequence[n])
            page = local.page + self.first_page[n]
            segments.append(local._replace(sequence=which[local.sequence], page=page))
        if len(segments) < 2:
            return segments[0] if segments else self.parts[0].segments(sequences)
        columns: Any = [np.concatenate(c) for c in zip(*segments, strict=True)]
        joined = Segments(*columns)
        in_order = np.argsort(joined.sequence, kind="stable")
        columns = [column[in_order] for column in joined]
        return Segments(*columns)

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of each page or bundle, in the type of its column."""
        sizes = np.zeros(len(pages), dtype=np.int64)
        first_page = self.first_page
        dataset = np.searchsorted(first_page, page_numbers(pages), side="right") - 1
        for which in np.flatnonzero(np.bincount(dataset)).tolist():
            here = dataset == which
            local = pages[here] - first_page[which]
            sizes[here] = self.parts[which].loaded_bytes(local)
        return sizes


AnyIndex: TypeAlias = SequenceIndex | JoinedIndex
"""The sequences of one dataset, or of several."""
