"""Infilled documents are what a plain model says, however they are cut and dealt."""

import atexit
import functools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.documents import PADDING, lines_of, make_documents
from made.shuffles import PAGES, SHUFFLES
from models.infill_model import (
    cut,
    infilled,
    inverted,
    is_chosen,
    within_parts,
)
from pagefeed.core.sequences.packed import pack_lengths
from pagefeed.infilling.infill import infilling_of
from scaled import scaled

NUM_DOCUMENTS = 90
MARKERS: dict[str, Any] = {"prefix": 900_001, "middle": 900_002, "suffix": 900_003}
FILLING = -7


@functools.cache
def folder() -> Path:
    path = tempfile.TemporaryDirectory(prefix="pagefeed-infill-")
    atexit.register(path.cleanup)
    return Path(path.name)


@functools.cache
def documents() -> list[list[int]]:
    return [tokens or [] for tokens in make_documents(7, NUM_DOCUMENTS, 400)]


@functools.cache
def parquet() -> pf.dataset.ParquetDataset:
    """The documents with their numbers, their tokens negated, and spans of them."""
    for number, part in enumerate(np.array_split(np.arange(NUM_DOCUMENTS), 3)):
        rows = [documents()[row] for row in part]
        table = {
            "input_ids": pa.array(rows, pa.list_(pa.int32())),
            "negated": pa.array(
                [[-token for token in row] for row in rows], pa.list_(pa.int64())
            ),
            "id": pa.array(part),
        }
        path = folder() / f"part-{number}.parquet"
        pages: dict[str, Any] = {"data_page_size": 300, "write_batch_size": 3}
        pq.write_table(pa.table(table), path, row_group_size=17, **pages)
    return pf.parquet(
        sorted(folder().glob("*.parquet")),
        column="input_ids",
        aligned={"negated": FILLING},
        metadata=["id"],
    )


INFILLS = st.builds(
    pf.Infill,
    prefix=st.just(MARKERS["prefix"]),
    middle=st.just(MARKERS["middle"]),
    suffix=st.just(MARKERS["suffix"]),
    end=st.sampled_from([None, 900_004]),
    rate=st.sampled_from([1.0, 0.5, 0.1]),
    spm=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(-3, 3),
)
EPOCHS = st.integers(0, 3)
TOKENS = st.sampled_from([None, 5])


def loader_of(dataset: Any, sequences: Any, **options: Any) -> pf.Loader:
    wanted: dict[str, Any] = {
        "batch_size": 4,
        "seed": 3,
        "shuffle": None,
        "drop_last": False,
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
        "fields": ("input_ids", "labels", "metadata", "position_ids", "document_ids"),
    }
    return pf.Loader(dataset, sequences=sequences, **wanted | options)


def rows_of(loader: pf.Loader, epoch: int) -> dict[str, list[Any]]:
    """All rows of an epoch by field, and the parts of documents in each."""
    loader.set_epoch(epoch)
    found: dict[str, list[Any]] = {}
    for batch in loader:
        before = len(found.get("input_ids", []))
        for name, values in batch.items():
            if name == "metadata":
                parts = found.setdefault(name, [])
                for part in values.to_pylist():
                    parts.append({**part, "sequence": part["sequence"] + before})
            else:
                found.setdefault(name, []).extend(values.tolist())
    return {
        name: rows if name == "metadata" else rows[: loader.num_sequences]
        for name, rows in found.items()
    }


def check_parts(found: dict[str, list[Any]]) -> None:
    """Aligned numbers and metadata belong to their tokens, and tell of all of these."""
    seen: set[int] = set()
    for tokens, negated in zip(found["input_ids"], found["negated"], strict=True):
        for token, number in zip(tokens, negated, strict=True):
            assert number == (-token if 10 <= token < 900_000 else FILLING)
    for part in found["metadata"]:
        document = documents()[part["id"]]
        row = found["input_ids"][part["sequence"]]
        tokens = row[part["start"] : part["stop"]]
        first = part["first_token"]
        assert tokens == document[first : first + len(tokens)]
        assert not seen.intersection(tokens)
        seen.update(tokens)
    assert seen == {token for tokens in documents() for token in tokens}


