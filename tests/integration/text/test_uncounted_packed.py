"""Texts without counts, packed: each block when it is encoded, once in a pass."""

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.streamed import EOS, ROWS, make_text, open_loader, write_texts
from models.field_model import assert_model
from scaled import scaled

LENGTH, BOS, PADDING = 48, 300, 299
ALL = Counter((make_text(row) or "").encode() for row in range(ROWS))
CUTS = [
    pf.Packed(LENGTH, eos=EOS),
    pf.Packed(LENGTH, eos=EOS, method="greedy"),
    pf.Packed(LENGTH, eos=EOS, split="never"),
    pf.Packed(12, bos=BOS, eos=EOS, repeat_bos=True),
]


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    write_texts(path)
    return pf.parquet(path, column="text")


def loader_of(stream: Any, rank: int = 0, world_size: int = 1, **given: Any) -> Any:
    return open_loader(
        stream, rank, world_size, **{"sequences": CUTS[0], "padding": PADDING} | given
    )


def pieces(batch: Any) -> list[tuple[int, ...]]:
    """The documents in rows, and what was cut off of long ones."""
    found = []
    for row, ids in zip(batch["input_ids"], batch["document_ids"], strict=True):
        numbers = np.unique(ids[row != PADDING])
        found += [tuple(row[(ids == n) & (row != PADDING)].tolist()) for n in numbers]
    return found


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_every_token_comes_once_in_a_pass(stream, cut):
    fields = ("input_ids", "document_ids")
    loader = loader_of(stream, sequences=cut, epochs=1, fields=fields)
    found = [piece for batch in loader for piece in pieces(batch)]
    tokens = Counter(token for piece in found for token in piece if token != BOS)
    once = Counter(byte for text in ALL.elements() for byte in text)
    assert tokens == once + Counter({EOS: ROWS})
    if cut.layout.never_split:
        texts = Counter(bytes(t for t in piece if t < 256) for piece in found)
        whole = [t for t in ALL if len(t) + cut.layout.per_row <= cut.length]
        assert len(whole) > 10
        assert all(texts[text] >= ALL[text] for text in whole)
    if cut.repeat_bos:
        assert all(piece[0] == BOS for piece in found)


def test_a_lane_has_each_document_of_a_pass_once(stream):
    """Lane by lane: sequences of a pass hold its rows, and no others."""
    loader = loader_of(stream, fields=("input_ids", "document_ids"), shuffle=None)
    session = loader.view()
    passes, reader = session._passes, session._reader
    found: dict[int, list[tuple[int, ...]]] = {}
    before = session._state.lanes
    for batch in loader:
        after = session._state.lanes
        moved = [lane for lane in after if after[lane] > before[lane]]
        lane = max(moved, key=lambda lane: any(after[lane][1:]))
        if before[lane].epoch == 0:
            found.setdefault(lane, []).extend(pieces(batch))
        before = after
        if min(position.epoch for position in after.values()):
            break
    for lane in before:
        parts = [passes.row_range(lane, 0, n) for n in range(passes.length(lane, 0))]
        tokens = np.concatenate([reader.read(passes, part, 0).tokens for part in parts])
        here = [token for piece in found.get(lane, []) for token in piece]
        assert Counter(here) == Counter(tokens.tolist())


@settings(max_examples=scaled(10))
@given(
    before=st.integers(1, 4),
    after=st.integers(1, 6),
    steps=st.integers(0, 60),
    cut=st.sampled_from(CUTS),
)
def test_any_number_of_ranks_goes_on_exactly(stream, before, after, steps, cut):
    first = [loader_of(stream, rank, before, sequences=cut) for rank in range(before)]
    for loader in first:
        [*itertools.islice(loader, steps)]
    states = json.loads(json.dumps([loader.state_dict() for loader in first]))

    def by_lane(loaders: list[Any], count: int) -> dict[int, list[Any]]:
        rows: dict[int, list[Any]] = {}
        for loader in loaders:
            was = loader.view()._state.lanes
            for batch in itertools.islice(loader, count):
                now = loader.view()._state.lanes
                moved = [lane for lane in now if now[lane] > was[lane]]
                lane = max(moved, key=lambda lane: any(now[lane][1:]))
                rows.setdefault(lane, []).append(batch["input_ids"][0].tolist())
                was = now
        return rows

    going = by_lane(first, 20 * after)
    again = [loader_of(stream, rank, after, sequences=cut) for rank in range(after)]
    for loader in again:
        loader.load_state_dict(states)
        assert loader.step == steps
    for lane, rows in by_lane(again, 20).items():
        common = min(len(rows), len(going.get(lane, [])))
        assert rows[:common] == going.get(lane, [])[:common]


@pytest.mark.parametrize("shifted", [False, True])
def test_fields_are_those_of_packed_documents(stream, shifted):
    names = ("input_ids", "labels", "position_ids", "document_ids", "attention_mask")
    fields = pf.Fields(names=names, shifted=shifted)
    loader = loader_of(stream, batch_size=3, fields=fields)
    for batch in itertools.islice(loader, 40):
        parts = []
        for row, ids in enumerate(batch["document_ids"]):
            is_own = batch["input_ids"][row] != PADDING
            borders = [0, *(np.flatnonzero(np.diff(ids[is_own])) + 1), is_own.sum()]
            assert is_own[: borders[-1]].all()
            parts += [(row, a, b - a) for a, b in itertools.pairwise(borders) if b > a]
        assert_model(batch, parts, shifted=shifted, across=False)


def test_padding_is_counted(stream):
    loader = loader_of(stream, batch_size=4)
    batches = [batch["input_ids"] for batch in itertools.islice(loader, 30)]
    stats, ids = loader.stats(), np.concatenate(batches)
    assert stats["padding_tokens"] == (ids == PADDING).sum() > 0
    assert stats["tokens"] == ids.size
