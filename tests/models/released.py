"""What a release delivers, pinned: running trainings must go on with the same data.

`released.json` holds states, and digests of orders, batches, packings, splits and runs
of blocks. Whoever changes it on purpose changes the version of states or orders too:

    PYTHONPATH=tests python tests/models/released.py    # makes it anew
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

import made.shuffles
import pagefeed as pf
from made.files import ParquetBytes
from made.handmade import one_column, token_list, token_page
from pagefeed.core.sequences.packed import pack_lengths
from pagefeed.core.sequences.sequence_index import SequenceLayout

PINNED = Path(__file__).with_name("released.json")
GROUPS, PAGES, ROWS = 4, 6, 5
LENGTH = 8


def write_dataset(folder: Path, *, seed: int, first_token: int) -> None:
    """A file that no library's version changes: numbered tokens, some rows empty."""
    rng = np.random.default_rng(seed)
    token = first_token
    parts = []
    for _ in range(GROUPS):
        pages = []
        for _ in range(PAGES):
            rows = []
            for length in rng.integers(0, 30, ROWS).tolist():
                rows.append(list(range(token, token + length)))
                token += length
            pages.append(token_page(rows))
        parts.append(one_column(token_list(), pages, num_rows=PAGES * ROWS))
    file = parts[0]
    for part in parts[1:]:
        file.footer[4].value[1].extend(part.footer[4].value[1])
        file.chunks.extend(part.chunks)
    _count(file)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part-0.parquet").write_bytes(file.encode())


def _count(file: ParquetBytes) -> None:
    kind, _ = file.footer[3]
    file.footer[3] = type(file.footer[3])(kind, GROUPS * PAGES * ROWS)


def digest(values: Any) -> str:
    """16 digits of whole numbers, whatever their type."""
    data = np.ascontiguousarray(values, dtype=np.int64)
    shape = repr(data.shape).encode()
    return hashlib.blake2b(shape + data.tobytes(), digest_size=8).hexdigest()


def digest_of(batches: Iterator[dict[str, Any]]) -> str:
    """Of all arrays of all batches, by name."""
    parts = [
        f"{name} {digest(batch[name])}" for batch in batches for name in sorted(batch)
    ]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


SHUFFLES: dict[str, Any] = {
    "page": "page",
    "pages": made.shuffles.PAGES,
    "row groups": made.shuffles.ROW_GROUPS,
    "row": "row",
    "buffer": made.shuffles.BUFFER,
    "file order": None,
    "passes": replace(made.shuffles.PAGES, passes=3),
}
BALANCES = {
    "balanced": pf.Balance(attention=1, stretch=4),
    "balanced, exact": pf.Balance(tokens=2, attention=1, stretch=4, exact=True),
    "balanced, buckets": pf.Balance(attention=1, stretch=16, bucket=4),
}
SEQUENCES: dict[str, Any] = {
    "windows": pf.Windows(LENGTH),
    "windows, tail dropped, eos": pf.Windows(LENGTH, tail="drop", eos=1),
    "packed": pf.Packed(LENGTH, eos=1),
    "packed, never split": pf.Packed(LENGTH, bos=2, split="never"),
    "documents": pf.Documents(columns=["input_ids"], max_length=LENGTH),
}
BUDGETS: dict[str, Any] = {
    "a budget, padded": pf.Documents(columns=[], max_length=LENGTH),
    "a budget, joined": pf.Documents(columns=[], max_length=LENGTH, pad=None),
}
FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens")


