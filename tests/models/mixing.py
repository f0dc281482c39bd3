"""Mixtures of datasets that tokens tell apart, and loaders of them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pagefeed as pf
from made.numbered import LENGTH, SEED, first_tokens, write_numbered
from models.dealing import dealt

APART = 10**6
ROWS = {"code": 200, "math": 12, "web": 300}
WEIGHTS = {"code": 0.35, "math": 0.05, "web": 0.6}


def write_datasets(folder: Path) -> dict[str, pf.dataset.ParquetDataset]:
    """Write a dataset of each name, whose tokens begin far from those of others."""
    for number, (name, rows) in enumerate(ROWS.items()):
        (folder / name).mkdir()
        write_numbered(folder / name, num_rows=rows, first_token=number * APART)
    return {name: pf.parquet(folder / name, column="input_ids") for name in ROWS}


def mixture(datasets, weights=None, **options: Any) -> pf.Mixture:
    weights = WEIGHTS if weights is None else weights
    parts = {name: (datasets[name], weight) for name, weight in weights.items()}
    return pf.mix(parts, **options)


def make(mixed: pf.Mixture, **options: Any) -> pf.Loader:
    settings: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH, tail="drop"),
        "batch_size": 4,
        "seed": SEED,
        "memory": "8MiB",
        "num_threads": 2,
        "rank": 0,
        "world_size": 1,
    }
    return pf.Loader(mixed, **settings | options)


def feed(mixed: pf.Mixture, world_size: int, batch_size: int) -> list[pf.Loader]:
    return [
        make(mixed, rank=rank, world_size=world_size, batch_size=batch_size)
        for rank in range(world_size)
    ]


def take(loaders: list[pf.Loader], steps: int | None = None) -> list[int]:
    """First tokens in the order of positions, and check that states agree."""
    taken: list[int] = []
    iterators = [iter(loader) for loader in loaders]
    state, ranks = loaders[0].state_dict(), len(loaders)
    while steps is None or steps > 0:
        rows = [
            first_tokens(batch)
            for it in iterators
            for batch in [next(it, None)]
            if batch is not None
        ]
        if not rows:
            break
        assert len(rows) == len(loaders)
        given = [token for row in zip(*rows, strict=True) for token in row]
        first = state["position"]
        ways = ranks, state["num_lanes"], SEED, state["epoch"]
        places = dealt([*range(first, first + len(given))], *ways)
        taken += [token for _, token in sorted(zip(places, given, strict=True))]
        [told] = {json.dumps(loader.state_dict()) for loader in loaders}
        state = json.loads(told)
        steps = None if steps is None else steps - 1
    return taken


def shares(tokens: list[int]) -> dict[str, float]:
    counts = Counter(token // APART for token in tokens)
    return {name: counts[n] / len(tokens) for n, name in enumerate(ROWS)}


def staged(datasets, **options: Any) -> pf.Mixture:
    stages = [pf.Stage(start_tokens=6000, weights={"code": 1, "web": 1}, anneal=3000)]
    return mixture(datasets, stages=stages, **options)


def num_sequences(datasets) -> dict[str, int]:
    return {name: make(dataset).num_sequences for name, dataset in datasets.items()}
