"""Columns with several numbers a token: writers, refusals, types, memory, reports."""

import itertools
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.damage import bit_flipped
from pagefeed.errors import (
    CorruptFileError,
    DataError,
    InvalidArgumentError,
    PagefeedError,
    UnsupportedError,
)

K = 4


def rows(count: int = 60) -> list[list[int]]:
    """Rows of 0 to 6 tokens, each of which occurs once."""
    tokens = itertools.count(1)
    return [list(itertools.islice(tokens, n % 7)) for n in range(count)]


def numbers(tokens: list[list[int]], k: int = K) -> list[list[list[int]]]:
    return [[[10 * token + i for i in range(k)] for token in row] for row in tokens]


def table(wide: Any, kind: Any = None) -> pa.Table:
    return pa.table({"input_ids": rows(), "wide": pa.array(wide, kind)})


def loader(data: Any, sequences: Any = None, **options: Any) -> pf.Loader:
    settings = {"batch_size": 2, "seed": 0, "num_threads": 1} | options
    return pf.Loader(data, sequences=sequences or pf.Windows(8), **settings)


def named(folder: Path | str, like: Any = None) -> Any:
    aligned = ["wide"] if like is None else {"wide": like}
    return pf.parquet(folder, column="input_ids", aligned=aligned)


@pytest.mark.parametrize("how", ["array", "list", "duckdb", "duckdb-array", "large"])
def test_files_of_other_writers(tmp_path: Path, how: str):
    path, wide = str(tmp_path / "a.parquet"), numbers(rows())
    frame = pl.DataFrame({"input_ids": rows(), "wide": wide})
    if how == "array":
        kind = pl.List(pl.Array(pl.Int32, K))
        frame.with_columns(pl.Series("wide", wide, kind)).write_parquet(path)
    elif how == "list":
        frame.write_parquet(path, row_group_size=20, data_page_size=100)
    elif how == "large":
        kind = pa.large_list(pa.large_list(pa.int16()))
        pq.write_table(table(wide, kind), path, row_group_size=20)
    else:
        cast = f"CAST(wide AS INTEGER[{K}][])" if how == "duckdb-array" else "wide"
        arrow = table(wide)  # noqa: F841 - DuckDB finds it by its name
        query = f"SELECT input_ids, {cast} AS wide FROM arrow"
        duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    seen = 0
    for batch in loader(named(path), drop_last=False):
        tokens = batch["input_ids"]
        expected = 10 * tokens[..., None] + np.arange(K)
        expected[tokens == 0] = 0
        np.testing.assert_array_equal(batch["wide"], expected)
        seen += int((tokens > 0).sum())
    assert seen == sum(map(len, rows()))


def test_a_row_with_other_lists_is_refused_by_its_place(tmp_path: Path):
    def refused(wide: Any, match: str, like: Any = None) -> DataError:
        path = str(tmp_path / "a.parquet")
        pq.write_table(table(wide), path, row_group_size=20, data_page_size=200)
        for cut in (pf.Windows(8), pf.Packed(8), pf.Documents(max_length=9)):
            with pytest.raises(DataError, match=match) as caught:
                list(loader(named(path, like), cut))
        assert "wide" in str(caught.value.column)
        with pytest.raises(DataError, match=match) as caught:
            list(loader(named(path, like)))
        assert (caught.value.file, caught.value.row_group) == (path, 1)
        assert caught.value.page is not None
        return caught.value

    width = pf.Aligned(width=K)
    wide = numbers(rows())
    wide[23].pop()
    refused(wide, "has 1 lists of values, and 2 tokens", width)
    wide = numbers(rows())
    wide[23][1].pop()
    refused(wide, r"token 1 of row .* has not exactly 4 values", width)
    wide[24][0].append(7)  # Now the sums are right.
    refused(wide, r"token 1 of row .* has not exactly 4 values")
    wide = numbers(rows())
    wide[23][0] += [7]
    counted = pf.Aligned(width=K, count="count")
    refused(wide, r"token 0 of row .* has not at most 4 values", counted)


def test_nulls_are_refused(tmp_path: Path):
    path = str(tmp_path / "a.parquet")
    for place, match in [((23, 1), "holds a null"), ((23, 1, 2), "stands for no")]:
        wide: Any = numbers(rows())
        at = wide
        for number in place[:-1]:
            at = at[number]
        at[place[-1]] = None
        pq.write_table(table(wide), path)
        with pytest.raises(UnsupportedError, match=match) as caught:
            list(loader(named(path, pf.Aligned(width=K, count="count"))))
        assert "wide" in str(caught.value)


def test_arguments_are_checked(tmp_path: Path):
    bad: Any
    for bad in [
        {"width": 0},
        {"width": True},
        {"padding": "0"},
        {"count": ""},
        {"shifted": 1},
        {"first": -1},
        {"dtype": "float8"},
        {"scale": 0},
        {"scale": -1.0},
        {"scale": 0.5, "dtype": "bfloat16"},
    ]:
        with pytest.raises(InvalidArgumentError):
            pf.Aligned(**bad)
    path = str(tmp_path / "a.parquet")
    wide = [[x[: n % 4] for x in row] for n, row in enumerate(numbers(rows()))]
    pq.write_table(table(wide), path)
    with pytest.raises(InvalidArgumentError, match=r"lists of lists, .*width="):
        loader(named(path))
    pq.write_table(table(numbers(rows())), path)
    with pytest.raises(InvalidArgumentError, match="int64 numbers, but dtype"):
        loader(named(path, pf.Aligned(dtype="bfloat16")))
    with pytest.raises(InvalidArgumentError, match="int64 numbers, but scale"):
        loader(named(path, pf.Aligned(scale=0.5)))
    for count in ("input_ids", "wide", "labels_mask", "lengths", "labels", "doc_lens"):
        if count == "labels_mask":
            named(path, pf.Aligned(count=count))
            continue
        with pytest.raises(InvalidArgumentError):
            named(path, pf.Aligned(count=count))
    other = named(path, pf.Aligned(width=K, padding=3))
    with pytest.raises(InvalidArgumentError, match=r"x 4, padding=0.*x 4, padding=3"):
        loader(pf.mix({"a": (named(path), 1), "b": (other, 1)}, max_steps=3))