def check_origins(loader: pf.Loader, found: dict[str, list[Any]]) -> None:
    """What `locate` says of each row leads to the tokens that it holds."""
    files = {
        str(path): pq.read_table(path)["input_ids"].to_pylist()
        for path in sorted(folder().glob("*.parquet"))
    }
    for number, row in enumerate(found["input_ids"]):
        if number % 5:
            continue
        own = {place for place, token in enumerate(row) if 10 <= token < 900_000}
        for origin in loader.locate(number // 4, number % 4):
            document = files[origin.file][origin.row] or []
            first, count = origin.first_token, origin.num_tokens
            held = row[origin.offset : origin.offset + count]
            assert held == document[first : first + count]
            own -= {*range(origin.offset, origin.offset + count)}
        assert not own


@settings(deadline=None, max_examples=scaled(12))
@given(infill=INFILLS, epoch=EPOCHS, length=st.integers(3, 90), bos=TOKENS, eos=TOKENS)
def test_windows_hold_the_line_of_the_model(
    infill: pf.Infill, epoch: int, length: int, bos: int | None, eos: int | None
) -> None:
    rows: list[list[int] | None] = [
        infilled(infill, *each) for each in _numbered(epoch)
    ]
    line = [token for row in lines_of(rows, bos, eos) for token in row]
    windows = pf.Windows(length, bos=bos, eos=eos)
    loader = loader_of(parquet().infill(infill), windows)
    line += [PADDING] * (-len(line) % length)
    found = rows_of(loader, epoch)
    assert [token for row in found["input_ids"] for token in row] == line
    for tokens, labels in zip(found["input_ids"], found["labels"], strict=True):
        pairs = zip(tokens, labels, strict=True)
        assert all(label in (token, -100) for token, label in pairs)
    check_parts(found)


def _numbered(epoch: int) -> list[tuple[int, int, list[int]]]:
    return [(number, epoch, tokens) for number, tokens in enumerate(documents())]


@settings(deadline=None, max_examples=scaled(12))
@given(
    infill=INFILLS,
    epoch=EPOCHS,
    length=st.integers(30, 90),
    bos=TOKENS,
    eos=TOKENS,
    split=st.sampled_from(["long", "never"]),
    within=st.sampled_from(["document", "sequence"]),
)
def test_packed_sequences_hold_the_rows_of_the_model(
    infill: pf.Infill,
    epoch: int,
    length: int,
    bos: int | None,
    eos: int | None,
    split: Any,
    within: Any,
) -> None:
    infill = pf.Infill(**{**_settings(infill), "within": within})
    packed = pf.Packed(length, bos=bos, eos=eos, split=split)
    loader = loader_of(parquet().infill(infill), packed)
    found = rows_of(loader, epoch)
    # The whole dataset is one block.
    added = len(infill.tokens)
    lengths = [
        len(tokens) + added * is_chosen(infill, number)
        for number, tokens in enumerate(documents())
    ]
    per_row = (bos is not None) + (eos is not None)
    pieces = pack_lengths(np.array(lengths) + per_row, length, packed.layout)
    rows = [*_numbered(epoch)]
    if within == "document":
        held = [infilled(infill, *each) for each in rows]
    else:
        held = [
            within_parts(infill, *each, _parts(pieces, each[0], bos, lengths))
            for each in rows
        ]
    lines = lines_of([*held], bos, eos)
    expected = [[PADDING] * length for _ in range(loader.num_sequences)]
    columns = pieces.sequence, pieces.row, pieces.first_token, pieces.num_tokens
    for sequence, row, first, count, offset in zip(
        *columns, pieces.offset, strict=True
    ):
        expected[sequence][offset : offset + count] = lines[row][first : first + count]
    assert found["input_ids"] == expected
    check_parts(found)
    loader.set_epoch(epoch)
    check_origins(loader, found)


def _settings(infill: pf.Infill) -> dict[str, Any]:
    names = ("prefix", "middle", "suffix", "end", "rate", "spm", "seed")
    return {name: getattr(infill, name) for name in names}


def _parts(pieces: Any, row: int, bos: int | None, lengths: list[int]) -> list[range]:
    """What sequences hold of a row, separators not counted."""
    here = np.flatnonzero(pieces.row == row)
    here = here[np.argsort(pieces.first_token[here])]
    begin = pieces.first_token[here] - (bos is not None)
    end = begin + pieces.num_tokens[here]
    return [
        range(*np.clip(part, 0, lengths[row])) for part in zip(begin, end, strict=True)
    ]


@settings(deadline=None, max_examples=scaled(15))
@given(infill=INFILLS, epoch=EPOCHS, most=st.integers(1, 500))
def test_documents_are_those_of_the_model(
    infill: pf.Infill, epoch: int, most: int
) -> None:
    dataset = parquet().infill(infill)
    fields = ("input_ids", "labels")
    loader = loader_of(dataset, pf.Documents(max_length=most), fields=fields)
    expected = [infilled(infill, *each)[:most] for each in _numbered(epoch)]
    loader.set_epoch(epoch)
    rows, numbers = [], []
    for batch in loader:
        both = batch["input_ids"].tolist(), batch["negated"].tolist()
        for tokens, negated, count in zip(*both, batch["lengths"], strict=True):
            rows.append(tokens[:count])
            numbers.append(negated[:count])
    assert rows[:NUM_DOCUMENTS] == expected
    for tokens, negated in zip(rows, numbers, strict=True):
        pairs = zip(tokens, negated, strict=True)
        assert all(n == (-t if t < 900_000 else FILLING) for t, n in pairs)
    shown = [(row["input_ids"] or [], row["negated"] or []) for row in dataset]
    assert [row[0] for row in shown] == [
        infilled(infill, number, 0, tokens) for number, tokens in enumerate(documents())
    ]
    assert all(len(tokens) == len(negated) for tokens, negated in shown)


@settings(deadline=None, max_examples=scaled(12))
@given(infill=INFILLS, epoch=EPOCHS)
def test_the_inverse_of_every_row_is_its_document(
    infill: pf.Infill, epoch: int
) -> None:
    for number, _, tokens in _numbered(epoch):
        assert inverted(infill, infilled(infill, number, epoch, tokens)) == tokens


@settings(deadline=None, max_examples=scaled(12))
@given(
    infill=INFILLS,
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    later=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    sequences=st.sampled_from([pf.Packed(64, eos=1), pf.Windows(64, eos=1)]),
    steps=st.integers(1, 8),
)
def test_a_state_goes_on_at_any_world_size(
    infill: pf.Infill,
    sizes: tuple[int, int],
    later: tuple[int, int],
    sequences: Any,
    steps: int,
) -> None:
    dataset = parquet().infill(infill)

    def loaders(batch_size: int, world_size: int) -> list[pf.Loader]:
        options: dict[str, Any] = {"batch_size": batch_size, "world_size": world_size}
        options |= {"epochs": 2, "shuffle": "page"}
        return [
            loader_of(dataset, sequences, **options, rank=rank)
            for rank in range(world_size)
        ]

    def rows(turn: Any) -> list[list[int]]:
        per_rank = [batch["input_ids"].tolist() for batch in turn]
        found = [row for rank in zip(*per_rank, strict=True) for row in rank]
        return [row for row in found if any(row)]

    [alone] = loaders(1, 1)
    expected = [row for batch in alone for row in rows([batch])]
    before = loaders(*sizes)
    turns = zip(*before, strict=True)
    found = [row for _ in range(steps) for row in rows(next(turns, []))]
    after = loaders(*later)
    for loader in after:
        loader.load_state_dict(json.loads(json.dumps(before[0].state_dict())))
    if len(found) < len(expected):
        found += [row for turn in zip(*after, strict=True) for row in rows(turn)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_shuffle_delivers_every_token_once(shuffle: Any) -> None:
    infill = pf.Infill(**MARKERS)
    dataset = parquet().infill(infill)
    passes = replace(shuffle, passes=2) if shuffle == PAGES else shuffle
    for sequences in (pf.Windows(50, eos=1), pf.Packed(50, eos=1)):
        loader = loader_of(dataset, sequences, shuffle=passes)
        for epoch in (0, 1):
            found = rows_of(loader, epoch)
            tokens = [token for row in found["input_ids"] for token in row]
            own = sorted(token for token in tokens if 10 <= token < 900_000)
            assert own == sorted(token for row in documents() for token in row)
            check_parts(found)


def test_cuts_are_uniform_and_shares_are_those_asked_for() -> None:
    """At five standard deviations, and of two epochs as of two documents."""
    count, length = 20_000, 99
    infill = pf.Infill(**MARKERS, rate=0.3, spm=0.8)
    chosen = [number for number in range(count) if is_chosen(infill, number)]
    assert abs(len(chosen) - 0.3 * count) < 5 * (0.21 * count) ** 0.5
    borders = np.arange(count + 1)
    counts = np.frombuffer(infilling_of(infill).num_chosen(borders), np.int64)
    assert np.flatnonzero(counts).tolist() == chosen
    cuts = [cut(infill, number, 0, length) for number in chosen]
    again = [cut(infill, number, 1, length) for number in chosen]
    num = len(chosen)
    for found in (cuts, again):
        assert (
            abs(sum(each.is_spm for each in found) - 0.8 * num)
            < 5 * (0.16 * num) ** 0.5
        )
        # Of two places out of 100, each of the hundred with equal chance.
        places = np.bincount(
            [place for each in found for place in (each.first, each.second)],
            minlength=length + 1,
        )
        mean = 2 * num / (length + 1)
        assert ((places - mean) ** 2 / mean).sum() < length + 5 * (2 * length) ** 0.5
        middles = [each.second - each.first for each in found]
        assert abs(np.mean(middles) - length / 3) < 5 * length / 4 / num**0.5
    same = sum(a[:2] == b[:2] for a, b in zip(cuts, again, strict=True))
    assert same < 20  # Of 6,000 pairs of 5,000 cuts.
    pairs = np.array([[a.first, b.first] for a, b in zip(cuts, again, strict=True)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / num**0.5