class Released:
    """Makes what is pinned, from two datasets in a folder."""

    def __init__(self, folder: Path) -> None:
        write_dataset(folder / "web", seed=11, first_token=100)
        write_dataset(folder / "code", seed=12, first_token=10**6)
        self.web = pf.parquet(folder / "web", column="input_ids")
        self.code = pf.parquet(folder / "code", column="input_ids")

    def loader(self, data: Any = None, **options: Any) -> pf.Loader:
        settings: dict[str, Any] = {
            "sequences": SEQUENCES["windows"],
            "batch_size": 5,
            "seed": 3,
            "memory": "8MiB",
            "num_threads": 1,
            "rank": 0,
            "world_size": 1,
            "fields": ("input_ids",),
        }
        return pf.Loader(self.web if data is None else data, **settings | options)

    def mixture(self) -> Any:
        weighted = {"web": (self.web, 0.7), "code": (self.code, 0.3)}
        stage = pf.Stage(start_step=30, weights={"web": 1, "code": 1}, anneal=10)
        return pf.mix(weighted, stages=[stage], max_steps=60)

    def orders(self) -> dict[str, str]:
        """Two epochs: all sequences, and those of one of two ranks."""
        given: dict[str, dict[str, Any]] = {
            name: {"shuffle": shuffle} for name, shuffle in SHUFFLES.items()
        }
        for name, balance in BALANCES.items():
            given[name] = {"balance": balance, "world_size": 2}
        return {
            name: digest_of(iter(self.loader(epochs=2, **options)))
            for name, options in given.items()
        }

    def batches(self) -> dict[str, str]:
        """Every field, of every way to cut."""
        found = {}
        for name, sequences in SEQUENCES.items():
            fields = ("input_ids",) if name == "documents" else FIELDS
            loader = self.loader(sequences=sequences, fields=fields)
            found[name] = digest_of(iter(loader))
        for name, documents in BUDGETS.items():
            found[name] = digest_of(iter(self.with_budget(documents)))
        return found

    def with_budget(self, documents: pf.Documents) -> pf.Loader:
        return self.loader(
            sequences=documents, batch_size=None, batch_tokens=5 * LENGTH
        )

    def runs(self) -> dict[str, Any]:
        """The loaders whose states are pinned, and how far they go."""
        return {
            "one dataset": (self.loader, 7, ()),
            "packed, second epoch": (
                lambda: self.loader(sequences=SEQUENCES["packed"], epochs=2),
                50,
                (),
            ),
            "some steps skipped": (self.loader, 4, (9, 10, 12)),
            "balanced ranks": (
                lambda: self.loader(balance=BALANCES["balanced"], world_size=2),
                6,
                (),
            ),
            "a budget": (lambda: self.with_budget(BUDGETS["a budget, padded"]), 6, ()),
            "a mixture": (lambda: self.loader(self.mixture()), 11, (20,)),
        }

    def saved(self, name: str) -> dict[str, Any]:
        make, steps, skipped = self.runs()[name]
        loader = make()
        batches = iter(loader)
        for _ in islice(batches, steps):
            pass
        loader.skip(skipped)
        if name == "a mixture":
            loader.set_weights({"web": 1, "code": 2}, anneal=4)
        state = json.loads(json.dumps(loader.state_dict()))
        return {"state": state, "rest": self.rest(name, state)}

    def rest(self, name: str, state: dict[str, Any]) -> str:
        """What comes after a state."""
        make, _, _ = self.runs()[name]
        loader = make()
        loader.load_state_dict(state)
        return digest_of(iter(loader))

    def packings(self) -> dict[str, str]:
        lengths = np.random.default_rng(5).integers(0, 40, 300)
        found = {}
        for method in ("best_fit", "first_fit", "greedy"):
            for never_split in (False, True):
                layout = SequenceLayout(packing=method, never_split=never_split)
                rows = pack_lengths(lengths, 16, layout)
                parts = [rows.sequence, rows.row, rows.first_token, rows.num_tokens]
                found[f"{method}, {never_split=}"] = digest([*parts, rows.offset])
        return found

    def splits(self) -> dict[str, str]:
        """Which rows are in which part."""
        found = {}
        for seed in (0, 1):
            parts = self.web.split(train=0.8, validation=0.15, test=0.05, seed=seed)
            for name, part in parts.items():
                tokens = tokens_in_order(self.loader(part, shuffle=None, batch_size=1))
                found[f"{name}, {seed=}"] = digest(tokens)
        return found

    def blocks(self) -> dict[str, str]:
        """First sequence of each block."""
        found = {}
        kinds: tuple[Literal["page", "row_group"], ...] = ("page", "row_group")
        for sequences in (pf.Windows(LENGTH), pf.Packed(1, eos=1)):
            index = sequences.index(self.web.spans)
            for kind in kinds:
                blocks = index.blocks(kind)
                first = blocks.first_sequence(np.arange(len(blocks) + 1))
                found[f"{sequences!r}, {kind}"] = digest(first)
        return found

    def everything(self) -> dict[str, Any]:
        return {
            "orders": self.orders(),
            "batches": self.batches(),
            "states": {name: self.saved(name) for name in self.runs()},
            "packings": self.packings(),
            "splits": self.splits(),
            "blocks": self.blocks(),
        }


def tokens_in_order(loader: pf.Loader) -> list[int]:
    return [int(token) for batch in loader for token in batch["input_ids"][0]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = Released(Path(folder)).everything()
    PINNED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"wrote {PINNED}", file=sys.stderr)


if __name__ == "__main__":
    main()
