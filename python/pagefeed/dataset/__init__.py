"""What rows there are: files, the index of their pages, and parts of them.

A dataset names files and a column; its page index says where every page lies; its
spans are the rows that sequences are cut from. :class:`Dataset`, :class:`PageIndex`
and :class:`Spans` are what other layers need of these, whatever the files are;
:mod:`pagefeed.dataset.select` divides rows by predicates, tiers, lengths and hashes;
:mod:`pagefeed.dataset.flat` reads and writes token files that are no Parquet.
"""

from pagefeed._names import name_as_imported
from pagefeed.dataset import flat
from pagefeed.dataset.aligned import (
    Aligned,
    AlignedColumn,
    AlignedColumnNames,
)
from pagefeed.dataset.dataset import (
    Dataset,
    check_dataset,
    wide_bytes,
)
from pagefeed.dataset.derived import derived_arrays, derived_key
from pagefeed.dataset.flat import *  # noqa: F403 - all that is in its __all__
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.growth import before_growth, growth_parts
from pagefeed.dataset.identity import identity_of_data, what_changed
from pagefeed.dataset.index_writing import (
    IndexDifferences,
    WrittenIndex,
    check_index,
    write_index,
)
from pagefeed.dataset.infill import Infill
from pagefeed.dataset.named_files import parquet
from pagefeed.dataset.page_index import BlockKind, Page, PageIndex
from pagefeed.dataset.parquet_dataset import ParquetDataset
from pagefeed.dataset.recorded import RecordedTokenizer, known_vocab_size
from pagefeed.dataset.row_lengths import length_counts, lengths_of_rows
from pagefeed.dataset.source import Source, SourceKind
from pagefeed.dataset.spans import (
    Erased,
    SpanParts,
    Spans,
    refuse_null_tokens,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.dataset.tables import delta, iceberg
from pagefeed.dataset.text import UncountedText

__all__ = [
    "Aligned",
    "AlignedColumn",
    "AlignedColumnNames",
    "BlockKind",
    "Dataset",
    "Erased",
    "FolderColumn",
    "IndexDifferences",
    "Infill",
    "Page",
    "PageIndex",
    "ParquetDataset",
    "RecordedTokenizer",
    "Source",
    "SourceKind",
    "SpanParts",
    "Spans",
    "UncountedText",
    "WrittenIndex",
    "before_growth",
    "check_dataset",
    "check_index",
    "delta",
    "derived_arrays",
    "derived_key",
    "growth_parts",
    "iceberg",
    "identity_of_data",
    "known_vocab_size",
    "length_counts",
    "lengths_of_rows",
    "parquet",
    "refuse_null_tokens",
    "refuse_texts",
    "refuse_unknown_rows",
    "what_changed",
    "wide_bytes",
    "write_index",
]
__all__ += flat.__all__

name_as_imported(__name__)
