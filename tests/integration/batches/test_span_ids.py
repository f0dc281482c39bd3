"""The span of each token as a number, with the payloads as objects."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError

FIELDS = ("input_ids", "metadata")


@pytest.fixture
def data(tmp_path):
    """Documents of 20 tokens; the concept of each is told by its payload."""
    with pf.StreamWriter(tmp_path / "s", dtype="uint16", serialize=pickle.dumps) as out:
        for document in range(10):
            places = ((0, 5), (5, 9), (12, 20))
            spans = [(a, b, {"at": (document, a)}) for a, b in places]
            out.append(np.arange(20) + 20 * document, spans=spans)
    return pf.stream(tmp_path / "s")


def loader(data, transform, sequences=None, **options: Any):
    settings: Any = {"batch_size": 3, "fields": FIELDS, "seed": 1} | options
    sequences = sequences or pf.Windows(16, eos=500)
    return pf.Loader(data, sequences=sequences, transform=transform, **settings)


def concept(token):
    """The payload that a token must have; None in a gap, and of a separator."""
    document, at = divmod(token, 20)
    if token == 500 or 9 <= at < 12:
        return None
    return {"at": (document, 0 if at < 5 else 5 if at < 9 else 12)}


@pytest.mark.parametrize("sequences", [pf.Windows(16, eos=500), pf.Packed(24)])
@pytest.mark.parametrize("form", ["numpy", "torch"])
def test_each_token_has_the_payload_of_its_span(data, sequences, form):
    numbers = pf.SpanIds(unpack=pickle.loads)
    seen = 0
    feed = loader(data, numbers, sequences, format=form, padding=500, drop_last=False)
    for batch in feed:
        ids = np.asarray(batch["span_ids"])
        assert ids.dtype == np.int32
        assert ids.shape == tuple(batch["input_ids"].shape)
        for row, tokens in zip(ids.tolist(), batch["input_ids"].tolist(), strict=True):
            for number, token in zip(row, tokens, strict=True):
                found = None if number == -1 else batch["spans"][number]
                assert found == concept(token)
                seen += number >= 0
    assert seen == 170


def test_spans_of_parquet_come_as_their_fields(tmp_path):
    spans = [[{"start": 1, "end": 3, "name": "x"}], [], None]
    table = pa.table({"input_ids": [[1, 2, 3], [4], [5, 6]], "spans": spans})
    pq.write_table(table, tmp_path / "a.parquet")
    data = pf.parquet(tmp_path, column="input_ids", spans=["spans"])
    [batch] = loader(data, pf.SpanIds(), pf.Windows(6), batch_size=1, shuffle=None)
    assert batch["span_ids"].tolist() == [[-1, 0, 0, -1, -1, -1]]
    assert [span["name"] for span in batch["spans"]] == ["x"]


def test_batches_without_spans_have_none(data):
    without = loader(data.take(share=0.1, seed=1), pf.SpanIds(), pf.Windows(4))
    for batch in without:
        assert batch["span_ids"].max() < len(batch["spans"])


def test_what_is_wrong_is_said(data):
    with pytest.raises(InvalidArgumentError, match="must be a function"):
        pf.SpanIds(unpack="pickle")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"no metadata.*ask for fields="):
        next(iter(loader(data, pf.SpanIds(), fields=("input_ids",))))
    with pytest.raises(InvalidArgumentError, match=r"'concepts'.*finds.*'spans'"):
        next(iter(loader(data, pf.SpanIds("concepts"))))
    with pytest.raises(InvalidArgumentError, match="unpack raised ZeroDivisionError"):
        next(iter(loader(data, pf.SpanIds(unpack=lambda _: 1 / 0))))
