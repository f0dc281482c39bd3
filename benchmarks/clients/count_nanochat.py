"""Count the tokens that nanochat's loader trains on, and those that pagefeed's does.

    PYTHONPATH=nanochat NANOCHAT_BASE_DIR=base \
        python benchmarks/clients/count_nanochat.py --length 2048

nanochat's loader gets a number of its own for every token of the data, so that lost and
repeated tokens are counted one by one. pagefeed's gets the real tokens, and their
counts are compared with those of the data. Both have the same number of rows.
"""

import argparse
import itertools
import json
import runpy
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from nanochat.dataloader import (
    tokenizing_distributed_data_loader_with_state_bos_bestfit as make_theirs,
)
from nanochat.dataset import list_parquet_files
from nanochat.tokenizer import get_tokenizer

EXAMPLE = Path(__file__).parents[2] / "examples/clients/nanochat_dataloader.py"
make_ours = runpy.run_path(str(EXAMPLE))[make_theirs.__name__]


class Data:
    """The training texts, their tokens, and a number for each token."""

    def __init__(self) -> None:
        files = list_parquet_files()[:-1]
        self.texts = [
            text for file in files for text in pq.read_table(file)["text"].to_pylist()
        ]
        self.tokenizer = get_tokenizer()
        self.tokens = self.tokenizer.encode(self.texts, prepend="<|bos|>")
        lengths = np.array([len(tokens) for tokens in self.tokens])
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.total = int(self.starts[-1])
        numbers = dict(zip(self.texts, range(len(self.texts)), strict=True))
        self.number_of = numbers

    def numbered(self) -> "Numbered":
        """Return a tokenizer whose ids are the numbers of the tokens."""
        return Numbered(self)


