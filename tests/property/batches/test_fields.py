"""The fields that the engine makes, against a plain model, for any documents."""

import itertools
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from models.field_model import assert_model
from pagefeed import _core
from pagefeed.core._base import FIELDS as ALL_FIELDS
from pagefeed.core._base import IGNORED
from pagefeed.core.batches import BatchPlan, Fields
from pagefeed.core.sequences import Segments
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

FIELDS = Fields(names=tuple(ALL_FIELDS)).made
NUM_PAGES = 6
ROWS_OF_PAGE = 3
ROW_TOKENS = 130
PADDING = 7
ROOMY, TIGHT = 1 << 22, 0
"""Memory of an engine; TIGHT: the least it takes, so that batches are written page by
page."""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """An index of pages of three rows of 130 numbered tokens."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    num_rows = NUM_PAGES * ROWS_OF_PAGE
    tokens = np.arange(num_rows * ROW_TOKENS, dtype=np.int32)
    rows = pa.FixedSizeListArray.from_arrays(tokens, ROW_TOKENS)
    table = pa.table({"input_ids": rows.cast(pa.list_(pa.int32()))})
    pq.write_table(table, path, row_group_size=ROWS_OF_PAGE, use_dictionary=False)
    index = pf.parquet(path, column="input_ids").index.handle
    assert index.num_pages == NUM_PAGES
    return index


@st.composite
def batches(draw):
    """Shape and documents: rows of parts with padding between and behind them."""
    length = draw(st.integers(1, 12) | st.sampled_from([64, 130]))
    rows = draw(st.integers(1, 4))
    parts = []
    for row in range(rows):
        start = draw(st.integers(0, 2))
        while start < length and draw(st.integers(0, 4)):
            count = draw(st.integers(1, length - start))
            parts.append((row, start, count))
            start += count + (0 if draw(st.integers(0, 4)) else 1)
    return rows, length, draw(st.permutations(parts))


def dtypes():
    """Types of some fields."""
    kinds = {
        name: st.sampled_from(entry.dtypes)
        for name, entry in ALL_FIELDS.items()
        if entry.dtypes and name in FIELDS
    }
    return st.fixed_dictionaries({}, optional=kinds)


def engine_of(index, rows, length, dtype, fields, memory):
    def of(memory):
        return _core.Engine(
            {
                "tokens": [index],
                "num_threads": 1,
                "memory": memory,
                "dtype": dtype,
                "batch_rows": rows,
                "row_length": length,
                "padding": PADDING,
                "verify_checksums": [False],
                "fields": fields.settings,
            }
        )

    if memory != TIGHT:
        return of(memory)
    with pytest.raises(InvalidArgumentError) as refused:
        of(1)
    [least] = re.findall(r"takes (\d+) bytes", str(refused.value))
    return of(int(least))


@given(
    shape=batches(),
    dtype=st.sampled_from(["int64", "int32", "uint16"]),
    shifted=st.booleans(),
    across=st.booleans(),
    memory=st.sampled_from([ROOMY, TIGHT]),
    names=st.just(FIELDS) | st.sets(st.sampled_from(FIELDS), min_size=1).map(sorted),
    kinds=dtypes(),
    ignored=st.just(IGNORED) | st.integers(-(2**31), 2**31 - 1),
)
def test_fields_agree_with_the_model(
    index, shape, dtype, shifted, across, memory, names, kinds, ignored
):
    rows, length, parts = shape
    names = tuple(dict.fromkeys(("input_ids", *names)))
    kinds = {name: kind for name, kind in kinds.items() if name in names}
    fields = Fields(
        names=names,
        shifted=shifted,
        across_documents=across,
        dtypes=kinds,
        ignore_index=ignored,
    )
    engine = engine_of(index, rows, length, dtype, fields, memory)
    tokens = np.full((rows, length), PADDING, dtype=dtype)
    source = np.arange(len(parts)) % (NUM_PAGES * ROWS_OF_PAGE)
    for number, (row, start, count) in zip(source, parts, strict=True):
        first = number * ROW_TOKENS
        tokens[row, start : start + count] = np.arange(first, first + count)
    destination = np.array(parts, dtype=np.uint32).reshape(-1, 3).T.copy()
    segments = Segments(
        sequence=destination[0].astype(np.int64),
        page=source // ROWS_OF_PAGE,
        row=(source % ROWS_OF_PAGE).astype(np.uint32),
        first_token=np.zeros(len(parts), dtype=np.uint32),
        num_tokens=destination[2],
        offset=destination[1],
    )
    engine.submit(BatchPlan(segments=segments, num_batches=1))
    memory = engine.next_batch()
    batch = fields.arrays(memory, (rows, length), dtype)
    assert tuple(batch) == names
    assert np.array_equal(batch["input_ids"], tokens)
    assert_model(
        batch, parts, shifted=shifted, across=across, dtypes=kinds, ignored=ignored
    )


@settings(max_examples=scaled(30))
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    length=st.integers(1, 9),
    shifted=st.booleans(),
    across=st.booleans(),
    kinds=dtypes(),
)
def test_fields_of_padded_documents_agree_with_the_model(
    tmp_path_factory, lengths, length, shifted, across, kinds
):
    path = tmp_path_factory.mktemp("lists") / "lists.parquet"
    documents = [[*range(1, count + 1)] for count in lengths]
    rows = pa.array(documents, pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": rows}), path)
    fields = Fields(
        names=FIELDS,
        shifted=shifted,
        across_documents=across,
        dtypes=kinds,
        ignore_index=0,
    )
    [batch] = pf.Loader(
        pf.parquet(path, column="input_ids"),
        sequences=pf.Documents(max_length=length, pad="max_length"),
        batch_size=len(lengths),
        shuffle=None,
        fields=fields,
        dtype="int32",
        num_threads=1,
    )
    cut = np.minimum(lengths, length)
    assert np.array_equal(batch.pop("lengths"), cut)
    parts = [(row, 0, count) for row, count in enumerate(cut.tolist()) if count]
    assert_model(batch, parts, shifted=shifted, across=across, dtypes=kinds, ignored=0)


def test_memory_is_aligned_and_counted(index):
    """Each field lies on its own lines of the cache, inside what was asked for."""
    fields = Fields(names=FIELDS)
    engine = engine_of(index, 2, 100, "uint16", fields, ROOMY)
    nothing = np.empty((2, 0), dtype=np.int64)
    segments = Segments(*nothing, *np.empty((4, 0), dtype=np.uint32))
    engine.submit(BatchPlan(segments=segments, num_batches=1))
    memory = engine.next_batch()
    arrays = fields.arrays(memory, (2, 100), "uint16")
    assert memory.max_seqlen == arrays.pop("max_seqlen") == 100
    assert memory.max_doc_lens == arrays.pop("max_doc_lens") == [100, 100]
    starts = []
    for name, array in arrays.items():
        assert array.base is memory
        assert array.ctypes.data % 64 == 0
        starts.append((memory.offsets[list(ALL_FIELDS).index(name)], array.nbytes))
    starts.append((len(memory), 0))
    for (start, num_bytes), (following, _) in itertools.pairwise(starts):
        assert start + num_bytes <= following
    assert engine.stats()["peak_bytes"] >= len(memory)


def test_memory_must_hold_the_fields(index):
    with pytest.raises(InvalidArgumentError, match="tokens and fields"):
        engine_of(index, 4, 128, "int32", Fields(names=FIELDS), 4 * 128 * 4)
    engine_of(index, 4, 128, "int32", Fields(names=FIELDS[:1]), 4 * 128 * 4)


def test_names_are_checked():
    for wrong in (["labls"], "labels", []):
        with pytest.raises(InvalidArgumentError):
            Fields.parse(wrong, pf.Windows(8))
    assert Fields.parse(["input_ids", "labels"], pf.Windows(8)) == Fields()


def test_without_fields_comes_what_a_loss_needs():
    for cut in (pf.Windows(8), pf.Packed(8), pf.Documents(max_length=8)):
        assert Fields.parse(None, cut).names == ("input_ids", "labels")
    assert Fields.parse(None, pf.Documents()).names == ("input_ids",)


def test_types_and_the_ignored_label_are_checked():
    names = ("input_ids", "labels", "loss_mask")
    wrong: dict[str, dict[str, Any]] = {
        r"dtypes\['loss_mask'\]='float23' is unknown.* bool, int64, float32": {
            "dtypes": {"loss_mask": "float23"}
        },
        r"dtypes\['labels'\]='float32' is unknown: choose one of int64, int32": {
            "dtypes": {"labels": "float32"}
        },
        "dtypes='los_mask' is unknown": {"dtypes": {"los_mask": "float32"}},
        "'attention_mask', which is not among the fields": {
            "dtypes": {"attention_mask": "int64"}
        },
        "must name types by field": {"dtypes": "float32"},
        "ignore_index": {"dtypes": {"labels": "int32"}, "ignore_index": 1 << 31},
        "ignore_index=None": {"ignore_index": None},
    }
    for message, settings_ in wrong.items():
        with pytest.raises(InvalidArgumentError, match=message):
            Fields(names=names, **settings_)


@pytest.mark.parametrize(
    "kind", ["float32", np.float32, np.dtype(np.float32)], ids=["name", "type", "dtype"]
)
def test_types_are_names_or_those_of_numpy(kind):
    usual = Fields(names=("input_ids", "loss_mask"))
    asked = Fields(names=("input_ids", "loss_mask"), dtypes={"loss_mask": kind})
    assert asked.dtype_of("loss_mask") == "float32"
    assert asked != usual
    again = Fields(names=("input_ids", "loss_mask"), dtypes={"loss_mask": np.bool_})
    assert (again, hash(again)) == (usual, hash(usual))
    assert set(usual.settings) == {"fields", "shifted", "across_documents"}


def test_settings_of_other_names_are_refused():
    config: Any = {"num_threads": 1, "memory": ROOMY, "batch_rows": 1, "rows": 2}
    with pytest.raises(TypeError, match='there is no setting "rows"'):
        _core.Engine(config)
    del config["rows"]
    with pytest.raises(KeyError, match="verify_checksums"):
        _core.Engine(config)
