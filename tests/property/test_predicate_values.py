"""Numbers of any type, texts and arithmetic are compared as a plain model says."""

import datetime
import math
import operator
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DECIMALS = [(38, 0), (9, 2), (38, 38), (50, 3)]
EDGES = [*(2**n + d for n in (7, 8, 11, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1))]
EDGES += [0, 1, 3, 1_000_000, 10**6 + 1]
LITERALS: list[int | float] = [
    *EDGES,
    *(-edge for edge in EDGES),
    *map(float, EDGES),
    *(0.1, -0.1, 0.5, 2.5, 1e6, 16777216.5, 1e-30, 65504.0, 3e38, 1e300, math.inf),
]
Numbers = list[Any]


def kind_of(name: Any) -> Any:
    if isinstance(name, str):
        return pa.from_numpy_dtype(np.dtype(name))
    return (pa.decimal128 if name[0] <= 38 else pa.decimal256)(*name)


def held(value: float, name: Any) -> Any:
    """The number of a type that a file holds for a value; None if it has none."""
    if name in INTEGERS:
        bounds = np.iinfo(name)
        fits = math.isfinite(value) and bounds.min <= value <= bounds.max
        return int(value) if fits else None
    if name in FLOATS:
        with np.errstate(over="ignore"):
            return float(np.dtype(name).type(float(value)))
    precision, scale = name
    if not math.isfinite(value):
        return None
    steps = int(Fraction(repr(value)) * 10**scale)
    return Decimal(f"{steps}e-{scale}") if abs(steps) < 10**precision else None


@st.composite
def columns(draw: st.DrawFn) -> tuple[Any, Numbers]:
    name = draw(st.sampled_from([*INTEGERS, *FLOATS, *DECIMALS]))
    values = st.none() | st.sampled_from(LITERALS).map(lambda v: held(v, name))
    return name, draw(st.lists(values, min_size=1, max_size=20))


@st.composite
def compared(draw: st.DrawFn) -> tuple[Any, Numbers, int | float]:
    """A column, and a number that is near to one of it."""
    name, values = draw(columns())
    near = [value for value in values if value is not None and math.isfinite(value)]
    if not near or draw(st.integers(0, 3)) == 0:
        any_number = st.integers() | st.floats(allow_nan=False)
        return name, values, draw(st.sampled_from(LITERALS) | any_number)
    value = draw(st.sampled_from(near))
    other = float(value) + draw(st.sampled_from([0, 0, 0.5, -0.5, 0.25, 1]))
    whole = draw(st.booleans()) and value == int(value)
    return name, values, int(value) if whole else other


