"""Flat files of tokens as datasets: raw, Megatron's, MDS shards, and streams.

The module of a format has a function that names a dataset, a ``FlatFormat`` that finds
tokens and documents in a file, and an :class:`Output` that writes files.
:data:`FLAT_FORMATS` lists the formats. ``pages`` cuts files into pages, which the data
plane reads; :class:`FlatDataset` is the dataset of every format.
"""

from typing import Literal

from pagefeed.flat.flat_dataset import FlatDataset, RecordColumn, TokenFormat
from pagefeed.flat.flat_file import (
    FlatFile,
    FlatFormat,
    Records,
    check_fitting,
    corrupt,
    given_dtype,
    sampled_digest,
)
from pagefeed.flat.flat_recipe import FlatRecipe
from pagefeed.flat.loom_shards import GuideloomOutput, guideloom
from pagefeed.flat.mds_shards import MdsOutput, mds
from pagefeed.flat.megatron_files import MegatronDataset, MegatronOutput, megatron
from pagefeed.flat.output import Output, TokenRows
from pagefeed.flat.pages import FilePages, document_pages
from pagefeed.flat.raw import NpyOutput, RawOutput, tokens
from pagefeed.flat.span_ids import SpanIds
from pagefeed.flat.stream_shards import StreamDataset, stream
from pagefeed.flat.stream_writer import StreamOutput, StreamWriter

FlatName = Literal["stream", "guideloom", "mds", "megatron", "npy", "raw"]

FLAT_FORMATS: dict[str, TokenFormat] = {
    "stream": TokenFormat(stream, StreamOutput),
    "guideloom": TokenFormat(guideloom, GuideloomOutput),
    "mds": TokenFormat(mds, MdsOutput),
    "megatron": TokenFormat(megatron, MegatronOutput),
    "npy": TokenFormat(tokens, NpyOutput),
    "raw": TokenFormat(tokens, RawOutput),
}
"""The formats by name; a file has the first format whose signs match its name."""

__all__ = [
    "FLAT_FORMATS",
    "FilePages",
    "FlatDataset",
    "FlatFile",
    "FlatFormat",
    "FlatName",
    "FlatRecipe",
    "MegatronDataset",
    "Output",
    "RecordColumn",
    "Records",
    "SpanIds",
    "StreamDataset",
    "StreamWriter",
    "TokenFormat",
    "TokenRows",
    "check_fitting",
    "corrupt",
    "document_pages",
    "given_dtype",
    "guideloom",
    "mds",
    "megatron",
    "sampled_digest",
    "stream",
    "tokens",
]
