"""Documents with known tokens, written as files of awkward pages."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagefeed as pf

EOS, BOS, PADDING = 1, 2, 0

Document = list[int] | None


def make_documents(seed: int, count: int, longest: int) -> list[Document]:
    """Documents of numbered tokens, from 10 on; some empty, null or very long."""
    rng = np.random.default_rng(seed)
    token = 10
    documents: list[Document] = []
    for _ in range(count):
        kind = rng.integers(10)
        length = int(rng.integers(0, 60)) if kind else int(rng.integers(0, longest))
        documents.append(None if kind == 1 else list(range(token, token + length)))
        token += 0 if kind == 1 else length
    return documents


def write_documents(
    folder: Path,
    documents: list[Document],
    *,
    num_files: int = 1,
    layouts: Sequence[dict[str, Any]] = (),
    **options: Any,
) -> list[Path]:
    """Spread documents over files, or over one of each layout."""
    layouts = layouts or [options] * num_files
    settings: dict[str, Any] = {
        "row_group_size": 37,
        "data_page_size": 300,
        "write_batch_size": 3,
    }
    paths = []
    parts = np.array_split(np.arange(len(documents)), len(layouts))
    for number, (part, layout) in enumerate(zip(parts, layouts, strict=True)):
        rows = pa.array([documents[row] for row in part], pa.list_(pa.int32()))
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.table({"input_ids": rows}), path, **settings | layout)
        paths.append(path)
    return paths


def lines_of(
    documents: list[Document], bos: int | None, eos: int | None
) -> list[list[int]]:
    """The documents with their separators."""
    before = [] if bos is None else [bos]
    behind = [] if eos is None else [eos]
    return [before + (document or []) + behind for document in documents]


def loader_of(folder: Path, sequences: Any, **options: Any) -> pf.Loader:
    """A loader of all that is in a folder, to its last sequence."""
    settings: dict[str, Any] = {
        "batch_size": 3,
        "memory": "16MiB",
        "num_threads": 2,
        "padding": PADDING,
        "rank": 0,
        "world_size": 1,
        "drop_last": False,
    }
    dataset = pf.parquet(folder, column="input_ids")
    return pf.Loader(dataset, sequences=sequences, **settings | options)


def sequences_of(loader: pf.Loader) -> list[list[int]]:
    """All rows of an iteration but those of padding."""
    rows = [row for batch in loader for row in batch["input_ids"].tolist()]
    return [row for row in rows if any(token != PADDING for token in row)]


def counted(rows: list[list[int]]) -> Counter[int]:
    """How often each token is there, padding left out."""
    return Counter(token for row in rows for token in row if token != PADDING)
