"""Tables whose columns changed between files in every way, against a plain model.

Both formats, by hand: columns found by ids, by a name mapping, or by what the log calls
them; renames, swaps, drops, additions with and without defaults, and wider types, also
inside structs and lists; partitions by values of every type, which files hold or lack.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.changed_tables import IcebergTable, write_delta
from models.table_model import KINDS, Column, Kind, TableModel
from pagefeed.dataset import ParquetDataset
from scaled import scaled

SEEDS = st.integers(0, 2**32)
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without those that look for smaller seeds: these make no smaller tables."""


def unwrapped(column: str, row: dict[str, Any]) -> Any:
    """What a row has of a dotted column: the struct around it may come along."""
    found = row[column]
    for name in column.split(".")[1:]:
        found = found[name] if isinstance(found, dict) else found
    return found


def predicates_of(
    column: str, kind: Kind, value: Callable[[dict[str, Any]], Any]
) -> list[tuple[str, Callable[[dict[str, Any]], bool]]]:
    """Predicates, and what they mean."""
    found: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        (f"{column} is null", lambda row: value(row) is None),
        (f"{column} is not null", lambda row: value(row) is not None),
    ]
    if kind.type == pa.bool_():
        found.append((column, lambda row: value(row) is True))
        found.append((f"not {column}", lambda row: value(row) is False))
    if kind.literal is None:
        return found
    signs: dict[str, Callable[[Any], bool]] = {
        ">=": lambda held: held >= kind.value,
        "<": lambda held: held < kind.value,
        "==": lambda held: held == kind.value,
        "!=": lambda held: held != kind.value,
    }

    def meaning(holds: Callable[[Any], bool]) -> Callable[[dict[str, Any]], bool]:
        return lambda row: value(row) is not None and holds(value(row))

    for sign, holds in signs.items():
        found.append((f"{column} {sign} {kind.literal}", meaning(holds)))
    return found


def check(model: TableModel, opened: Callable[..., ParquetDataset]) -> None:
    """Compare rows, metadata of batches, and predicates."""
    rows, chance = model.rows(), model.chance
    key, tokens = model.key.name, model.tokens.name
    whole = [each.name for each in model.columns if each.kind != "tokens"]
    leaves = [*model.leaves()]
    dotted = [name for name, *_ in leaves if "." in name]
    web = opened(column=tokens, metadata=[*whole, *dotted], missing="null")
    found = {row[key]: row for row in web}
    assert sorted(found) == [row[key] for row in rows]
    for row in rows:
        told = found[row[key]]
        assert {name: told[name] for name in (tokens, *whole)} == row
        for name, _, value in leaves:
            assert unwrapped(name, told) == value(row)
    fields: Any = ("input_ids", "metadata")
    loader = pf.Loader(
        opened(column=tokens, metadata=whole, missing="null"),
        sequences=pf.Windows(4, tail="pad"),
        batch_size=2,
        fields=fields,
        drop_last=False,
    )
    batches = [pa.table(batch["metadata"]).to_pylist() for batch in loader]
    told = {row[key]: {name: row[name] for name in whole} for b in batches for row in b}
    assert told == {row[key]: {n: row[n] for n in whole} for row in rows}
    tests = [test for leaf in leaves for test in predicates_of(*leaf)]
    one, other = chance.choice(tests), chance.choice(tests)
    both = [
        (f"{one[0]} and {other[0]}", lambda row: one[1](row) and other[1](row)),
        (f"{one[0]} or {other[0]}", lambda row: one[1](row) or other[1](row)),
    ]
    narrow = opened(column=tokens, metadata=[key], missing="null")
    for predicate, test in [*chance.sample(tests, min(len(tests), 8)), *both]:
        expected = [row[key] for row in rows if test(row)]
        assert sorted(row[key] for row in narrow.where(predicate)) == expected, (
            predicate
        )


def parts_of(model: TableModel) -> list[Column]:
    """Columns by which files are divided."""
    chance = model.chance
    flat = [c for c in model.columns if c.kind in KINDS and c is not model.key]
    return chance.sample(flat, min(len(flat), chance.choice([0, 0, 1, 2])))


def iceberg(seed: int, by: Any) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        model = TableModel(chance, has_defaults=chance.random() < 0.5)
        table = IcebergTable(Path(folder) / "web", model, by)
        spec = parts_of(model)
        for _ in range(chance.randint(2, 5)):
            table.append([each for each in spec if each in model.columns])
            for _ in range(chance.randint(0, 3)):
                model.change()
            spec = parts_of(model) if chance.random() < 0.4 else spec
        path = table.tell(expires=chance.random() < 0.5)
        check(model, lambda **wanted: pf.iceberg(path, **wanted))


def delta(seed: int, mode: str) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        model = TableModel(chance, has_defaults=False)
        parts = parts_of(model)
        kept = {each.id for each in parts}
        for _ in range(chance.randint(2, 5)):
            model.append(parts, holds_partition=chance.random() < 0.2)
            for _ in range(chance.randint(0, 3)):
                model.change(keeps=kept, only_adds=mode == "none")
        write_delta(Path(folder) / "web", model, mode, parts)
        check(model, lambda **wanted: pf.delta(Path(folder) / "web", **wanted))


@pytest.mark.parametrize("by", ["ids", "names"])
@given(SEEDS)
@settings(max_examples=scaled(8), phases=PHASES)
def test_iceberg(by, seed):
    iceberg(seed, by)


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@given(SEEDS)
@settings(max_examples=scaled(5), phases=PHASES)
def test_delta(mode, seed):
    delta(seed, mode)
