"""What an adapter adds to the bare loop, at batches of 64 x 2048 tokens.

    python benchmarks/bench_trainers.py [--rounds 5] [--steps 100]

CPU time per batch, each adapter in turn with the bare loop over the same fields. What
an adapter adds is what the iterating thread spends outside the loader; it is told as a
part of what the bare loop takes in all threads, the loader's own included. Accelerate's
is there where it is installed, moving to the device included. Of torch's DataLoader its
own part is there, too: it gets a batch that is ready, while the loader goes on beside.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

import data
import pagefeed as pf
from pagefeed.integrations import dialects
from pagefeed.integrations.delivery import Delivery
from pagefeed.torch import as_dataset

LENGTH, BATCH_SIZE = 2048, 64
PACKED = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")
MASKED = ("input_ids", "labels", "position_ids", "loss_mask")
BOUNDED = ("input_ids", "loss_mask", "doc_lens", "max_doc_lens")
PLAIN = ("input_ids", "labels")

Wrap = Callable[[pf.Loader], Iterable[Any]]


def delivered(convert: Callable[[Any], Any] | None) -> Wrap:
    """Return what wraps a loader as the adapters do."""
    return lambda loader: Delivery(loader, "a trainer", convert=convert, endless=True)


class Timed(Iterator[Any]):
    """The batches of a loader, and the CPU seconds this thread spends on them."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    spent = 0.0  # Of the loader that is measured: there is one at a time.

    def __next__(self) -> Any:
        begin = time.thread_time()
        try:
            return next(self._batches)
        finally:
            Timed.spent += time.thread_time() - begin


def timed(loader: pf.Loader) -> pf.Loader:
    """Return the loader with its time known apart from that of what reads it."""
    session = loader.view()
    session.is_adapted, iterate = True, session.iterate
    session.iterate = lambda **share: Timed(iterate(**share))  # type: ignore[assignment, method-assign]
    return loader


class Ready(IterableDataset[Any]):
    """A batch that is there already, again and again, as the loader delivers others."""

    def __init__(self, loader: pf.Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Any:
        """Yield the first batch for ever."""
        batches = iter(self._loader)
        ready = next(batches)
        while True:
            next(batches)
            yield ready


def prepared(loader: pf.Loader) -> Iterable[Any]:
    """Return a loader beside an accelerator."""
    from accelerate import Accelerator

    from pagefeed.integrations.accelerate import prepare

    return prepare(Accelerator(cpu=True), loader)


def adapters() -> dict[str, tuple[Wrap, pf.Fields]]:
    """Return what is measured, by name, and the fields it needs."""
    rows = partial(dialects.shifted_pair, rows=True)
    flat = partial(dialects.shifted_pair, rows=False)
    plain, packed = pf.Fields(names=PLAIN), pf.Fields(names=PACKED)
    pair = pf.Fields(names=PACKED[:3], shifted=True)
    weighed = pf.Fields(names=MASKED, shifted=True, dtypes={"loss_mask": "float32"})
    found: dict[str, tuple[Wrap, pf.Fields]] = {
        "Lightning, DeepSpeed": (delivered(None), plain),
        "transformers, rows": (delivered(dialects.in_rows), packed),
        "transformers, one row": (delivered(dialects.flattened), packed),
        "torchtitan, rows": (delivered(rows), pair),
        "torchtitan, tokens": (delivered(flat), pair),
        "Megatron": (delivered(dialects.megatron), weighed),
        "OLMo-core": (delivered(dialects.olmo), pf.Fields(names=BOUNDED)),
        "DataLoader": (
            lambda loader: DataLoader(as_dataset(loader), batch_size=None),
            plain,
        ),
        "DataLoader, torch's part": (
            lambda loader: DataLoader(Ready(loader), batch_size=None),
            plain,
        ),
    }
    if importlib.util.find_spec("accelerate") is not None:
        found["Accelerate"] = prepared, plain
    return found


def main() -> None:
    """Measure in rounds, and print the medians of what each adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    made = data.make(num_tokens=1 << 24)
    paths = [str(path) for path in made.parquet]

    def cost(wrap: Wrap, fields: pf.Fields) -> tuple[float, float]:
        """CPU seconds per batch, of this thread outside the loader and of all."""
        loader = pf.Loader(
            pf.parquet(paths, column="input_ids"),
            sequences=pf.Packed(LENGTH),
            batch_size=BATCH_SIZE,
            seed=1,
            format="torch",
            fields=fields,
            epochs=None,
            rank=0,
            world_size=1,
        )
        batches = iter(wrap(timed(loader)))
        next(batches)
        steps = int(options.steps)
        Timed.spent = 0.0
        begin = time.thread_time(), time.process_time()
        for _ in range(steps):
            next(batches)
        end = time.thread_time(), time.process_time()
        outside = end[0] - begin[0] - Timed.spent
        return outside / steps, (end[1] - begin[1]) / steps

    print("us of CPU per batch: bare loop, what the adapter adds, its part")
    for name, (wrap, fields) in adapters().items():
        pairs = [
            (cost(lambda loader: loader, fields), cost(wrap, fields))
            for _ in range(options.rounds)
        ]
        bare = statistics.median(before[1] for before, _ in pairs)
        added = statistics.median(after[0] - before[0] for before, after in pairs)
        print(f"  {name:26} {bare * 1e6:8.1f} {added * 1e6:+8.1f} {added / bare:+7.1%}")


if __name__ == "__main__":
    main()
