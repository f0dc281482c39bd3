"""Texts to ids, and to batches: pagefeed, the libraries, and a loop by hand.

All run in one process and in turns, and are timed by processor time, so that ratios
hold on a busy machine too::

    python benchmarks/bench_tokenizer.py [--texts FILES --tokenizer FILE] [--rounds 5]

1. ``encode_batch`` on one thread, beside ``tokenizers``' own and, if it is installed,
   the bare ``fastokens``; with the rules of cl100k (which are Llama 3's), o200k
   and Qwen over the same vocabulary.
2. Counting, and batches on the fly (page shuffle, warm cache), beside bare encoding:
   all on one processor, each on a thread that has seen nothing.
3. A loop as trainers write it: row groups by pyarrow, ``tiktoken`` on four threads,
   documents packed into rows, the longest first that still fits; and ``Packed``.

The first round of each is not counted: engines keep what they have seen. Needs pyarrow,
tokenizers and tiktoken; without ``--texts`` the standard library's sources are taken.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken
import tokenizers

import pagefeed as pf
from pagefeed.tokenizer.ranks import ENCODINGS
from standard_library import make_corpus

LENGTH = 2048
BATCH = 8
WAITING = 1000
"""Documents among which the loop by hand chooses."""
QWEN = ENCODINGS["cl100k_base"].pattern.replace(r"\p{N}{1,3}", r"\p{N}")
RULES = {
    "cl100k, Llama 3": ENCODINGS["cl100k_base"].pattern,
    "o200k": ENCODINGS["o200k_base"].pattern,
    "Qwen": QWEN,
}


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", nargs="+", type=Path, help="Parquet with `text`")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=25)
    parser.add_argument("--slow-megabytes", type=float, default=2, help="tokenizers'")
    return parser.parse_args()


def sample(files: list[Path], megabytes: float) -> list[str]:
    """Texts of all files by turns, of so many bytes."""
    texts: list[str] = []
    for path in files:
        texts += pq.read_table(path, columns=["text"])["text"].to_pylist()
    order = np.random.default_rng(0).permutation(len(texts))
    size, chosen = 0, []
    for number in order.tolist():
        chosen.append(texts[number])
        size += len(texts[number].encode())
        if size >= megabytes * 1e6:
            break
    return chosen


def in_turn(rounds: int, **work: Callable[[], int]) -> dict[str, float]:
    """Median rate of each in units per second of processor time."""
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds + 1):
        for name, run in work.items():
            begin = time.process_time()
            units = run()
            rates[name].append(units / (time.process_time() - begin))
    return {name: statistics.median(found[1:]) for name, found in rates.items()}


def show(what: str, rates: dict[str, float], unit: str, scale: float = 1e6) -> None:
    """Print rates."""
    shown = ", ".join(f"{name} {rate / scale:.2f}" for name, rate in rates.items())
    print(f"{what}: {shown} {unit}; load {os.getloadavg()[0]:.1f}", flush=True)


def with_rules(source: str, pattern: str, *, nfc: bool) -> tokenizers.Tokenizer:
    """Make the same vocabulary, split by other rules."""
    made = tokenizers.Tokenizer.from_str(source)
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, level])
    if nfc:
        made.normalizer = tokenizers.normalizers.NFC()
    return made


def bench_encoding(options: argparse.Namespace, source: str, texts: list[str]) -> None:
    """Ids of texts in memory, on one thread."""
    few, size = [], 0
    for text in texts:
        few.append(text)
        size += len(text.encode())
        if size > options.slow_megabytes * 1e6:
            break
    all_bytes = sum(len(text.encode()) for text in texts)
    libraries = {"as it is": tokenizers.Tokenizer.from_str(source)}
    for name, pattern in RULES.items():
        libraries[name] = with_rules(source, pattern, nfc=name == "Qwen")
    for name, library in libraries.items():
        ours = pf.Tokenizer(library)
        work: dict[str, Callable[[], int]] = {
            "pagefeed": partial(encoded, ours, texts, all_bytes),
            "tokenizers": partial(plain, library, few, size),
        }
        if bare := bare_fastokens(library):
            work["fastokens"] = partial(bare_encoded, bare, texts, all_bytes)
        rates = in_turn(options.rounds, **work)
        show(f"{name} ({ours.engine})", rates, "MB/s")
        against = [f"{rates['pagefeed'] / rates['tokenizers']:.1f}x tokenizers"]
        if bare:
            against.append(f"{rates['pagefeed'] / rates['fastokens']:.2f}x fastokens")
        print("   ", ", ".join(against), flush=True)


def encoded(tokenizer: pf.Tokenizer, texts: list[str], units: int) -> int:
    """Encode on this thread."""
    tokenizer.encode_batch(texts, num_threads=1)
    return units


def on_a_new_thread(tokenizer: pf.Tokenizer, texts: list[str], units: int) -> int:
    """Encode on a thread that has seen nothing yet."""
    thread = threading.Thread(target=encoded, args=(tokenizer, texts, units))
    thread.start()
    thread.join()
    return units


def plain(library: tokenizers.Tokenizer, texts: list[str], units: int) -> int:
    """Encode with the library's own."""
    library.encode_batch_fast(texts, add_special_tokens=False)
    return units


