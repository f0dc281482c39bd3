"""Flat files of tokens as datasets: raw, Megatron's, MDS shards, and streams.

Each module of a format says what lies in a file: the type of its tokens, where they
begin, and where documents end; and it writes such files, as an :class:`Output`.
``pages`` cuts files into pages, runs of tokens as the data plane reads them;
:class:`FlatDataset` is the face of all. :data:`FLAT_FORMATS` is the one list of the
formats: their names, and what reads and writes each.
"""

from typing import Literal

from pagefeed.dataset.flat.flat_dataset import FlatDataset, TokenFormat
from pagefeed.dataset.flat.flat_file import given_dtype
from pagefeed.dataset.flat.mds_shards import MdsOutput, mds
from pagefeed.dataset.flat.megatron_files import (
    MegatronDataset,
    MegatronOutput,
    megatron,
)
from pagefeed.dataset.flat.output import Output, TokenRows
from pagefeed.dataset.flat.raw import NpyOutput, RawOutput, tokens
from pagefeed.dataset.flat.record_column import RecordColumn
from pagefeed.dataset.flat.stream_document import StreamDocument
from pagefeed.dataset.flat.stream_shards import StreamDataset, stream
from pagefeed.dataset.flat.stream_writer import StreamOutput, StreamWriter

FlatName = Literal["stream", "mds", "megatron", "npy", "raw"]

FLAT_FORMATS: dict[str, TokenFormat] = {
    "stream": TokenFormat(stream, StreamOutput),
    "mds": TokenFormat(mds, MdsOutput),
    "megatron": TokenFormat(megatron, MegatronOutput),
    "npy": TokenFormat(tokens, NpyOutput),
    "raw": TokenFormat(tokens, RawOutput),
}
"""The formats by their names; files are of the first whose signs they bear."""

__all__ = [
    "FLAT_FORMATS",
    "FlatDataset",
    "FlatName",
    "MegatronDataset",
    "Output",
    "RecordColumn",
    "StreamDataset",
    "StreamDocument",
    "StreamWriter",
    "TokenFormat",
    "TokenRows",
    "given_dtype",
    "mds",
    "megatron",
    "stream",
    "tokens",
]
