"""The fields of a batch against a slow, plain reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.errors import InvalidArgumentError
from pagefeed.fields import DOCUMENTS, FIELDS, IGNORED, BatchFields, Fields


@st.composite
def batches(draw):
    """Tokens and documents: rows of parts with padding between and behind them."""
    length = draw(st.integers(1, 12))
    rows = draw(st.integers(1, 4))
    records = []
    for row in range(rows):
        start = draw(st.integers(0, 2))
        while start < length and draw(st.integers(0, 4)):
            count = draw(st.integers(1, length - start))
            records.append((row, start, count, 0, 0, 0, count))
            start += count + (0 if draw(st.integers(0, 4)) else 1)
    tokens = np.arange(1, rows * length + 1).reshape(rows, length)
    return tokens, np.array(records, dtype=DOCUMENTS)


def reference(tokens, documents, *, shifted, across):
    """The same by loops."""
    rows, length = tokens.shape
    ids = np.full(tokens.shape, -1)
    for number, record in enumerate(documents):
        row, start = int(record["batch_row"]), int(record["start"])
        earlier = sum(int(other["batch_row"]) == row for other in documents[:number])
        ids[row, start : start + int(record["num_tokens"])] = earlier
    borders, positions = [0], np.zeros_like(tokens)
    labels = np.full(tokens.shape, IGNORED)
    for row in range(rows):
        for place in range(length):
            is_new = place == 0 or ids[row, place] != ids[row, place - 1]
            if is_new and (row or place):
                borders.append(row * length + place)
            positions[row, place] = 0 if is_new else positions[row, place - 1] + 1
            if ids[row, place] < 0 or place == 0 or (is_new and not across):
                continue
            labels[row, place - shifted] = tokens[row, place]
    borders.append(rows * length)
    return {
        "input_ids": tokens,
        "labels": labels,
        "position_ids": positions,
        "document_ids": ids,
        "cu_seqlens": np.array(borders),
        "max_seqlen": max(np.diff(borders)),
        "attention_mask": ids >= 0,
        "loss_mask": labels != IGNORED,
    }


@given(batch=batches(), shifted=st.booleans(), across=st.booleans())
def test_fields_agree_with_the_reference(batch, shifted, across):
    tokens, documents = batch
    fields = Fields(names=FIELDS, shifted=shifted, across_documents=across)
    made = fields.make(tokens, documents)
    expected = reference(tokens, documents, shifted=shifted, across=across)
    assert list(made) == list(FIELDS)
    for name, value in expected.items():
        assert np.array_equal(made[name], value), name


def test_types_and_shapes():
    tokens = np.zeros((2, 4), dtype=np.uint16)
    made = BatchFields(tokens, np.array([(0, 0, 3, 0, 0, 0, 3)], dtype=DOCUMENTS))
    types = {
        "labels": np.int64,
        "position_ids": np.int64,
        "document_ids": np.int32,
        "attention_mask": np.bool_,
        "loss_mask": np.bool_,
    }
    for name, dtype in types.items():
        array = getattr(made, name)
        assert (array.shape, array.dtype) == (tokens.shape, dtype)
    assert made.cu_seqlens.dtype == np.int32
    assert made.cu_seqlens.tolist() == [0, 3, 4, 8]
    assert made.max_seqlen == 4
    assert made.input_ids is tokens


def test_names_are_checked():
    for wrong in (["labls"], "labels", []):
        with pytest.raises(InvalidArgumentError):
            Fields.parse(wrong)
    assert not Fields.parse(["input_ids"]).needs_documents
