"""Texts in files beside their tokens, and what loaders make of either."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers

import pagefeed as pf
from made.tokenizers_made import TEXTS, hard_texts, tokenizer_json

ROWS = 600


def make_tokenizer() -> pf.Tokenizer:
    return pf.Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json("llama3")))


def make_texts() -> list[str | None]:
    """Hard texts, now and then none."""
    made = [*hard_texts(ROWS - len(TEXTS)), *TEXTS]
    return [None if number % 50 == 7 else text for number, text in enumerate(made)]


def write_texts(path: Path, texts: list[str | None], tokenizer: pf.Tokenizer) -> None:
    """Write texts as two files of many pages, each row with its tokens."""
    ids = [tokenizer.encode(text or "").astype(np.int32) for text in texts]
    quality = np.arange(ROWS) % 10 / 10
    table = pa.table({"text": texts, "input_ids": ids, "quality": quality})
    for number, rows in enumerate((table[: ROWS // 3], table[ROWS // 3 :])):
        pq.write_table(
            rows,
            path / f"{number}.parquet",
            row_group_size=150,
            data_page_size=2000,
            use_dictionary=False,
            write_page_index=True,
            write_batch_size=16,
        )


def delivered(dataset, **settings: Any):
    loader = pf.Loader(
        dataset,
        batch_size=1,
        seed=3,
        rank=0,
        world_size=1,
        **{"sequences": pf.Windows(64, eos=0), **settings},
    )
    return np.stack([batch["input_ids"] for batch in loader])
