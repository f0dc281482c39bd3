"""Flat files of tokens as datasets: raw, Megatron's, MDS shards, and streams.

Each module of a format says what lies in a file: the type of its tokens, where they
begin, and where documents end. ``pages`` cuts that into pages, runs of tokens as the
data plane reads them; :class:`FlatDataset` is the face of all.
"""

from pagefeed.dataset.flat.flat_dataset import FlatDataset
from pagefeed.dataset.flat.flat_file import fitting, token_dtype
from pagefeed.dataset.flat.mds_shards import mds
from pagefeed.dataset.flat.megatron_files import MegatronDataset, megatron
from pagefeed.dataset.flat.raw import tokens
from pagefeed.dataset.flat.record_column import RecordColumn
from pagefeed.dataset.flat.stream_document import StreamDocument
from pagefeed.dataset.flat.stream_shards import StreamDataset, stream
from pagefeed.dataset.flat.stream_writer import StreamWriter

__all__ = [
    "FlatDataset",
    "MegatronDataset",
    "RecordColumn",
    "StreamDataset",
    "StreamDocument",
    "StreamWriter",
    "fitting",
    "mds",
    "megatron",
    "stream",
    "token_dtype",
    "tokens",
]