def test_tensors_have_the_type_of_the_numbers(tmp_path: Path):
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    values = torch.randn(sum(map(len, rows())), K).to(torch.bfloat16)
    bits = values.view(torch.uint16).numpy()
    offsets = np.cumsum([0, *map(len, rows())])
    wide = [bits[a:b].tolist() for a, b in itertools.pairwise(offsets.tolist())]
    path = tmp_path / "a.parquet"
    pq.write_table(table(wide, pa.list_(pa.list_(pa.uint16(), K))), path)
    like = pf.Aligned(dtype="bfloat16", padding=-2.5)
    [batch] = loader(named(path, like), pf.Windows(256), format="torch", batch_size=1)
    assert batch["wide"].dtype == torch.bfloat16
    assert torch.equal(batch["wide"][0, : len(values)], values)
    assert (batch["wide"][0, len(values) :] == -2.5).all()
    view = pf.SequenceView(named(path, like), pf.Windows(16), format="torch")
    assert torch.equal(view[1]["wide"], values[16:32])
    documents = pf.Documents(max_length=8)
    batch = next(iter(loader(named(path, like), documents, format="torch")))
    assert batch["wide"].dtype == torch.bfloat16


def test_the_budget_is_held(tmp_path: Path):
    rng, k = np.random.default_rng(0), 64
    starts = np.arange(0, 160 * 512 + 1, 512, dtype=np.int32)
    ids = rng.integers(0, 100_000, (160 * 512, k)).astype(np.int32)
    values = {
        "input_ids": pa.array(ids[:, 0]),
        "teacher_ids": pa.FixedSizeListArray.from_arrays(ids.ravel(), k),
        "teacher_logprobs": pa.FixedSizeListArray.from_arrays(
            -rng.random(ids.size).astype(np.float16), k
        ),
    }
    lists = {
        name: pa.ListArray.from_arrays(starts, each) for name, each in values.items()
    }
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(lists), file, row_group_size=1, use_dictionary=False)
    names = ["teacher_ids", "teacher_logprobs"]
    data = pf.parquet(tmp_path, column="input_ids", aligned=names)
    # A bundle of documents that are packed holds some 200 sequences.
    page, bundle = 256 << 10, 200 * 64 * (4 + 6 * k)
    memory = 12 << 20
    way: tuple[Any, int, Any]
    for way in [(pf.Windows(256), page, "page"), (pf.Packed(64), bundle, None)]:
        cut, least, shuffle = way
        one = loader(data, cut, memory=memory, shuffle=shuffle, num_threads=2)
        for batch in one:
            np.testing.assert_array_equal(
                batch["teacher_ids"][..., 0], batch["input_ids"]
            )
        stats = one.stats()
        # All of the tokens with what lies beside them is several times the memory.
        assert stats["bytes_read"] > 2 * memory
        assert stats["peak_bytes"] <= memory + 2 * least
    with pytest.raises(InvalidArgumentError, match="does not hold one batch"):
        next(iter(loader(data, pf.Windows(512), memory="2MiB", batch_size=16)))


def test_reports_count_them(tmp_path: Path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(table(numbers(rows())), path)
    one = loader(named(path))
    columns = pf.forecast(one).columns
    assert columns["wide"].reads > 0
    assert "wide" in repr(pf.inspect(named(path)).storage)
    batch = next(iter(one))
    [origin, *_] = one.locate(step=0, row=0)
    assert rows()[origin.row][origin.first_token] == batch["input_ids"][0, 0]
    assert named(path)[2]["wide"] == numbers(rows())[2]


def test_flipped_bits_give_the_numbers_or_typed_errors(tmp_path: Path):
    import random

    sound = tmp_path / "sound.parquet"
    options: Any = {"row_group_size": 30, "data_page_size": 300}
    pq.write_table(table(numbers(rows())), sound, **options)
    data, draw, errors = sound.read_bytes(), random.Random(5), 0
    for _ in range(400):
        path = tmp_path / "a.parquet"
        path.write_bytes(bit_flipped(data, draw.randrange(4, len(data)), draw))
        try:
            for batch in loader(named(path, pf.Aligned(width=K)), drop_last=False):
                assert batch["wide"].shape == (2, 8, K)
        except PagefeedError:
            errors += 1
    assert errors > 50


def test_other_depths_are_refused(tmp_path: Path):
    deep = [[[[1]] for _ in row] for row in rows()]
    pq.write_table(table(deep), tmp_path / "a.parquet")
    with pytest.raises(UnsupportedError, match="a list of numbers"):
        list(loader(named(tmp_path / "a.parquet", pf.Aligned(width=1))))
    pq.write_table(table(rows()), tmp_path / "a.parquet")
    with pytest.raises(CorruptFileError, match="with 4 values each"):
        list(loader(named(tmp_path / "a.parquet", pf.Aligned(width=K))))
