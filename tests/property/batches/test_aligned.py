"""Columns with a number for every token, against a plain model of what they hold.

Tokens are numbers that occur once, so that each tells what must stand beside it,
wherever windows, packing, shuffles, mixtures and resumes put it.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.cuts import EOS, all_cuts, make_loaders, resumed_on_two
from made.shuffles import SHUFFLES
from scaled import scaled

PADDING = 0
FIRST_TOKEN = 10

TYPES = {
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


class Rows(NamedTuple):
    """Rows of tokens, None where they are null."""

    rows: list[list[int] | None]

    @property
    def tokens(self) -> list[int]:
        return [token for row in self.rows for token in row or ()]


class Layout(NamedTuple):
    """How the files are written, column by column otherwise."""

    row_group_rows: int
    page_bytes: int
    batch_rows: int
    dictionaries: list[str]
    version: str
    labels: str
    weights: str


def value(token: int, dtype: str) -> Any:
    """What stands beside a token, of any sign that the type has."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return kind.type((token * 37 % 64 - 32) / 4)
    bounds = np.iinfo(kind)
    spread = min(int(bounds.max) - int(bounds.min), 1 << 40)
    if token % 3 == 0:
        return kind.type(bounds.min)
    return kind.type(int(bounds.max) - token * 7919 % spread)


def lists(rows: Rows, dtype: str) -> pa.Array:
    kind = TYPES[dtype]
    values = [
        None if row is None else np.array([value(t, dtype) for t in row], dtype)
        for row in rows.rows
    ]
    return pa.array(values, pa.list_(kind))


def write(path: Path, rows: Rows, layout: Layout) -> None:
    table = pa.table(
        {
            "weights": lists(rows, layout.weights),
            "input_ids": pa.array(rows.rows, pa.list_(pa.int32())),
            "labels": lists(rows, layout.labels),
        }
    )
    leaves = [f"{name}.list.element" for name in layout.dictionaries]
    pq.write_table(
        table,
        path,
        row_group_size=layout.row_group_rows,
        data_page_size=layout.page_bytes,
        write_batch_size=layout.batch_rows,
        use_dictionary=leaves or False,
        data_page_version=layout.version,
        write_page_index=layout.batch_rows % 2 == 0,
    )


@st.composite
def some_rows(draw: st.DrawFn, first: int) -> Rows:
    lengths = draw(
        st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=60).filter(any)
    )
    tokens = itertools.count(first)
    rows = [
        None if length is None else list(itertools.islice(tokens, length))
        for length in lengths
    ]
    return Rows(rows)


@st.composite
def some_files(draw: st.DrawFn) -> list[Rows]:
    numbers = range(draw(st.integers(1, 3)))
    return [draw(some_rows(FIRST_TOKEN + 10_000 * number)) for number in numbers]


layouts = st.builds(
    Layout,
    row_group_rows=st.integers(1, 40),
    page_bytes=st.sampled_from([1, 100, 1000]),
    batch_rows=st.integers(1, 9),
    dictionaries=st.lists(
        st.sampled_from(["input_ids", "labels", "weights"]), unique=True
    ),
    version=st.sampled_from(["1.0", "2.0"]),
    labels=st.sampled_from(sorted(TYPES)),
    weights=st.sampled_from(sorted(TYPES)),
)

cuts = all_cuts()


def dataset(
    folder: Path, files: list[Rows], layout: Layout
) -> pf.dataset.ParquetDataset:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for number, rows in enumerate(files):
        write(folder / f"{number}.parquet", rows, layout)
    return pf.parquet(folder, column="input_ids", aligned={"labels": 3, "weights": 5})


def check(batch: dict[str, Any], layout: Layout) -> None:
    """Every token has its numbers, all else padding; what none predicts has no loss."""
    tokens = batch["input_ids"]
    begins = (batch["position_ids"] == 0) & (tokens != PADDING)
    for name, dtype, padding, unlearned in [
        ("labels", layout.labels, 3, 3),
        ("weights", layout.weights, 5, 0),
    ]:
        found = batch[name]
        assert found.dtype == dtype
        assert found.shape == tokens.shape
        expected = [
            value(token, dtype)
            if token >= FIRST_TOKEN
            else np.dtype(dtype).type(padding)
            for token in tokens.reshape(-1).tolist()
        ]
        numbers = np.where(begins.ravel(), unlearned, np.array(expected, dtype))
        np.testing.assert_array_equal(found.reshape(-1), numbers)