def bare_fastokens(library: tokenizers.Tokenizer) -> Any:
    """Return the other library, if it is installed."""
    try:
        native = importlib.import_module("fastokens._native")
    except ImportError:
        return None
    return native.Tokenizer.from_json_str(library.to_str())


def bare_encoded(bare: Any, texts: list[str], units: int) -> int:
    """Encode with that."""
    for text in texts:
        bare.encode(text)
    return units


def bench_feeding(options: argparse.Namespace, source: str, texts: list[str]) -> None:
    """Counting, batches on the fly and a loop by hand, over one file."""
    library = tokenizers.Tokenizer.from_str(source)
    tokenizer = pf.Tokenizer(library)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "texts.parquet"
        groups = {"row_group_size": 1024, "write_page_index": True}
        pq.write_table(pa.table({"text": texts}), path, **groups)
        plain_data = pf.parquet(path, column="text", cache_dir=Path(name) / "cache")
        num_tokens = plain_data.tokenize(tokenizer).index.num_values
        ranks = ranks_of(library)
        encoding = tiktoken.Encoding(
            "hand",
            pat_str=ENCODINGS["gpt2"].pattern,
            mergeable_ranks=ranks,
            special_tokens={},
        )

        def count() -> int:
            return pf.parquet(path, column="text").tokenize(tokenizer).index.num_values

        def feed(sequences: pf.Windows | pf.Packed) -> int:
            loader = pf.Loader(
                plain_data.tokenize(tokenizer),
                sequences=sequences,
                fields=("input_ids",),
                batch_size=BATCH,
                rank=0,
                world_size=1,
            )
            return sum(batch["input_ids"].size for batch in loader)

        def by_hand() -> int:
            return sum(batch.size for batch in hand_made(path, encoding))

        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})
        eos = tokenizer.eos
        rates = in_turn(
            options.rounds,
            encoding=lambda: on_a_new_thread(tokenizer, texts, num_tokens),
            counting=count,
            batches=lambda: feed(pf.Windows(LENGTH, eos=eos)),
            packed=lambda: feed(pf.Packed(LENGTH, eos=eos)),
            by_hand=by_hand,
        )
        os.sched_setaffinity(0, processors)
    show("feeding", rates, "M tokens/s of a CPU")
    print(
        f"    counting {rates['counting'] / rates['encoding']:.2f}x and batches "
        f"{rates['batches'] / rates['encoding']:.2f}x of bare encoding; packed "
        f"{rates['packed'] / rates['by_hand']:.1f}x of the loop by hand"
    )


def hand_made(path: Path, encoding: tiktoken.Encoding) -> Iterator[np.ndarray]:
    """Row groups, ids by four threads, rows packed from a thousand documents."""
    waiting: list[list[int]] = []
    rows: list[list[int]] = []
    for documents in encoded_by_hand(path, encoding):
        waiting += documents
        while len(waiting) > WAITING:
            rows.append(packed_row(waiting))
            if len(rows) == BATCH:
                yield np.array(rows, dtype=np.int64)
                rows = []


def encoded_by_hand(path: Path, encoding: tiktoken.Encoding) -> Iterator[Any]:
    """Ids of 128 documents at a time, each with its end."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            texts = file.read_row_group(group, columns=["text"])["text"].to_pylist()
            for begin in range(0, len(texts), 128):
                some = texts[begin : begin + 128]
                documents = encoding.encode_ordinary_batch(some, num_threads=4)
                for ids in documents:
                    ids.append(0)
                yield documents


def packed_row(waiting: list[list[int]]) -> list[int]:
    """Fill a row: the longest document that fits, at last a part of the shortest."""
    row: list[int] = []
    while len(row) < LENGTH:
        left = LENGTH - len(row)
        best, best_length = -1, 0
        for number, ids in enumerate(waiting):
            if best_length < len(ids) <= left:
                best, best_length = number, len(ids)
        if best < 0:
            best = min(range(len(waiting)), key=lambda number: len(waiting[number]))
        row += waiting.pop(best)[:left]
    return row


def ranks_of(library: tokenizers.Tokenizer) -> dict[bytes, int]:
    """The tokens of a byte-level vocabulary as tiktoken has them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    letters |= {chr(256 + number): byte for number, byte in enumerate(others)}
    vocab = sorted(
        library.get_vocab(with_added_tokens=False).items(), key=lambda x: x[1]
    )
    named = ((name, rank) for name, rank in vocab if set(name) <= letters.keys())
    ranks = {bytes(letters[x] for x in name): rank for name, rank in named}
    for byte in range(256):
        ranks.setdefault(bytes([byte]), len(vocab) + byte)
    return ranks


def main() -> None:
    """Measure."""
    options = arguments()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["FASTOKENS_BPE_THREADS"] = "1"
    files, source = options.texts, options.tokenizer
    if files is None:
        files = make_corpus(Path(tempfile.gettempdir()) / "pagefeed-bench-texts")
        source = files[0].parent / "tokenizer.json"
    texts = sample(files, options.megabytes)
    size = sum(len(text.encode()) for text in texts)
    print(json.dumps({"texts": len(texts), "megabytes": round(size / 1e6, 1)}))
    bench_encoding(options, source.read_text(), texts)
    bench_feeding(options, source.read_text(), texts)


if __name__ == "__main__":
    main()
