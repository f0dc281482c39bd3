"""Every sequence begins with bos, and holds each piece of a document once."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

BOS, EOS, PADDING, IGNORED = 1, 2, 0, -100
FIRST = 10
"""Tokens of documents are not below."""
LENGTHS = st.lists(
    st.one_of(st.integers(0, 12), st.integers(13, 70)), min_size=1, max_size=25
)


def documents(lengths: list[int]) -> list[list[int]]:
    ends = np.cumsum(lengths) + FIRST
    return [
        [*range(end - length, end)] for end, length in zip(ends, lengths, strict=True)
    ]


def pieces(document: list[int], length: int, eos: int | None) -> list[list[int]]:
    """A document as it lies in sequences: bos in front of all that begins one."""
    line = [BOS, *document, *([] if eos is None else [eos])]
    first, rest = line[:length], line[length:]
    step = length - 1
    return [
        first,
        *([BOS, *rest[at : at + step]] for at in range(0, len(rest), step)),
    ]


def write(folder: Path, rows: list[list[int]]) -> None:
    half = len(rows) // 2
    for number, some in enumerate([rows[:half], rows[half:]]):
        table = pa.table({"input_ids": pa.array(some, pa.list_(pa.int32()))})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=7)


@settings(max_examples=scaled(60))
@given(
    lengths=LENGTHS,
    length=st.sampled_from([2, 3, 8, 16]),
    eos=st.sampled_from([None, EOS]),
    method=st.sampled_from(["best_fit", "first_fit", "greedy"]),
    across=st.booleans(),
)
def test_every_sequence_begins_with_bos(
    tmp_path_factory, lengths, length, eos, method, across
):
    folder = tmp_path_factory.mktemp("bos")
    rows = documents(lengths)
    write(folder, rows)
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids"),
        sequences=pf.Packed(length, bos=BOS, eos=eos, method=method, repeat_bos=True),
        batch_size=2,
        drop_last=False,
        padding=PADDING,
        fields=pf.Fields(
            names=("input_ids", "labels", "document_ids"),
            across_documents=across,
        ),
    )
    expected = sorted(
        tuple(piece) for row in rows for piece in pieces(row, length, eos)
    )
    found: list[tuple[int, ...]] = []
    left = {token for row in rows for token in row}
    padding = 0
    for step, batch in enumerate(loader):
        for row, (ids, numbers) in enumerate(
            zip(batch["input_ids"], batch["document_ids"], strict=True)
        ):
            if (ids == PADDING).all():
                continue  # A row that fills the last step.
            assert ids[0] == BOS
            padding += int((ids == PADDING).sum())
            begins = [*np.flatnonzero(ids == BOS), length]
            for begin, end in itertools.pairwise(begins):
                piece = ids[begin:end]
                piece = piece[piece != PADDING]
                assert len({*numbers[begin : begin + len(piece)].tolist()}) == 1
                found.append(tuple(piece.tolist()))
            for origin in loader.locate(step, row):
                document = rows[
                    origin.row + (0 if "0.parquet" in origin.file else len(rows) // 2)
                ]
                own = document[origin.first_token :][: origin.num_tokens]
                there = ids[origin.offset :][: origin.num_tokens].tolist()
                assert there == own
                left -= {*own}
        check_labels(batch, across=across)
    assert sorted(found) == expected
    assert not left
    [index] = loader.view().run.indexes
    assert index.num_tokens == sum(map(len, expected))
    assert index.num_padding_tokens == padding


def check_labels(batch: Any, *, across: bool) -> None:
    """Labels are of HF's kind: at their own token; no other document's first one."""
    ids, labels = batch["input_ids"], batch["labels"]
    told = labels != IGNORED
    assert (labels[told] == ids[told]).all()
    if not across:
        assert not told[ids == BOS].any()


def test_a_bos_is_needed():
    with pytest.raises(InvalidArgumentError, match="repeat_bos needs a bos"):
        pf.Packed(8, repeat_bos=True)
    with pytest.raises(InvalidArgumentError, match="length=1"):
        pf.Packed(1, bos=1, repeat_bos=True)
    with pytest.raises(InvalidArgumentError, match="repeat_bos=1"):
        pf.Packed(8, bos=1, repeat_bos=1)  # type: ignore[arg-type]
