"""Measure what rewriting a dataset would save, on a sample in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import require
from pagefeed.core.dataset import Dataset
from pagefeed.core.sequences import Windows
from pagefeed.errors import PagefeedError
from pagefeed.reports.sampling import evenly
from pagefeed.view import SequenceView

__all__ = ["Rewriting", "rewritings"]

SAMPLED_TOKENS = 1 << 20
ROW_TOKENS = 2048
SETTINGS: dict[str, dict[str, Any]] = {
    "dictionary, snappy": {"compression": "snappy"},
    "dictionary, zstd": {"compression": "zstd"},
    "plain, zstd": {"compression": "zstd", "use_dictionary": False},
}


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """A way to store the tokens."""

    setting: str
    """Type, encoding and codec."""
    bytes_per_token: float
    """Stored bytes of a token, of the sample."""
    gain: float
    """Share of the bytes stored now that it would save; negative if it takes more."""


def rewritings(dataset: Dataset, bytes_per_token: float) -> list[Rewriting]:
    """Write a sample in memory in several ways, the smallest result first.

    Args:
        dataset: The dataset.
        bytes_per_token: Bytes that a token takes now.

    Returns:
        Nothing if the sample cannot be read.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
    """
    try:
        tokens = _sample(dataset)
    except PagefeedError:  # Damage is told where lengths are read.
        return []
    kind = np.dtype("uint16" if tokens.max(initial=0) < 1 << 16 else "int32")
    tried = []
    for name, options in SETTINGS.items():
        stored = _written_bytes(tokens.astype(kind), options) / max(1, len(tokens))
        tried.append(
            Rewriting(
                setting=f"list<{kind.name}>, {name}",
                bytes_per_token=stored,
                gain=1 - stored / bytes_per_token if bytes_per_token else 0.0,
            )
        )
    return sorted(tried, key=lambda rewriting: rewriting.bytes_per_token)


def _sample(dataset: Dataset) -> npt.NDArray[Any]:
    """Return tokens from all over the dataset, in runs of ``ROW_TOKENS``."""
    view = SequenceView(dataset, Windows(ROW_TOKENS), num_threads=1)
    numbers = evenly(len(view), SAMPLED_TOKENS // ROW_TOKENS).tolist()
    rows = [row["input_ids"] for row in view.__getitems__(numbers)]
    return np.concatenate(rows)[: dataset.spans.num_values]


def _written_bytes(tokens: npt.NDArray[Any], options: dict[str, Any]) -> int:
    pyarrow: Any = require("pyarrow", extra="pyarrow", purpose="writing a sample")
    parquet: Any = require(
        "pyarrow.parquet", extra="pyarrow", purpose="writing a sample"
    )
    starts = np.append(np.arange(0, len(tokens), ROW_TOKENS), len(tokens))
    rows = pyarrow.ListArray.from_arrays(starts.astype(np.int32), tokens)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(
        pyarrow.table({"input_ids": rows}), sink, data_page_size=1 << 16, **options
    )
    return int(sink.getvalue().size)
