"""Batches: plans for the engine, and what it delivers as arrays or tensors.

Tokens or rows, their fields and formats; the engine of a process, and the iteration
that keeps it busy ahead of its consumer.
"""

from pagefeed.batches.batch_iterator import BatchIterator, transformed
from pagefeed.batches.document_batches import DocumentFeed
from pagefeed.batches.engines import ProcessEngine, ReloadWatch
from pagefeed.batches.explanation import explain
from pagefeed.batches.fields import Fields
from pagefeed.batches.formats import (
    Batch,
    DType,
    check_padding,
    make_converter,
    parse_dtype,
)
from pagefeed.batches.iteration import Iteration
from pagefeed.batches.padding import PaddingWatch
from pagefeed.batches.token_batches import Feed, TokenFeed

__all__ = [
    "Batch",
    "BatchIterator",
    "DType",
    "DocumentFeed",
    "Feed",
    "Fields",
    "Iteration",
    "PaddingWatch",
    "ProcessEngine",
    "ReloadWatch",
    "TokenFeed",
    "check_padding",
    "explain",
    "make_converter",
    "parse_dtype",
    "transformed",
]
