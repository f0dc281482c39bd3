"""Files that a table proves to be without matching rows: never one that has some."""

import datetime
import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.dataset.folders import column_of_values
from pagefeed.core.storage import Storage
from pagefeed.selection import Files, files_that_may_match, table_columns
from pagefeed.selection.table_columns import Bounds, TableColumns

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int32(), [-3, -1, 0, 1, 2, 7, 90]),
    "x": (pa.float64(), [-1.5, -0.0, 0.0, 2.0, 2.5, math.nan, 1e300]),
    "s": (pa.string(), ["", "a", "aa", "ab", "b", "é", "\U0001f600"]),
    "f": (pa.bool_(), [False, True]),
    "d": (pa.date32(), [datetime.date(2026, 1, n) for n in (1, 2, 9)]),
}
LITERALS = {
    "n": ["-2", "0", "2.5", "7"],
    "x": ["-1.5", "0", "2.25", "1e300"],
    "s": ["''", "'aa'", "'b'", "'é'"],
    "d": ["'2026-01-02'", "'2026-01-05'"],
    "lang": ["'de'", "'en'"],
}


class Listed:
    """Bounds as they are given."""

    def __init__(self, of_file: list[dict[str, Bounds | None]]) -> None:
        self._of_file = of_file

    def of(self, column: str) -> list[Bounds | None]:
        return [bounds.get(column) for bounds in self._of_file]

    def with_files(self, numbers: Any) -> Any:
        return Listed([self._of_file[number] for number in numbers])


rows = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(values) for name, (_, values) in KINDS.items()}
)


@st.composite
def atoms(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from([*KINDS, "lang"]))
    kind = draw(st.integers(0, 3))
    if kind == 0 or column == "f":
        return draw(st.sampled_from(["{} is null", "{} is not null"])).format(column)
    values = LITERALS[column]
    if kind == 1:
        chosen = draw(st.lists(st.sampled_from(values), max_size=3))
        word = draw(st.sampled_from(["in", "not in"]))
        return f"{column} {word} [{', '.join(chosen)}]"
    sign = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
    return f"{column} {sign} {draw(st.sampled_from(values))}"


predicates = st.recursive(
    atoms() | st.just("f"),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        )
        | inner.map("not ({})".format)
    ),
    max_leaves=5,
)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@st.composite
def bounds_of(draw: st.DrawFn, held: list[dict[str, Any]]) -> dict[str, Any]:
    """True ones: exact, wide, of one side, without a count of nulls, or none."""
    found: dict[str, Bounds | None] = {}
    for name, (_, known) in KINDS.items():
        values = [row[name] for row in held]
        real = [v for v in values if v is not None and not is_nan(v)]
        lower = upper = None
        if real:
            below = [v for v in known if v <= min(real)]
            above = [v for v in known if v >= max(real)]
            lower = draw(st.sampled_from([min(real), None, *below]))
            upper = draw(st.sampled_from([max(real), None, *above]))
        nulls = draw(st.sampled_from([True, None in values]))
        some = any(v is not None for v in values) or draw(st.booleans())
        said = Bounds(lower, upper, nulls, some)
        found[name] = draw(st.sampled_from([said, said, None]))
    return found


@given(
    st.lists(st.tuples(st.lists(rows, min_size=1, max_size=4)), min_size=2, max_size=4),
    st.lists(st.sampled_from(["de", "en", None]), min_size=4, max_size=4),
    predicates,
    st.data(),
)
def test_no_file_with_a_matching_row_is_left_out(files, langs, predicate, data):
    held = [rows for (rows,) in files]
    columns = {"lang": column_of_values(langs[: len(held)])}
    schema = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{n}.parquet") for n in range(len(held))]
        tables = [pa.Table.from_pylist(rows, schema=schema) for rows in held]
        # Of all files but the first, nothing is read.
        pq.write_table(tables[0], paths[0])
        said = [data.draw(bounds_of(rows)) for rows in held]
        types = dict(zip(schema.names, schema.types, strict=True))
        table = TableColumns("t:1", types, of_files=columns, bounds=Listed(said))
        found = Files(Storage(), paths, columns, table)
        kept = files_that_may_match(found, predicate)
        full = pa.schema([*schema, pa.field("lang", pa.string())])
        expression = expression_of(predicate, full)
        matches = [
            number
            for number, rows in enumerate(tables)
            if len(
                rows.append_column(
                    "lang", pa.array([langs[number]] * len(rows), pa.string())
                ).filter(expression)
            )
        ]
        assert {*matches} <= {*kept}, (predicate, said)
        # The same of columns that are not known by name.
        assert {*matches} <= {*files_that_may_match(found, expression)}


