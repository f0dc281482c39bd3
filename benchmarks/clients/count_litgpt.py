"""Count the tokens that litgpt's text loader trains on, and those that pagefeed's does.

    python benchmarks/clients/count_litgpt.py texts/ tokenizer.json work/

litgpt's data module gets a number of its own for every token, so that lost and repeated
targets are counted one by one. pagefeed's gets the real tokens, and their counts are
compared with those of the data.
"""

import argparse
import itertools
import json
import runpy
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from litgpt.data import TextFiles
from tokenizers import Tokenizer

EXAMPLE = Path(__file__).parents[2] / "examples/clients/litgpt_data.py"
BOS = 0


class Numbered:
    """In place of litgpt's tokenizer: the numbers of the tokens of known texts."""

    def __init__(self, starts: dict[str, tuple[int, int]]) -> None:
        self.starts = starts

    def encode(self, text: str, **_: Any) -> torch.Tensor:
        """Return the numbers of the tokens of a text."""
        return torch.arange(*self.starts[text], dtype=torch.int)


def count_theirs(data: Any, length: int, rows: int) -> dict[str, Any]:
    """Run an epoch of litgpt's loader, and one that was resumed in the middle."""
    total = max(stop for _, stop in data.tokenizer.starts.values())
    data.connect(data.tokenizer, batch_size=rows, max_seq_length=length)
    started = time.perf_counter()
    data.prepare_data()
    prepared = time.perf_counter() - started
    times = np.zeros(total, np.int64)
    started, steps = time.perf_counter(), 0
    for batch in data.train_dataloader():
        np.add.at(times, batch[:, 1:].numpy().ravel(), 1)
        steps += 1
    seconds = time.perf_counter() - started
    loader, before = data.train_dataloader(), np.zeros(total, np.int64)
    for batch in itertools.islice(loader, steps // 2):
        np.add.at(before, batch[:, 1:].numpy().ravel(), 1)
    again = data.train_dataloader()
    again.load_state_dict(loader.state_dict())
    for batch in again:
        np.add.at(before, batch[:, 1:].numpy().ravel(), 1)
    return {
        "steps": steps,
        "seconds to prepare": round(prepared, 1),
        "M tokens/s": round(steps * rows * length / seconds / 1e6, 2),
        "tokens that are no target": int((times == 0).sum()),
        "tokens that are one twice": int((times > 1).sum()),
        "after a resume: lost": int(((before == 0) & (times > 0)).sum()),
        "after a resume: repeated": int((before > times).sum()),
    }


def count_ours(
    path: Path, tokenizer: Tokenizer, ids: list[Any], length: int, rows: int
) -> dict[str, Any]:
    """The same for the data module of the example; its epochs are joined."""
    make = runpy.run_path(str(EXAMPLE))["ParquetTexts"]
    expected = np.bincount(np.concatenate(ids))

    def loader() -> Any:
        data = make(str(path), str(path))
        wrapped = SimpleNamespace(processor=tokenizer, bos_id=BOS)
        data.connect(wrapped, batch_size=rows, max_seq_length=length)
        return data.train_dataloader()

    steps = (sum(map(len, ids)) - 1) // length // rows

    def counted(batches: Any) -> np.ndarray:
        sums = np.zeros_like(expected)
        for batch in batches:
            sums += np.bincount(batch[:, 1:].numpy().ravel(), minlength=sums.size)
        return sums

    started = time.perf_counter()
    whole = counted(itertools.islice(loader(), steps))
    seconds = time.perf_counter() - started
    first, second = loader(), loader()
    halves = counted(itertools.islice(first, steps // 2))
    second.load_state_dict(first.state_dict())
    halves += counted(itertools.islice(second, steps - steps // 2))
    return {
        "steps": steps,
        "M tokens/s, with counting": round(steps * rows * length / seconds / 1e6, 2),
        "tokens that are no target": int(np.maximum(expected - whole, 0).sum()),
        "tokens that are one twice": int(np.maximum(whole - expected, 0).sum()),
        "that a resume changes": int(np.abs(whole - halves).sum()),
    }


def main() -> None:
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, help="a Parquet file with a column text")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("work", type=Path, help="an empty folder")
    parser.add_argument("--documents", type=int, default=4096)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1, help="of litgpt, processes")
    given = parser.parse_args()
    column = pq.read_table(given.texts, columns=["text"])["text"].to_pylist()
    texts = sorted({text.strip() for text in column} - {""})[: given.documents]
    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    ids = [[BOS, *one.ids] for one in tokenizer.encode_batch(texts)]
    ends = np.cumsum([len(one) for one in ids]).tolist()
    starts = zip([0, *ends[:-1]], ends, strict=True)
    folder = given.work / "texts"
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number:06}.txt").write_text(text)
    (given.work / "val").mkdir()
    (given.work / "val" / "one.txt").write_text(texts[0])
    parquet = given.work / "texts.parquet"
    pq.write_table(pa.table({"text": texts}), parquet)
    data = TextFiles(train_data_path=folder, val_data_path=given.work / "val")
    data.num_workers = given.workers
    data.tokenizer = Numbered(dict(zip(texts, starts, strict=True)))
    result = {
        "documents": len(texts),
        "tokens": ends[-1],
        "litgpt": count_theirs(data, given.length, given.rows),
        "pagefeed": count_ours(parquet, tokenizer, ids, given.length, given.rows),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
