"""Feed the example data, stop in the middle, resume, and prove it exact."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np

from pagefeed.cli.demo.data import write_data
from pagefeed.core._base import Work, format_bytes
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.core.sequences import Windows
from pagefeed.parquet_files import parquet
from pagefeed.reports import trace
from pagefeed.tokenizer import Tokenizer


def run_demo(
    *, folder: Path, length: int, batch_size: int, memory: str, seed: int
) -> int:
    """Run the demonstration and return 0 if the resumed run continued exactly."""
    print("1. Example texts as Parquet, their tokens counted once")
    write_data(folder)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    texts = parquet(folder / "web", column="text", cache_dir=folder / "index")
    dataset = texts.tokenize(tokenizer)
    started = time.perf_counter()
    index = dataset.index
    print(
        f"  {len(index.files)} files, {index.num_rows:,} documents, "
        f"{index.num_values:,} tokens in {len(index):,} pages, "
        f"{time.perf_counter() - started:.1f} s with {tokenizer.engine}"
    )

    loader = Loader(
        dataset,
        sequences=Windows(length, eos=tokenizer.eos),
        batch_size=batch_size,
        seed=seed,
        memory=memory,
    )

    print(f"\n2. One epoch of shuffled batches [{batch_size}, {length}], from text")
    whole = _feed(copy.copy(loader))
    print("  the first sequence of the first batch comes from")
    print(*trace(loader, step=0, row=0, tokenizer=tokenizer))

    stop = len(whole) // 2
    print(f"\n3. The same run, stopped after step {stop:,} and resumed in a new loader")
    stopped, resumed = copy.copy(loader), copy.copy(loader)
    before = [_digest(batch) for batch in islice(stopped, stop)]
    state = json.dumps(stopped.state_dict())
    print(f"  state ({len(state)} bytes): {state[:76]}...")
    resumed.load_state_dict(json.loads(state))
    after = [_digest(batch) for batch in resumed]
    exact = before + after == whole
    print(f"  {len(before):,} + {len(after):,} batches, {len(whole):,} in one run")
    print("  the resumed run continued exactly" if exact else "  THE RUNS DIFFER")
    return 0 if exact else 1


def _feed(loader: Loader) -> list[str]:
    """Run one epoch with progress and return a digest of every batch."""
    started = time.perf_counter()
    digests = []
    with Work("batches", total=len(loader), unit="steps") as work:
        for batch in loader:
            digests.append(_digest(batch))
            work.advance()
    seconds = time.perf_counter() - started
    stats = loader.stats()
    rate = stats["tokens"] / seconds / 1e6
    print(f"  {len(digests):,} steps in {seconds:.2f} s: {rate:.0f} M tokens/s")
    print(
        f"  {stats['pages_loaded']:,} pages loaded, {stats['pages_reloaded']:,} again; "
        f"at most {format_bytes(stats['peak_bytes'])} held"
    )
    return digests


def _digest(batch: Batch) -> str:
    tokens = np.ascontiguousarray(batch["input_ids"])
    return hashlib.blake2b(tokens.data, digest_size=16).hexdigest()
