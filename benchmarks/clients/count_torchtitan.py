"""Count the tokens that torchtitan's text loader learns, and those of pagefeed.

    python benchmarks/clients/count_torchtitan.py texts.parquet tokenizer/

Both run through the texts once, and once more with a resume in the middle. A token
counts as trained where it is a label.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import load_dataset
from tokenizers import Tokenizer
from torchtitan.hf_datasets import DatasetConfig, text_datasets

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "clients"))
from torchtitan_config import ParquetTexts


def counts(batches: Iterable[Any], size: int) -> np.ndarray:
    """Return how often each token is a label."""
    sums = np.zeros(size, np.int64)
    for _, labels in batches:
        ids = labels.numpy().ravel()
        sums += np.bincount(ids[ids >= 0], minlength=size)
    return sums


def compare(make: Any, expected: np.ndarray, steps: int) -> dict[str, Any]:
    """Count a pass, a pass with a resume, and the bytes of its state."""
    size, started = len(expected), time.perf_counter()
    whole = counts(take(make(), steps), size)
    seconds = time.perf_counter() - started
    first, second = make(), make()
    halves = counts(take(first, steps // 2), size)
    state = first.state_dict()
    second.load_state_dict(state)
    halves += counts(take(second, steps - steps // 2), size)
    return {
        "steps": steps,
        "M tokens/s": round(int(whole.sum()) / seconds / 1e6, 2),
        "tokens lost": int(np.maximum(expected - whole, 0).sum()),
        "tokens repeated": int(np.maximum(whole - expected, 0).sum()),
        "tokens that a resume changes": int(np.abs(halves - whole).sum()),
        "bytes of a state": len(repr(state)),
    }


def take(loader: Any, steps: int) -> Iterable[Any]:
    """Yield so many batches and no further one, as the trainer does."""
    batches = iter(loader)
    for _ in range(steps):
        yield next(batches)


def main() -> None:
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", help="a Parquet file with a column text")
    parser.add_argument("tokenizer", type=Path, help="a folder with tokenizer.json")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=8)
    given = parser.parse_args()
    reader = Tokenizer.from_file(str(given.tokenizer / "tokenizer.json"))
    eos = reader.token_to_id("<|eos|>") or 0

    def encode(text: str, **_: Any) -> list[int]:
        return [eos, *reader.encode(text).ids, eos]

    tokenizer = SimpleNamespace(encode=encode, tokenizer=reader, bos_id=eos, eos_id=eos)
    texts = pq.read_table(given.texts, columns=["text"])["text"].to_pylist()
    size = reader.get_vocab_size()
    ids = [one.ids for one in reader.encode_batch(texts)]
    expected = np.bincount(np.concatenate(ids), minlength=size)
    tokens = int(expected.sum())
    text_datasets.DATASETS["texts"] = DatasetConfig(
        path=given.texts,
        loader=lambda path: load_dataset("parquet", data_files=path, split="train"),
        sample_processor=lambda sample: sample["text"],
    )
    sizes = {
        "tokenizer": tokenizer,
        "seq_len": given.length,
        "local_batch_size": given.rows,
        "dp_rank": 0,
        "dp_world_size": 1,
    }

    def theirs() -> Any:
        config = text_datasets.HuggingFaceTextDataLoader.Config(dataset="texts")
        return config.build(**sizes)

    def ours() -> Any:
        return ParquetTexts.Config(texts=given.texts).build(**sizes)

    result: dict[str, Any] = {"documents": len(texts), "tokens": tokens}
    step = given.length * given.rows
    expected[eos] += len(texts)  # The end of each document.
    result["torchtitan"] = compare(theirs, expected, (tokens + len(texts)) // step)
    # Beginnings of documents take places, too. Epochs are joined: this ends in the
    # last whole step of the first.
    steps = ours().loader.num_sequences // given.rows
    result["pagefeed"] = compare(ours, expected, steps)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
