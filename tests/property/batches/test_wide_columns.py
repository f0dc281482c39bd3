"""Columns with several numbers a token, against a plain model of what they hold."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.cuts import BOS, EOS, make_loaders, resumed_on_two
from models.wide import FIRST_TOKEN, Wide
from scaled import scaled

DTYPES = [
    *("int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32"),
    *("float64", "bfloat16"),
]
Rows = list[list[int] | None]


@st.composite
def wides(draw: st.DrawFn) -> Wide:
    kind = draw(st.sampled_from(["fixed", "lists", "ragged", "flat"]))
    dtype = draw(st.sampled_from(DTYPES))
    scales = [None, 0.25] if dtype in {"int8", "uint8"} else [None]
    return Wide(
        kind=kind,
        dtype=dtype,
        k=draw(st.sampled_from([1, 2, 3, 5, 64])),
        first=draw(st.sampled_from([0, 0, 1, 2])),
        shifted=draw(st.booleans()),
        scale=draw(st.sampled_from(scales)),
        padding=draw(st.sampled_from([0, 7])),
    )


@st.composite
def some_files(draw: st.DrawFn) -> list[Rows]:
    lengths = st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=30)
    files = []
    for number in range(draw(st.integers(1, 2))):
        tokens = itertools.count(FIRST_TOKEN + 10_000 * number)
        files.append(
            [
                None if length is None else list(itertools.islice(tokens, length))
                for length in draw(lengths.filter(any))
            ]
        )
    return files


cuts = st.one_of(
    st.builds(
        pf.Windows,
        st.integers(4, 30),
        eos=st.sampled_from([None, EOS]),
        bos=st.sampled_from([None, BOS]),
        overlap=st.integers(0, 3),
    ),
    st.builds(pf.Packed, st.integers(4, 30), eos=st.sampled_from([None, EOS])),
    st.builds(
        pf.Documents,
        max_length=st.integers(1, 30),
        pad=st.sampled_from(["longest", "max_length", None]),
    ),
)
layouts = st.fixed_dictionaries(
    {
        "row_group_size": st.integers(1, 30),
        "data_page_size": st.sampled_from([1, 100, 2000]),
        "write_batch_size": st.integers(1, 9),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "write_page_index": st.booleans(),
        "compression": st.sampled_from(["none", "zstd", "snappy"]),
    }
)


def dataset(folder: Path, files: list[Rows], wide: Wide, layout: Any) -> Any:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for number, rows in enumerate(files):
        tokens = pa.array(rows, pa.list_(pa.int32()))
        table = pa.table({"input_ids": tokens, "wide": wide.array(rows)})
        pq.write_table(table, folder / f"{number}.parquet", **layout)
    return pf.parquet(folder, column="input_ids", aligned={"wide": wide.like})


def check(batch: Any, files: list[Rows], wide: Wide) -> list[int]:
    """Each token has its numbers, where it stands or where it is predicted."""
    starts = {t: row[0] for rows in files for row in rows if row for t in row}
    tokens = batch["labels"] if wide.shifted else batch["input_ids"]
    expected, counts = wide.expected(np.asarray(tokens), starts)
    assert batch["wide"].dtype == expected.dtype
    np.testing.assert_array_equal(batch["wide"], expected)
    if wide.kind == "ragged":
        np.testing.assert_array_equal(batch["count"], counts)
        assert batch["count"].dtype == np.int32
    return [t for t in batch["input_ids"].reshape(-1).tolist() if t >= FIRST_TOKEN]


@settings(
    max_examples=scaled(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=some_files(),
    wide=wides(),
    cut=cuts,
    layout=layouts,
    shuffle=st.sampled_from([None, "page", "row"]),
    across=st.booleans(),
)
def test_every_token_keeps_its_numbers(
    tmp_path: Path,
    files: list[Rows],
    wide: Wide,
    cut: Any,
    layout: Any,
    shuffle: Any,
    across: bool,
):
    data = dataset(tmp_path / "data", files, wide, layout)
    is_document = isinstance(cut, pf.Documents)
    loader = pf.Loader(
        data,
        sequences=cut,
        batch_size=3,
        seed=1,
        shuffle=shuffle,
        memory="64MiB",
        num_threads=2,
        drop_last=False,
        fields=pf.Fields(
            names=("input_ids", "labels"),
            shifted=True,
            across_documents=across and getattr(cut, "pad", None) is None,
        ),
    )
    found = [token for batch in loader for token in check(batch, files, wide)]
    every = {token for rows in files for row in rows for token in row or ()}
    if is_document:
        every = {
            t for rows in files for row in rows for t in (row or [])[: cut.max_length]
        }
    assert set(found) == every


@settings(
    max_examples=scaled(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(files=some_files(), wide=wides(), layout=layouts, data=st.data())
def test_a_resume_at_another_world_size_gives_the_rest(
    tmp_path: Path, files: list[Rows], wide: Wide, layout: Any, data: st.DataObject
):
    whole = dataset(tmp_path / "data", files, wide, layout)

    def read(batches: Iterable[Any]) -> list[int]:
        return [t for batch in batches for t in check(batch, files, wide)]

    fields = pf.Fields(names=("input_ids", "labels"), shifted=True)
    make = make_loaders(whole, pf.Packed(12), fields=fields)
    expected, found = resumed_on_two(make, data, read)
    assert found == expected