def expression_of(predicate: str, schema: pa.Schema) -> pc.Expression:
    from pagefeed.selection.predicate import Predicate

    return Predicate(predicate).bind(schema)


@pytest.mark.parametrize(
    ("time", "bound"),
    [
        ("1969-12-31T23:59:59.654001", "1969-12-31T23:59:59.655"),
        ("2026-01-03T00:26:40.345999", "2026-01-03T00:26:40.345"),
    ],
    ids=["toward zero", "down"],
)
def test_times_that_bounds_cut_to_milliseconds_stay(tmp_path, time, bound):
    schema = pa.schema([("at", pa.timestamp("us"))])
    path = str(tmp_path / "0.parquet")
    pq.write_table(schema.empty_table(), path)
    cut = datetime.datetime.fromisoformat(bound)
    said: list[dict[str, Bounds | None]] = [{}, {"at": Bounds(cut, cut)}]
    types = dict(zip(schema.names, schema.types, strict=True))
    table = TableColumns("t:1", types, bounds=Listed(said))
    files = Files(Storage(), [path, "1"], {}, table)
    assert files_that_may_match(files, f"at == '{time}'") == [0, 1]
    assert files_that_may_match(files, "at > '2026-01-03T00:26:40.347'") == [0]


def test_counts_that_are_unknown_prove_nothing():
    assert table_columns.bounds_of(1, 2, num_nulls=None, num_rows=5) == Bounds(1, 2)
    assert table_columns.bounds_of(None, None, num_nulls=5, num_rows=None) is None
    assert table_columns.bounds_of(1, 2, num_nulls=0, num_rows=5) == Bounds(
        1, 2, may_be_null=False
    )


def test_what_is_proved_is_left_out(tmp_path):
    """Bounds, nulls, partitions, each of which leaves one file of several."""
    schema = pa.schema([("n", pa.int32()), ("s", pa.string()), ("x", pa.float64())])
    path = str(tmp_path / "0.parquet")
    pq.write_table(schema.empty_table(), path)
    said: list[dict[str, Bounds | None]] = [
        {"n": Bounds(0, 9, may_be_null=False), "s": Bounds("a", "b")},
        {"n": Bounds(10, 19), "s": Bounds("b", None), "x": Bounds(2.0, 5.0)},
        {"n": Bounds(None, None, may_have_values=False), "s": None},
        {},
    ]
    columns = {"lang": column_of_values(["de", "en", "de", None])}
    schema = pq.read_schema(path)
    types = dict(zip(schema.names, schema.types, strict=True))
    table = TableColumns("t:1", types, of_files=columns, bounds=Listed(said))
    files = Files(Storage(), [path, "1", "2", "3"], columns, table)
    for predicate, expected in {
        "n > 9": [1, 3],
        "n < 5 and s == 'a'": [0, 3],
        "n < 5 and s == 'c'": [3],
        "n is null": [1, 2, 3],
        "n is not null": [0, 1, 3],
        "not (n > 5)": [0, 3],
        "lang == 'en'": [1],
        "lang == 'en' and n == 3": [],
        "s < 'b' or n == 12": [0, 1, 2, 3],
        "s < 'a' or n == 12": [1, 2, 3],
        "s >= 'b' and n < 9": [0, 3],
        "x < 2": [0, 2, 3],
        "x <= 2": [0, 1, 2, 3],
        "not (x >= 2)": [0, 1, 2, 3],  # NaN is not told by bounds.
    }.items():
        assert files_that_may_match(files, predicate) == expected, predicate
        ready = expression_of(predicate, pa.schema([*schema, ("lang", pa.string())]))
        if "x" not in predicate:
            assert files_that_may_match(files, ready) == expected, predicate
