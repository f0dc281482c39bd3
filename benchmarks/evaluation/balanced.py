"""Perplexity with ranks balanced and without: what dealing by cost does to a model.

Ranks are simulated: one process takes the steps of all of them, from a state in which
their number is recorded.
"""

import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import torch
from clustered import Corpus, Cut
from transformer import SIZES, perplexity, train

import pagefeed as pf

__all__ = ["CUT", "SMALL_CUT", "Case", "described", "measure"]

CUT = Cut(
    documents=1000,
    characters=1200,
    vocabulary=512,
    page_documents=8,
    group_documents=128,
)
SMALL_CUT = replace(CUT, documents=200)
LEAST_STEPS = 48
"""An epoch of large steps is repeated until there were as many."""
SIZE = replace(SIZES["medium"], width=32, layers=1)


@dataclass(frozen=True)
class Case:
    """So many sequences of so many ranks at a step."""

    ranks: int
    batch_size: int


CASES = [Case(ranks, batch_size) for ranks in (8, 64) for batch_size in (1, 4, 8)]


def _loader(
    data: pf.dataset.ParquetDataset,
    corpus: Corpus,
    batch_size: int,
    world_size: int = 1,
    **more: Any,
) -> pf.Loader:
    return pf.Loader(
        data,
        sequences=pf.Packed(SIZE.length, eos=corpus.end),
        batch_size=batch_size,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
        format="torch",
        rank=0,
        world_size=world_size,
        memory="256MiB",
        **more,
    )


class _Epochs:
    """Some epochs of all ranks, as one run of so many steps."""

    def __init__(
        self, corpus: Corpus, case: Case, balance: str | None, seed: int
    ) -> None:
        more: dict[str, Any] = {"balance": balance, "seed": seed}
        ranks = _loader(corpus.train, corpus, case.batch_size, case.ranks, **more)
        size = case.batch_size * case.ranks
        self._loader = _loader(corpus.train, corpus, size, **more)
        self._loader.load_state_dict(ranks.state_dict())
        self._epochs = -(-LEAST_STEPS // len(ranks))
        self._steps = len(ranks)

    def __len__(self) -> int:
        return self._steps * self._epochs

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _ in range(self._epochs):
            yield from self._loader


def measure(
    corpus: Corpus, seeds: int, processes: int, *, small: bool
) -> Iterator[dict[str, Any]]:
    """Yield the perplexities of each case, one by one as they are known."""
    chosen = CASES[:1] if small else CASES
    runs = product(chosen, range(seeds), (None, "attention"))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        known = pool.map(partial(_trained, corpus), *zip(*runs, strict=True))
        for case in chosen:
            found = [(next(known), next(known)) for _ in range(seeds)]
            without, balanced = (list(each) for each in zip(*found, strict=True))
            yield {
                "ranks": case.ranks,
                "batch_size": case.batch_size,
                "steps": len(_Epochs(corpus, case, None, 0)),
                "without": without,
                "balanced": balanced,
                "ratio": statistics.median(b / a for a, b in found),
            }


def _trained(corpus: Corpus, case: Case, seed: int, balance: str | None) -> float:
    """Perplexity of a model that was trained by a case."""
    torch.set_num_threads(1)  # Models are trained side by side.
    epochs = _Epochs(corpus, case, balance, seed)
    warmup = min(SIZE.warmup, len(epochs) // 8)
    size = replace(SIZE, warmup=max(1, warmup))
    model = train(epochs, corpus.vocab_size, size, seed)
    judge = _loader(corpus.validation, corpus, 32, shuffle=None, drop_last=False)
    return perplexity(model, judge)


def described(corpus: Corpus) -> dict[str, Any]:
    """What was measured on."""
    probe = _loader(corpus.train, corpus, 1)
    return {
        "documents": len(corpus.train),
        "sequences": probe.num_sequences,
        "layers": SIZE.layers,
        "width": SIZE.width,
        "length": SIZE.length,
        "least_steps": LEAST_STEPS,
    }