def delivered(batches: Iterable[dict[str, Any]], layout: Layout) -> list[int]:
    """The tokens of batches, each of which is checked."""
    tokens: list[int] = []
    for batch in batches:
        check(batch, layout)
        ids = batch["input_ids"].reshape(-1).tolist()
        tokens += [token for token in ids if token >= FIRST_TOKEN]
    return tokens


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=some_files(),
    layout=layouts,
    cut=cuts,
    shuffle=st.sampled_from(SHUFFLES),
    memory=st.sampled_from(["1MiB", "64MiB"]),
)
def test_every_token_keeps_its_numbers(
    tmp_path: Path,
    files: list[Rows],
    layout: Layout,
    cut: Any,
    shuffle: Any,
    memory: str,
):
    data = dataset(tmp_path / "data", files, layout)
    loader = pf.Loader(
        data,
        sequences=cut,
        batch_size=3,
        seed=1,
        shuffle=shuffle,
        memory=memory,
        padding=PADDING,
        num_threads=2,
        drop_last=False,
        fields=("input_ids", "labels", "loss_mask", "position_ids"),
    )
    found = delivered(loader, layout)
    if isinstance(cut, pf.Documents):
        rows = [row or [] for rows in files for row in rows.rows]
        most = cut.max_length or 0
        assert sorted(found) == sorted(t for row in rows for t in row[:most])
    else:
        assert set(found) == {token for rows in files for token in rows.tokens}


@settings(
    max_examples=scaled(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(files=some_files(), layout=layouts, cut=cuts, data=st.data())
def test_mixtures_resumed_at_another_world_size(
    tmp_path: Path, files: list[Rows], layout: Layout, cut: Any, data: st.DataObject
):
    whole = dataset(tmp_path / "data", files, layout)
    names = {f"{number}": file for number, file in enumerate(whole.files)}
    parts = {
        name: pf.parquet(file, column="input_ids", aligned={"labels": 3, "weights": 5})
        for name, file in names.items()
    }
    mixture = pf.mix(
        {name: (part, 1.0) for name, part in parts.items()}, stop="all_exhausted"
    )

    fields = ("input_ids", "position_ids")
    make = make_loaders(mixture, cut, padding=PADDING, fields=fields)
    expected, found = resumed_on_two(make, data, lambda some: delivered(some, layout))
    assert found == expected


@pytest.mark.parametrize("predicate", ["weights_of_row > 3", "weights_of_row == 1"])
def test_selected_rows_keep_their_numbers(tmp_path: Path, predicate: str):
    layout = Layout(50, 200, 4, [], "1.0", "int32", "float32")
    tokens = itertools.count(FIRST_TOKEN)
    rows = Rows([list(itertools.islice(tokens, n % 9)) for n in range(200)])
    table = pa.table(
        {
            "weights": lists(rows, "float32"),
            "input_ids": pa.array(rows.rows, pa.list_(pa.int32())),
            "labels": lists(rows, "int32"),
            "weights_of_row": [n % 7 for n in range(200)],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=50, data_page_size=99)
    data = pf.parquet(tmp_path, column="input_ids", aligned={"labels": 3, "weights": 5})
    chosen = data.where(predicate)
    loader = pf.Loader(
        chosen,
        sequences=pf.Windows(16, eos=EOS),
        batch_size=2,
        seed=0,
        drop_last=False,
        fields=("input_ids", "position_ids"),
    )
    found = delivered(loader, layout)
    wanted = (lambda n: n % 7 > 3) if ">" in predicate else (lambda n: n % 7 == 1)
    expected = [t for n, row in enumerate(rows.rows) if wanted(n) for t in row or ()]
    assert sorted(found) == expected


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("encoding", ["BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED"])
def test_other_encodings(tmp_path: Path, dtype: str, encoding: str):
    is_float = dtype.startswith("float")
    is_small = dtype in {"int8", "int16", "uint8", "uint16"}
    if is_float and encoding == "DELTA_BINARY_PACKED":
        pytest.skip("of integers only")
    if is_small and encoding == "BYTE_STREAM_SPLIT":
        pytest.skip("pyarrow does not write them so")
    layout = Layout(300, 2000, 16, [], "1.0", dtype, "int8")
    tokens = itertools.count(FIRST_TOKEN)
    rows = Rows([list(itertools.islice(tokens, n % 23)) for n in range(500)])
    table = pa.table(
        {
            "weights": lists(rows, "int8"),
            "input_ids": pa.array(rows.rows, pa.list_(pa.int32())),
            "labels": lists(rows, dtype),
        }
    )
    pq.write_table(
        table,
        tmp_path / "a.parquet",
        row_group_size=300,
        data_page_size=2000,
        use_dictionary=False,
        column_encoding={"labels.list.element": encoding},
    )
    data = pf.parquet(tmp_path, column="input_ids", aligned={"labels": 3, "weights": 5})
    loader = pf.Loader(
        data,
        sequences=pf.Windows(32),
        batch_size=2,
        seed=0,
        drop_last=False,
        fields=("input_ids", "position_ids"),
    )
    assert sorted(delivered(loader, layout)) == rows.tokens