def selected(columns: dict[str, Any], predicate: Any, group: int = 3) -> list[int]:
    """Rows of a file for which it holds, with statistics of small row groups."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        count = len(next(iter(columns.values())))
        rows = pa.array([[n] for n in range(count)], pa.list_(pa.int32()))
        pq.write_table(
            pa.table({"input_ids": rows, **columns}), path, row_group_size=group
        )
        data = pf.parquet(path, column="input_ids").where(predicate)
        return [row["input_ids"][0] for row in data]


def is_true(sign: str, value: Any, literal: float, name: Any) -> bool:
    if value is None:
        return False
    if name in FLOATS:
        return bool(SIGNS[sign](value, held(literal, name)))
    if math.isinf(literal):
        return bool(SIGNS[sign](0, literal))
    whole = isinstance(literal, int)
    exact = Fraction(literal) if whole else Fraction(repr(literal))
    return bool(SIGNS[sign](Fraction(value), exact))


@settings(max_examples=scaled(60), deadline=None)
@given(
    values=st.lists(st.decimals(-(10**18), 10**18, places=10), min_size=2, max_size=9),
    sign=st.sampled_from([*SIGNS]),
)
def test_decimals_are_compared_in_all_their_digits(values: Numbers, sign: str):
    """A float holds 17 of them."""
    literal, array = values[0], {"n": pa.array(values, pa.decimal128(38, 10))}
    expected = [n for n, value in enumerate(values) if SIGNS[sign](value, literal)]
    assert selected(array, f"n {sign} {literal:f}") == expected
    equal = [n for n, value in enumerate(values) if value == literal]
    assert selected(array, f"n in [{literal:f}, 1e999]") == equal


@settings(max_examples=scaled(300), deadline=None)
@given(column=compared(), sign=st.sampled_from([*SIGNS]), is_left=st.booleans())
def test_numbers_are_compared_in_the_type_of_the_column(
    column: tuple[Any, Numbers, float], sign: str, is_left: bool
):
    name, values, literal = column
    text = repr(literal).replace("inf", "1e999")
    predicate = f"n {sign} {text}"
    if is_left:
        other = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
        predicate = f"{text} {other} n"
    array = {"n": pa.array(values, kind_of(name))}
    beyond = name in FLOATS and math.isinf(held(literal, name))
    if beyond and not math.isinf(literal):
        with pytest.raises(InvalidArgumentError, match="its numbers go to"):
            selected(array, predicate)
        return
    expected = [n for n, v in enumerate(values) if is_true(sign, v, literal, name)]
    assert selected(array, predicate) == expected


@settings(max_examples=scaled(100), deadline=None)
@given(column=compared())
def test_tiers_are_cut_as_predicates_are(column: tuple[Any, Numbers, float]):
    name, values, edge = column
    if name in FLOATS and math.isinf(held(edge, name)):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        array = pa.array(values, kind_of(name))
        rows = [[n] for n in range(len(values))]
        pq.write_table(pa.table({"input_ids": rows, "n": array}), path)
        data = pf.parquet(path, column="input_ids")
        _, above, *_ = data.tiers("n", edges=[edge]).values()
        found = [row["input_ids"][0] for row in above]
    expected = [n for n, v in enumerate(values) if is_true(">=", v, edge, name)]
    assert found == expected


@settings(max_examples=scaled(150), deadline=None)
@given(one=columns(), other=columns(), sign=st.sampled_from([*SIGNS]))
def test_columns_of_any_two_types_are_compared(
    one: tuple[Any, Numbers], other: tuple[Any, Numbers], sign: str
):
    count = min(len(one[1]), len(other[1]))
    both = {
        key: pa.array(values[:count], kind_of(name))
        for key, (name, values) in (("a", one), ("b", other))
    }
    exact = one[0] == other[0] or {one[0], other[0]} <= {*INTEGERS}
    take: Any = (lambda v: v) if exact else float
    expected = [
        n
        for n, (a, b) in enumerate(zip(one[1], other[1], strict=False))
        if None not in (a, b) and SIGNS[sign](take(a), take(b))
    ]
    assert selected(both, f"a {sign} b") == expected


@settings(max_examples=scaled(150), deadline=None)
@given(
    one=columns(),
    other=columns(),
    op=st.sampled_from("+-*/"),
    sign=st.sampled_from([*SIGNS]),
    literal=st.sampled_from([0, 1, 2.5, -3, 1e6]),
)
def test_arithmetic_is_that_of_float64(
    one: tuple[Any, Numbers],
    other: tuple[Any, Numbers],
    op: str,
    sign: str,
    literal: float,
):
    count = min(len(one[1]), len(other[1]))
    both = {
        key: pa.array(values[:count], kind_of(name))
        for key, (name, values) in (("a", one), ("b", other))
    }
    calculate = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
    expected = []
    with np.errstate(all="ignore"):
        for n, (a, b) in enumerate(zip(one[1], other[1], strict=False)):
            if None in (a, b):
                continue
            found = calculate(np.float64(a), np.float64(b))
            if SIGNS[sign](found + 2 * 3, float(literal)):
                expected.append(n)
    assert selected(both, f"a {op} b + 2 * 3 {sign} {literal}") == expected


TEXTS = st.text(alphabet="aé%_\\n'\\\\.", max_size=5)


@settings(max_examples=scaled(100), deadline=None)
@given(
    texts=st.lists(st.none() | TEXTS, min_size=1, max_size=12),
    part=TEXTS,
    length=st.integers(0, 5),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
    is_dictionary=st.booleans(),
)
def test_texts_are_looked_into(
    texts: list[str | None], part: str, length: int, kind: Any, is_dictionary: bool
):
    array = pa.array(texts, kind)
    column = {"t": array.dictionary_encode() if is_dictionary else array}
    wanted = {
        f"startswith(t, {part!r})": lambda text: text.startswith(part),
        f"not contains(t, {part!r})": lambda text: part not in text,
        f"length(t) >= {length} * 1.5": lambda text: len(text) >= length * 1.5,
        f"length(t) in [1, {length}]": lambda text: len(text) in (1, length),
        f"t == {part!r}": lambda text: text == part,
    }
    for predicate, holds in wanted.items():
        expected = [n for n, t in enumerate(texts) if t is not None and holds(t)]
        assert selected(column, predicate) == expected


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_are_told_how_to_be_written(zone: str | None):
    times = pa.array([0, 86_400_000_000 * 20_000], pa.timestamp("us", zone))
    right, wrong = ("2000-01-01T00:00:00Z", "2000-01-01")
    if zone is None:
        right, wrong = wrong, right
    assert selected({"t": times}, f"t >= '{right}'") == [1]
    hint = f"the zone {zone}: write one, as in '{right}'" if zone else "leave it out"
    with pytest.raises(InvalidArgumentError, match=hint):
        selected({"t": times}, f"t >= '{wrong}'")


def test_functions_are_of_texts_and_arithmetic_of_numbers():
    columns = {"t": pa.array(["a"]), "n": pa.array([1]), "b": pa.array([True])}
    for wrong in ("length(n) > 1", "startswith(n, 'a')", "t + 1 > 2", "-b < 1"):
        with pytest.raises(InvalidArgumentError, match=r"no texts|not a number"):
            selected(columns, wrong)


def test_an_expression_that_fails_is_not_blamed_on_the_file():
    columns = {"n": pa.array([2**53 + 1]), "f": pa.array([0.5])}
    with pytest.raises(InvalidArgumentError, match=r"cannot be evaluated.*cast"):
        selected(columns, pc.field("n") > pc.field("f"))


def values_of(kind: Any) -> list[Any]:
    """Two values of a type, the lesser first."""
    day, types = datetime.datetime(2024, 3, 1, 2, 3, 4), pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return values_of(kind.storage_type)
    if types.is_dictionary(kind):
        return values_of(kind.value_type)
    if types.is_date(kind):
        return [day.date(), day.date().replace(year=2025)]
    if types.is_time(kind):
        return [day.time(), day.time().replace(hour=5)]
    if types.is_timestamp(kind):
        zone = day.replace(tzinfo=kind.tz and datetime.UTC)
        return [zone, zone.replace(year=2025)]
    if types.is_boolean(kind):
        return [False, True]
    if types.is_decimal(kind):
        return [Decimal(-1), Decimal(2)]
    if "binary" in str(kind):
        width = kind.byte_width if types.is_fixed_size_binary(kind) else 2
        return [b"a" * width, b"b" * width]
    return ["a", "é"] if "string" in str(kind) else [1, 2]


def array_of(values: list[Any], kind: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array_of(values, kind.storage_type))
    return pa.array(values, kind)


KINDS = [
    *(pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
    *map(kind_of, [*INTEGERS, *DECIMALS[:2], *DECIMALS[3:]]),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)),
    *(pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.binary())),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms")),
    *(pa.time64("us"), pa.time64("ns"), pa.null(), pa.timestamp("us", "UTC")),
    *map(pa.timestamp, ["s", "ms", "us", "ns"]),
    *(pa.uuid(), pa.json_(), pa.bool8()),
]


def literal_of(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return repr(value.isoformat())
    return str(value) if isinstance(value, Decimal) else repr(value)


def test_values_of_every_type_are_compared(tmp_path: Path):
    """In a column and in a struct, with a row group, and so bounds, for each row."""
    path = tmp_path / "a.parquet"
    for kind in KINDS:
        low, high = values_of(kind)
        held = [None, None, None] if pa.types.is_null(kind) else [low, None, high]
        arrays = [array_of([value], kind) for value in held]
        tables = [
            pa.table(
                {
                    "input_ids": [[row]],
                    "c": a,
                    "s": pa.StructArray.from_arrays([a], ["f"]),
                }
            )
            for row, a in enumerate(arrays)
        ]
        with pq.ParquetWriter(path, tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        data = pf.parquet(path, column="input_ids")
        nulls = [row for row, value in enumerate(held) if value is None]
        equal, less = ([2], [0]) if len(nulls) == 1 else ([], [])
        for predicate, expected in {
            f"c == {literal_of(high)}": equal,
            f"c != {literal_of(high)}": less,
            f"s.f < {literal_of(high)} or s.f is null": sorted(less + nulls),
        }.items():
            found = data.where(predicate)
            rows = [row["input_ids"][0] for row in found] if len(found) else []
            assert rows == expected, (kind, predicate)
