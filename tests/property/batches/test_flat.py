"""Flat files of any documents, in any shards, against a plain model."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made import flat_files
from pagefeed.flat import pages
from scaled import scaled

LENGTHS = st.lists(
    st.one_of(st.integers(0, 5), st.integers(0, 400), st.just(35_000)), max_size=8
)
SHARDS = st.lists(LENGTHS, min_size=1, max_size=4)


@given(LENGTHS, st.integers(1, 5), st.sampled_from([1, 2, 8, 6]), st.integers(0, 9))
def test_pages_hold_whole_documents(lengths, pieces, record_size, begin):
    parts = np.array_split(np.array(lengths, np.int64), pieces)
    found = pages.document_pages(begin, parts, record_size)
    assert found.num_values.sum() == sum(lengths)
    assert found.num_rows.sum() == len(lengths) == len(found.row_value)
    assert (found.size == found.num_values * record_size).all()
    ends = np.cumsum([0, *found.size])
    assert (found.offset == begin + ends[:-1]).all()
    starts = np.cumsum([0, *lengths])
    row = 0
    for page, count in enumerate(found.num_rows.tolist()):
        first = starts[row]
        assert count >= 1
        assert found.offset[page] == begin + first * record_size
        own = starts[row : row + count] - first
        assert (found.row_value[row : row + count] == own).all()
        # No page goes on behind its size but for the document that reaches there.
        assert own[-1] * record_size < pages.PAGE_BYTES + record_size
        row += count


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 40_000)), max_size=30))
def test_pages_of_rows_apart(rows):
    gaps, counts = np.array(rows, np.int64).reshape(-1, 2).T
    starts = np.cumsum(gaps + 2 * counts) - 2 * counts
    found = pages.apart(starts, counts, 2)
    page = np.repeat(np.arange(len(found.offset)), found.num_rows)
    assert (found.offset[page] + found.row_byte == starts).all()
    assert (found.num_values == np.bincount(page, counts, len(found.offset))).all()
    ends = found.offset + found.size
    assert (starts + 2 * counts <= ends[page]).all()


def shards_of(draw_lengths: list[list[int]], kind: str, folder: Path) -> Any:
    """A dataset of shards, and the tokens of its rows."""
    rng = np.random.default_rng(len(draw_lengths))
    rows = [[rng.integers(1, 9999, n).tolist() for n in some] for some in draw_lengths]
    paths = []
    for number, some in enumerate(rows):
        path = folder / str(number)
        if kind == "megatron":
            path.mkdir()
            paths.append(flat_files.write_megatron(path / "a", some, "int32"))
        else:
            dtype = [("token", "u2"), ("weight", "f8")] if kind == "records" else "u2"
            with pf.StreamWriter(path, dtype=dtype) as out:
                for row in some:
                    beside = {"weight": row} if kind == "records" else {}
                    out.append(np.array(row, int), **beside)
            paths.append(path)
    dataset = (pf.megatron if kind == "megatron" else pf.stream)(paths)
    return dataset, list(itertools.chain.from_iterable(rows))


@pytest.mark.parametrize("kind", ["megatron", "stream", "records"])
@given(shards=SHARDS, data=st.data())
@settings(max_examples=scaled(8))
def test_windows_over_shards_equal_a_model(kind, shards, data):
    if not sum(map(sum, shards)):
        return
    with tempfile.TemporaryDirectory() as folder:
        dataset, rows = shards_of(shards, kind, Path(folder))
        assert [row["input_ids"] for row in dataset] == rows
        for _ in range(2):  # The length is of the run, not of the data.
            length = data.draw(st.sampled_from([1, 7, 64, 1000, 50_000]))
            eos = data.draw(st.sampled_from([None, 0]))
            ends = [] if eos is None else [eos]
            line = np.array([token for row in rows for token in [*row, *ends]])
            windows = pf.Windows(length, eos=eos)
            count = -(-len(line) // length)
            view = pf.SequenceView(dataset, windows, padding=-1)
            assert len(view) == count
            chosen = data.draw(
                st.lists(st.integers(0, count - 1), min_size=1, max_size=9)
            )
            for number in chosen:
                own = line[number * length :][:length]
                found = view[number]["input_ids"]
                assert (found[: len(own)] == own).all()
                assert (found[len(own) :] == -1).all()


def test_many_spans_in_a_shard(tmp_path):
    num_spans, length = 400_000, 3
    with pf.StreamWriter(tmp_path, dtype="u2", serialize="bytes") as out:
        for first in range(0, num_spans, 50_000):
            names = np.arange(first, first + 50_000).astype("<u4").tobytes()
            spans = [
                (at * length, at * length + 2, names[4 * at : 4 * at + 4])
                for at in range(50_000)
            ]
            tokens = np.arange(first, first + 50_000 * length) % 65_536
            out.append(tokens, spans=spans)
    dataset = pf.stream(tmp_path)
    assert dataset.index.num_values == num_spans * length
    assert len(dataset) == 8
    loader = pf.Loader(
        dataset,
        sequences=pf.Windows(600),
        batch_size=4,
        shuffle="row",
        seed=2,
        fields=("input_ids", "metadata"),
    )
    for step, batch in enumerate(itertools.islice(loader, 25)):
        for part in batch["metadata"].to_pylist():
            [origin, *_] = loader.locate(step, part["sequence"])
            token = 150_000 * origin.row + origin.first_token
            found = [int.from_bytes(s["payload"], "little") for s in part["spans"]]
            if part["start"] == 0:
                assert found[0] == token // length + (token % length == 2)
            assert found == list(range(found[0], found[0] + len(found)))
    assert loader.stats()["index_reads"] <= 4 * 30 * 2
