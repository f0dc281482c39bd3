"""Annotations that contradict the types of columns, and intervals."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed
from made.files import read_footer, with_footer
from made.thrift import Struct, boolean, i32, struct
from pagefeed import Documents, Loader, Packed

TWELVE = [bytes([n, *([0] * 11)]) for n in range(3)]
TOKENS = [[0], [1, 2], [3]]
MICROS = struct({1: boolean(True), 2: struct({2: struct({})})})
ODD: dict[str, tuple[pa.DataType, list[Any], Struct, list[Any]]] = {
    "interval": (pa.binary(12), TWELVE, {6: i32(21)}, TWELVE),
    "interval-unknown": (
        *(pa.binary(12), TWELVE),
        {6: i32(21), 10: struct({11: struct({})})},
        TWELVE,
    ),
    "decimal-without-scale": (
        *(pa.int32(), [1, 2, 3], {6: i32(5), 8: i32(4)}),
        [Decimal(1), Decimal(2), Decimal(3)],
    ),
    "time-in-bytes": (pa.binary(12), TWELVE, {10: struct({8: MICROS})}, TWELVE),
    "text-in-numbers": (pa.int32(), [1, 2, 3], {6: i32(0)}, [1, 2, 3]),
    "uuid-of-12": (pa.binary(12), TWELVE, {10: struct({14: struct({})})}, TWELVE),
    "date-in-int64": (
        *(pa.int64(), [1, 2, 3], {6: i32(6), 10: struct({6: struct({})})}),
        [1, 2, 3],
    ),
    "later-format": (pa.int32(), [1, 2, 3], {10: struct({99: struct({})})}, [1, 2, 3]),
}


def odd_file(path: Path, name: str) -> list[Any]:
    """Write tokens beside a column annotated so; return what it holds."""
    kind, values, annotations, expected = ODD[name]
    columns = {"odd": pa.array(values, kind), "tokens": TOKENS}
    pq.write_table(pa.table(columns), written := io.BytesIO())
    footer = read_footer(written.getvalue())
    for element in footer[2].value[1]:
        if element[4].value == b"odd":
            element.update(annotations)
    path.write_bytes(with_footer(written.getvalue(), footer))
    return expected


@pytest.mark.parametrize("name", sorted(ODD))
def test_a_column_is_read_whatever_it_is_annotated_with(tmp_path: Path, name: str):
    path = tmp_path / "odd.parquet"
    expected = odd_file(path, name)
    for column, rows in (("tokens", TOKENS), ("odd", expected)):
        index = pagefeed.PageIndex.build(path, column=column)
        assert pa.array(index.read_page(0)).to_pylist() == rows


@pytest.mark.parametrize("name", ["interval", "interval-unknown"])
def test_intervals_are_their_twelve_bytes_in_batches(tmp_path: Path, name: str):
    path = tmp_path / "odd.parquet"
    expected = odd_file(path, name)
    data = pagefeed.parquet(path, column="tokens", metadata=["odd"])
    documents = Loader(
        data, sequences=Documents(columns=["odd"]), batch_size=3, shuffle=None
    )
    assert list(next(iter(documents))["odd"]) == expected
    packed = Loader(
        data,
        sequences=Packed(4, eos=9),
        batch_size=1,
        shuffle=None,
        fields=("input_ids", "metadata"),
    )
    found = next(iter(packed))["metadata"]["odd"].to_pylist()
    assert set(found) <= set(expected)
    assert data[0]["odd"] == expected[0]
