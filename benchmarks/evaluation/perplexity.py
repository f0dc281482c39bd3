"""Perplexity after one epoch in each order: what a shuffle costs that is not exact."""

import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

from clustered import Corpus
from transformer import Size, perplexity, train

import pagefeed as pf

PASSES = (1, 2, 4, 8)
WINDOWS = (0.1, 0.01)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A way to shuffle, with a part of the data in the window."""

    name: str
    window_share: float | None
    shuffle: pf.Shuffle


def orders(num_sequences: int) -> list[Order]:
    """All orders that are compared: exact, pages and passes, groups, buffer, none."""
    made = [
        Order(name="row", window_share=None, shuffle=pf.Shuffle(block="row")),
        Order(name="none", window_share=None, shuffle=pf.Shuffle(block=None)),
    ]
    for share in WINDOWS:
        window = max(1, round(share * num_sequences))
        kinds: list[tuple[str, dict[str, Any]]] = [
            (f"page, passes {passes}", {"block": "page", "passes": passes})
            for passes in PASSES
        ]
        kinds += [
            ("row_group", {"block": "row_group"}),
            ("buffer", {"block": "buffer"}),
        ]
        made += [
            Order(
                name=name,
                window_share=share,
                shuffle=pf.Shuffle(window=window, **options),
            )
            for name, options in kinds
        ]
    return made


def _loader(
    data: pf.dataset.ParquetDataset,
    corpus: Corpus,
    size: Size,
    **more: Any,
) -> pf.Loader:
    fields = pf.Fields(names=("input_ids", "labels"), shifted=True)
    return pf.Loader(
        data,
        sequences=pf.Windows(size.length, eos=corpus.end),
        batch_size=size.batch_size,
        fields=fields,
        format="torch",
        rank=0,
        world_size=1,
        memory="256MiB",
        **more,
    )


def measure(
    corpus: Corpus, size: Size, seeds: int, processes: int, *, small: bool
) -> Iterator[dict[str, Any]]:
    """Yield the perplexities of each order, one by one as they are known."""
    probe = _loader(corpus.train, corpus, size)
    chosen = orders(probe.num_sequences)[: 3 if small else None]
    runs = product(chosen, range(seeds))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        known = pool.map(partial(_trained, corpus, size), *zip(*runs, strict=True))
        for order in chosen:
            found = [next(known) for _ in range(seeds)]
            yield _row(order, found)


def _trained(corpus: Corpus, size: Size, order: Order, seed: int) -> float:
    """Perplexity of a model that was trained in an order."""
    loader = _loader(corpus.train, corpus, size, shuffle=order.shuffle, seed=seed)
    model = train(loader, corpus.vocab_size, size, seed)
    judge = _loader(corpus.validation, corpus, size, shuffle=None, drop_last=False)
    return perplexity(model, judge)


def _row(order: Order, found: list[float]) -> dict[str, Any]:
    return {
        "order": order.name,
        "window_share": order.window_share,
        "perplexities": found,
        "median": statistics.median(found),
    }


def shares(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the share that each order keeps of what no shuffling loses, by medians.

    Where no shuffling loses nothing, as on a corpus that is mixed already, it is None.
    """
    by_name = {row["order"]: row["median"] for row in rows if not row["window_share"]}
    exact, none = by_name["row"], by_name["none"]
    lost = none - exact
    return [
        row | {"share_kept": (row["median"] - exact) / lost if lost > 0 else None}
        for row in rows
    ]


def described(corpus: Corpus, size: Size) -> dict[str, Any]:
    """What was measured on."""
    probe = _loader(corpus.train, corpus, size)
    return {
        "documents": len(corpus.train),
        "pages": len(corpus.train.index),
        "sequences": probe.num_sequences,
        "steps": len(probe),
        "vocabulary": corpus.vocab_size,
        "model": asdict(size),
    }
