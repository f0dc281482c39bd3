"""Spans of streams in batches, against a plain model."""

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.cuts import make_loaders, resumed_on_two, token_cuts
from made.shuffles import SHUFFLES
from models.told import FIRST_TOKEN, Row, cut_span, parts_of
from scaled import scaled

FIELDS: Final = ("input_ids", "document_ids", "metadata")
DTYPE = [("token", "u4"), ("weight", "f4")]
SPAN = pa.struct([("start", "int32"), ("end", "int32"), ("payload", pa.binary())])
SOME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

cuts = token_cuts(st.sampled_from([4, 7, 50, 300])) | st.builds(
    pf.Documents, max_length=st.integers(1, 300)
)


class Document(NamedTuple):
    """Tokens, and spans with their payloads."""

    tokens: list[int]
    spans: list[tuple[int, int, bytes]]


@st.composite
def some_document(draw: st.DrawFn) -> tuple[int, list[int], list[bytes]]:
    """A length, where spans begin and end in turn, and their payloads."""
    length = draw(st.integers(0, 30))
    borders = sorted(draw(st.sets(st.integers(0, length), max_size=9)))
    payloads = [draw(st.binary(min_size=1, max_size=40)) for _ in borders]
    return length, borders, payloads


@st.composite
def some_shards(draw: st.DrawFn) -> list[list[Document]]:
    """Documents in shards; spans touch, or have tokens between them."""
    tokens = itertools.count(FIRST_TOKEN)
    some = st.lists(some_document(), max_size=12)
    made = []
    for documents in draw(st.lists(some, min_size=1, max_size=3)):
        own = []
        if draw(st.integers(0, 4)) == 0:  # More than a page.
            documents.insert(0, (6000, [3, 70, 5999], [b"a", b"b"]))
        for length, borders, payloads in documents:
            step = draw(st.sampled_from([1, 2]))
            places = list(itertools.pairwise(borders))[::step]
            spans = [(*place, payload) for place, payload in zip(places, payloads)]  # noqa: B905
            own.append(Document(list(itertools.islice(tokens, length)), spans))
        made.append(own)
    return made


def write(folder: Path, shards: list[list[Document]]) -> pf.dataset.StreamDataset:
    for number, documents in enumerate(shards):
        path = folder / f"stream/{number}"
        with pf.StreamWriter(path, dtype=DTYPE, serialize="bytes") as out:
            for document in documents:
                weight = np.array(document.tokens, float)
                out.append(document.tokens, spans=document.spans, weight=weight)
    return pf.stream(folder / "stream", spans=["concepts"])


def write_parquet(folder: Path, documents: list[Document]) -> pf.dataset.ParquetDataset:
    names = ("start", "end", "payload")
    spans = [[dict(zip(names, s, strict=True)) for s in d.spans] for d in documents]
    ids = pa.array([d.tokens for d in documents], pa.list_(pa.int32()))
    table = pa.table({"input_ids": ids, "concepts": pa.array(spans, pa.list_(SPAN))})
    pq.write_table(table, folder / "a.parquet", data_page_size=2000)
    path = folder / "a.parquet"
    return pf.parquet(path, column="input_ids", spans=["concepts"])


def told(part: Row) -> Row:
    document = part.pop("row")
    cut = [(cut_span(part, *span[:2]), span[2]) for span in document.spans]
    spans = [
        {"start": place[0], "end": place[1], "payload": payload}
        for place, payload in cut
        if place is not None
    ]
    return part | {"concepts": spans}


def check(batches: Iterable[Row], documents: list[Document]) -> list[int]:
    """Check every batch, and return the tokens that were in them."""
    where = {
        token: (document, place)
        for document in documents
        for place, token in enumerate(document.tokens)
    }
    tokens: list[int] = []
    for batch in batches:
        ids = batch["input_ids"]
        table = [
            row
            for row in pa.table(batch["metadata"]).to_pylist()
            if row["start"] < row["stop"]
        ]
        assert table == [told(part) for part in parts_of(ids, where)]
        tokens += ids[ids >= FIRST_TOKEN].tolist()
    return tokens


@settings(SOME, max_examples=scaled(25))
@given(
    shards=some_shards(),
    some_cuts=st.lists(cuts, min_size=2, max_size=2),
    shuffle=st.sampled_from(SHUFFLES),
    memory=st.sampled_from(["4MiB", "64MiB"]),
)
def test_spans_of_every_part_are_those_written(
    shards: list[list[Document]], some_cuts: list[Any], shuffle: Any, memory: str
):
    documents = list(itertools.chain.from_iterable(shards))
    if not any(document.tokens for document in documents):
        return
    with tempfile.TemporaryDirectory() as folder:
        dataset = write(Path(folder), shards)
        for cut in some_cuts:  # The length is of the run, not of the data.
            loader = pf.Loader(
                dataset,
                sequences=cut,
                batch_size=3,
                seed=1,
                shuffle=shuffle,
                memory=memory,
                num_threads=2,
                drop_last=False,
                fields=FIELDS,
            )
            most = cut.max_length if isinstance(cut, pf.Documents) else None
            found = check(loader, documents)
            whole = {token for d in documents for token in d.tokens[:most]}
            assert set(found) == whole


@settings(SOME, max_examples=scaled(8))
@given(shards=some_shards(), cut=cuts, data=st.data())
def test_mixed_with_parquet_and_resumed_at_another_world_size(
    shards: list[list[Document]], cut: Any, data: st.DataObject
):
    if not any(document.tokens for shard in shards for document in shard):
        return
    documents = list(itertools.chain.from_iterable(shards))
    others = [
        Document([token + 1_000_000 for token in document.tokens], document.spans)
        for document in documents
    ]
    with tempfile.TemporaryDirectory() as folder:
        stream = write(Path(folder), shards)
        parquet = write_parquet(Path(folder), others)
        both: dict[str, Any] = {"stream": (stream, 1.0), "parquet": (parquet, 1.0)}
        mixture = pf.mix(both, stop="all_exhausted")
        documents += others
        make = make_loaders(mixture, cut, fields=FIELDS)
        every, found = resumed_on_two(make, data, lambda some: check(some, documents))
        assert found == every
