"""Mixtures of data with and without aligned columns, against a plain model."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.flat_files import megatron
from models.wide import FIRST_TOKEN, Wide
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

EOS, BOS = 1, 2
INFILL = pf.Infill(prefix=3, middle=4, suffix=5, rate=0.7)
NOTE = -5
"""Padding of a second column, of one number a token."""
Rows = list[list[int]]


@st.composite
def wides(draw: st.DrawFn) -> Wide:
    dtype = draw(st.sampled_from(["int8", "int64", "float16", "float32", "bfloat16"]))
    return Wide(
        kind=draw(st.sampled_from(["fixed", "lists", "ragged", "flat"])),
        dtype=dtype,
        k=draw(st.sampled_from([1, 2, 5])),
        first=draw(st.sampled_from([0, 1])),
        shifted=draw(st.booleans()),
        scale=draw(st.sampled_from([None, 0.25])) if dtype == "int8" else None,
        padding=draw(st.sampled_from([0, 7])),
        of_next=False,
    )


@st.composite
def some_parts(draw: st.DrawFn) -> list[tuple[Rows, str]]:
    """Rows of datasets, and what each has: wide numbers, notes, both, or none."""
    kinds = st.sampled_from(["wide", "note", "both", "none", "megatron"])
    parts = []
    for number, kind in enumerate(["wide", *draw(st.lists(kinds, max_size=3)), "none"]):
        tokens = itertools.count(FIRST_TOKEN + 1000 * number)
        lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=12))
        rows = [list(itertools.islice(tokens, length)) for length in lengths]
        parts.append((rows, kind))
    return draw(st.permutations(parts))


def made(folder: Path, rows: Rows, kind: str, wide: Wide) -> Any:
    folder.mkdir(exist_ok=True, parents=True)
    if kind == "megatron":
        return megatron(folder, rows)
    columns = {"input_ids": pa.array(rows, pa.list_(pa.int32()))}
    aligned: dict[str, Any] = {}
    if kind in {"note", "both"}:
        columns["note"] = pa.array([[-t for t in row] for row in rows])
        aligned["note"] = NOTE
    if kind in {"wide", "both"}:
        columns["wide"] = wide.array(list(rows))
        aligned["wide"] = wide.like
    path = folder / "a.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=5, data_page_size=50)
    return pf.parquet(path, column="input_ids", aligned=aligned)


CUTS = st.one_of(
    st.builds(
        pf.Windows,
        st.sampled_from([8, 12, 28]),
        eos=st.sampled_from([None, EOS]),
        bos=st.sampled_from([None, BOS]),
    ),
    st.builds(
        pf.Packed, st.sampled_from([8, 12, 28]), eos=st.sampled_from([None, EOS])
    ),
    st.builds(
        pf.Documents,
        max_length=st.sampled_from([4, 20]),
        pad=st.sampled_from(["longest", "max_length", None]),
    ),
)


@settings(
    max_examples=scaled(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    parts=some_parts(),
    wide=wides(),
    cut=CUTS,
    infills=st.booleans(),
    shuffle=st.sampled_from([None, "page"]),
    is_parallel=st.booleans(),
    has_budget=st.booleans(),
)
def test_tokens_of_data_without_a_column_have_its_padding(
    tmp_path: Path,
    parts: list[tuple[Rows, str]],
    wide: Wide,
    cut: Any,
    infills: bool,
    shuffle: Any,
    is_parallel: bool,
    has_budget: bool,
):
    is_document = isinstance(cut, pf.Documents)
    datasets = {}
    for number, (rows, kind) in enumerate(parts):
        data = made(tmp_path / str(number), rows, kind, wide)
        if infills and not (is_document and kind in {"wide", "both"}):
            data = data.infill(INFILL)
        datasets[str(number)] = data
    has_note = any(kind in {"note", "both"} for _, kind in parts)
    mixture = pf.mix(
        datasets,
        fill=["wide", "note"] if has_note else ["wide"],
        max_epochs=dict.fromkeys(datasets, 1),
    )
    part = pf.ContextParallel(1, 2) if is_parallel and not is_document else None
    has_budget = is_document and has_budget and not infills
    size: Any = {"batch_tokens": 40} if has_budget else {"batch_size": 3}
    loader = pf.Loader(
        mixture,
        sequences=cut,
        seed=2,
        shuffle=shuffle,
        num_threads=1,
        drop_last=False,
        context_parallel=part,
        fields=pf.Fields(names=("input_ids", "labels"), shifted=True),
        **size,
    )
    starts = {t: row[0] for rows, _ in parts for row in rows for t in row}
    kind_of = {t: kind for rows, kind in parts for row in rows for t in row}

    def of(kinds: set[str], tokens: np.ndarray) -> np.ndarray:
        return np.vectorize(lambda t: t if kind_of.get(t) in kinds else 0)(tokens)

    seen: set[int] = set()
    for batch in loader:
        places = batch["labels"] if wide.shifted else batch["input_ids"]
        expected, counts = wide.expected(of({"wide", "both"}, places), starts)
        assert batch["wide"].dtype == expected.dtype
        np.testing.assert_array_equal(batch["wide"], expected)
        if wide.kind == "ragged":
            np.testing.assert_array_equal(batch["count"], counts)
        if has_note:
            own = of({"note", "both"}, batch["input_ids"])
            np.testing.assert_array_equal(batch["note"], np.where(own, -own, NOTE))
        seen |= {*batch["input_ids"].reshape(-1).tolist()} - {*range(FIRST_TOKEN)}
    if part is None and not is_document:
        assert seen == set(starts)


def plain_and_distil(folder: Path) -> tuple[Any, Any]:
    wide = Wide("fixed", "int32", 2, 0, False, None, -1)
    rows = [list(range(FIRST_TOKEN + 9 * n, FIRST_TOKEN + 9 * n + 9)) for n in range(9)]
    plain, distil = (made(folder / kind, rows, kind, wide) for kind in ("none", "wide"))
    return plain, distil


def test_a_state_does_not_depend_on_what_is_filled(tmp_path: Path):
    plain, distil = plain_and_distil(tmp_path)
    bare = pf.parquet(distil.files[0], column="input_ids")

    def loader(second: Any, fill: Any) -> pf.Loader:
        mixture = pf.mix({"a": (plain, 1), "b": (second, 1)}, fill=fill, max_steps=9)
        return pf.Loader(mixture, sequences=pf.Packed(12), batch_size=2, num_threads=1)

    filled, other = loader(distil, ["wide"]), loader(bare, ())
    batches = zip(filled, other, strict=True)
    for batch, same in itertools.islice(batches, 4):
        np.testing.assert_array_equal(batch["input_ids"], same["input_ids"])
    assert filled.state_dict() == other.state_dict()


def test_what_is_ambiguous_is_refused(tmp_path: Path):
    plain, distil = plain_and_distil(tmp_path)
    path = distil.files[0]
    unsaid = pf.parquet(path, column="input_ids", aligned=["wide"])
    told = pf.parquet(path, column="input_ids", metadata=["wide"])
    labels = pf.parquet(path, column="input_ids", aligned={"labels": -100})

    def mixed(first: Any, second: Any, fill: Any) -> Any:
        return pf.mix({"a": first, "b": second}, fill=fill, max_steps=3)

    for first, second, fill, message in [
        (plain, distil, {"wide": -1}, "its padding"),
        (plain, distil, ["wild"], r"no dataset has .* 'wild'; they have \['wide'\]"),
        (plain, unsaid, ["wide"], "its padding was not said"),
        (told, distil, ["wide"], "'a' uses the name 'wide'"),
        (plain, labels, ["labels"], "batches make this field"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            mixed(first, second, fill)
    with pytest.raises(InvalidArgumentError, match=r"does not: .*fill=\['wide'\]"):
        pf.Loader(mixed(plain, distil, ()), sequences=pf.Packed(8), batch_size=2)
    with pytest.raises(InvalidArgumentError, match="give a max_length"):
        pf.Loader(
            mixed(plain, distil, ["wide"]), sequences=pf.Documents(), batch_size=2
        )