class Numbered:
    """In place of nanochat's tokenizer."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.read: list[int] = []
        """The documents that were encoded, in order."""

    def get_bos_token_id(self) -> int:
        """Return the id that the loader asks for; BOS has a number like any token."""
        return 0

    def encode(self, texts: list[str], **_: Any) -> list[list[int]]:
        """Return the numbers of the tokens of these documents."""
        documents = [self.data.number_of[text] for text in texts]
        self.read += documents
        starts = self.data.starts
        return [list(range(starts[d], starts[d + 1])) for d in documents]


def rows_of(inputs: Any, targets: Any) -> np.ndarray:
    """Return the whole rows of a batch of nanochat: [B, T + 1]."""
    return np.concatenate([inputs.numpy(), targets.numpy()[:, -1:]], axis=1)


def count_theirs(data: Data, rows: int, length: int) -> dict[str, Any]:
    """Count what nanochat's loader delivers in one pass's worth of tokens."""
    tokenizer = data.numbered()
    batches = make_theirs(tokenizer, rows, length, "train", device="cpu")
    steps = data.total // (rows * length)
    times = np.zeros(data.total, np.int64)
    after_read: dict[str, Any] = {}
    for step in range(steps):
        if not after_read and len(tokenizer.read) > len(data.texts):
            after_read = {"read all at step": step, **shown(data, times)}
        inputs, targets, _ = next(batches)
        np.add.at(times, rows_of(inputs, targets).ravel(), 1)
    result = {"steps": steps, "when all were read": after_read}
    return result | {"after a pass of tokens": shown(data, times)}


def shown(data: Data, times: np.ndarray) -> dict[str, Any]:
    """Say which tokens and documents have come."""
    per_document = np.add.reduceat(np.minimum(times, 1), data.starts[:-1])
    return {
        "tokens trained once": round(float((times > 0).mean()), 4),
        "tokens repeated": round(float(np.maximum(times - 1, 0).sum() / times.size), 4),
        "documents never shown": int((per_document == 0).sum()),
        "documents cropped": int(
            ((per_document > 0) & (per_document < np.diff(data.starts))).sum()
        ),
    }


def resume_theirs(data: Data, rows: int, length: int, steps: int) -> int:
    """Count the documents that are read but not shown before a resume, nor after it."""
    first = data.numbered()
    batches = make_theirs(first, rows, length, "train", device="cpu")
    times = np.zeros(data.total, np.int64)
    state: Any = None
    for inputs, targets, last in itertools.islice(batches, steps):
        np.add.at(times, rows_of(inputs, targets).ravel(), 1)
        state = last
    second = data.numbered()
    again = make_theirs(
        second, rows, length, "train", device="cpu", resume_state_dict=state
    )
    next(again)
    per_document = np.add.reduceat(times, data.starts[:-1])
    return int((per_document[: second.read[0]] == 0).sum())


def count_ours(data: Data, rows: int, length: int) -> dict[str, Any]:
    """Compare the tokens of an epoch with those of the data, and those of a resume."""
    expected = np.bincount(np.concatenate(data.tokens))
    bos = data.tokenizer.get_bos_token_id()
    total = int(expected.sum())
    expected[bos] = 0  # Long documents get further ones.
    plain, num_rows, begun, _ = epoch_of(data, rows, length)
    cut = num_rows // rows // 2
    before, *_, saved = epoch_of(data, rows, length, stop=cut)
    after, *_ = epoch_of(data, rows, length, start=saved)
    for one in (plain, before, after):
        one[bos] = 0
    lost, again = np.maximum(expected - plain, 0), np.maximum(plain - expected, 0)
    return {
        "rows": num_rows,
        "places without a token of the data": num_rows * length - total,
        "tokens lost": int(lost.sum()),
        "tokens repeated": int(again.sum()),
        "rows that begin with bos": begun,
        "tokens that a resume changes": int(np.abs(before + after - plain).sum()),
    }


def epoch_of(
    data: Data, rows: int, length: int, *, start: Any = None, stop: int | None = None
) -> tuple[np.ndarray, int, int, Any]:
    """Return counts of tokens up to the end of the epoch, rows, those with bos, state.

    Epochs are joined: the last batch has the first rows of the next one at its end.
    """
    bos = data.tokenizer.get_bos_token_id()
    size = max(map(max, data.tokens)) + 1
    batches = make_ours(
        data.tokenizer, rows, length, "train", device="cpu", resume_state_dict=start
    )
    sums, num_rows, begun = np.zeros(size, np.int64), 0, 0
    last: Any = None
    for number, (inputs, targets, state) in enumerate(batches):
        ended = state["epoch"] == 2
        if last is not None:
            own = rows - state["pagefeed"]["position"] if ended else rows
            sums += counts(last[0][:own], last[1][:own], size)
            num_rows += own
            begun += int((last[0][:own, 0] == bos).sum())
        if ended or number == stop:
            break
        last = inputs, targets
    return sums, num_rows, begun, state


def counts(inputs: Any, targets: Any, size: int) -> np.ndarray:
    """Count the tokens of rows; padding has no label."""
    rows = inputs.numpy().copy()
    rows[:, 1:][targets.numpy()[:, :-1] == -1] = size
    return np.bincount(rows.ravel(), minlength=size + 1)[:size]


def rate(make: Any, data: Data, rows: int, length: int) -> dict[str, float]:
    """Return tokens a second of the loader alone, by the wall and by the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    batches = make(data.tokenizer, rows, length, "train", device="cpu")
    steps = data.total // (rows * length) // 2
    for _ in itertools.islice(batches, steps):
        pass
    tokens = steps * rows * length / 1e6
    return {
        "M tokens/s": round(tokens / (time.perf_counter() - wall), 2),
        "M tokens/s of a core": round(tokens / (time.process_time() - processor), 2),
    }


def main() -> None:
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=8)
    given = parser.parse_args()
    data, rows, length = Data(), given.rows, given.length
    result = {
        "documents": len(data.texts),
        "tokens": data.total,
        "longer than a row": int((np.diff(data.starts) > length).sum()),
        "rate of pagefeed, counting": rate(make_ours, data, rows, length),
        "rate of pagefeed": rate(make_ours, data, rows, length),
        "rate of nanochat": rate(make_theirs, data, rows, length),
        "pagefeed": count_ours(data, rows, length),
        "nanochat": count_theirs(data, rows, length),
        "documents that nanochat loses at a resume": [
            resume_theirs(data, rows, length, steps) for steps in (20, 50, 100)
        ],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
