"""Datasets with other columns, predicates, and what they mean, row by row."""

import math
import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import pagefeed as pf

Row = dict[str, Any]

SCHEMA = pa.schema(
    {
        "input_ids": pa.list_(pa.int32()),
        "quality": pa.float64(),
        "number": pa.int32(),
        "lang": pa.string(),
        "good": pa.bool_(),
        "meta": pa.struct({"score": pa.float32(), "kind": pa.string()}),
    }
)
LANGS = ["en", "de", "it's", ""]
NUMBERS = [-2, 0, 1, 3]
QUALITIES = [-0.5, 0.0, 0.25, 0.5, 1.0]


def write_rows(folder: Path, files: list[list[Row]], **options: Any) -> list[Path]:
    """Write files of rows without tokens, whose tokens then count from 0."""
    token, paths = 0, []
    for number, rows in enumerate(files):
        for row in rows:
            row["input_ids"] = list(range(token, token + row["length"]))
            token += row["length"]
        columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.table(columns, schema=SCHEMA), path, **options)
        paths.append(path)
    return paths


def open_rows(paths: list[Path], **options: Any) -> pf.dataset.ParquetDataset:
    """The dataset of these files."""
    return pf.parquet(paths, column="input_ids", **options)


def rows_strategy() -> st.SearchStrategy[Row]:
    """A row with nulls and NaN."""
    quality = st.none() | st.sampled_from([*QUALITIES, math.nan])
    score = st.none() | st.sampled_from(QUALITIES)
    meta = st.fixed_dictionaries({"score": score, "kind": st.sampled_from(LANGS)})
    return st.fixed_dictionaries(
        {
            "length": st.sampled_from([0, 0, 1, 2, 5, 9]),
            "quality": quality,
            "number": st.none() | st.sampled_from(NUMBERS),
            "lang": st.none() | st.sampled_from(LANGS),
            "good": st.none() | st.booleans(),
            "meta": st.none() | meta,
        }
    )


OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

# Predicates: ("column", name), ("not", p), ("and", p, p), ("==", name, value), ...

COLUMNS: dict[str, list[Any]] = {
    "quality": QUALITIES,
    "number": [*NUMBERS, 0.5],
    "lang": LANGS,
    "meta.score": QUALITIES,
    "column('meta.kind')": LANGS,
}


def predicates() -> st.SearchStrategy[Any]:
    """Predicates over all columns, as trees."""
    values = st.sampled_from(list(COLUMNS)).flatmap(
        lambda name: st.tuples(
            st.sampled_from(list(OPERATORS)),
            st.just(name),
            st.sampled_from(COLUMNS[name]),
        )
    )
    members = st.sampled_from(list(COLUMNS)).flatmap(
        lambda name: st.tuples(
            st.sampled_from(["in", "not in"]),
            st.just(name),
            st.lists(st.sampled_from(COLUMNS[name]), max_size=3),
        )
    )
    nulls = st.tuples(
        st.sampled_from(["is null", "is not null"]), st.sampled_from(list(COLUMNS))
    )
    between = st.tuples(
        st.just("between"), st.sampled_from(QUALITIES), st.sampled_from(QUALITIES)
    )
    leaf = values | members | nulls | between | st.just(("column", "good"))
    return st.recursive(
        leaf,
        lambda inner: (
            st.tuples(st.just("not"), inner)
            | st.tuples(st.sampled_from(["and", "or"]), inner, inner)
        ),
        max_leaves=6,
    )


def text_of(tree: Any) -> str:
    """A predicate as it is written."""
    kind, *parts = tree
    if kind == "column":
        return str(parts[0])
    if kind == "not":
        return f"not ({text_of(parts[0])})"
    if kind in ("and", "or"):
        return f"({text_of(parts[0])}) {kind} ({text_of(parts[1])})"
    if kind == "between":
        return f"{parts[0]!r} <= quality < {parts[1]!r}"
    if kind.startswith("is "):
        return f"{parts[0]} {kind}"
    return f"{parts[0]} {kind} {parts[1]!r}"


def value_of(row: Row, name: str) -> Any:
    """The value of a column, also a nested one."""
    value: Any = row
    for part in name.removeprefix("column('").removesuffix("')").split("."):
        value = None if value is None else value[part]
    return value


def truth_of(tree: Any, row: Row) -> bool | None:
    """Whether a predicate holds; None where a null leaves it open."""
    kind, *parts = tree
    if kind == "column":
        value: bool | None = value_of(row, parts[0])
        return value
    if kind == "not":
        inner = truth_of(parts[0], row)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        both = [truth_of(part, row) for part in parts]
        decisive: bool = kind == "or"
        if decisive in both:
            return decisive
        return None if None in both else not decisive
    if kind == "between":
        quality = row["quality"]
        return None if quality is None else bool(parts[0] <= quality < parts[1])
    value = value_of(row, parts[0])
    if kind.startswith("is "):
        return bool((value is None) == (kind == "is null"))
    if kind in ("in", "not in"):
        if value is None and parts[1]:
            return None
        return bool((value in parts[1]) == (kind == "in"))
    return None if value is None else bool(OPERATORS[kind](value, parts[1]))
