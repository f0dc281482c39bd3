"""Packed sequences of real files: every document is there, whole and in order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.documents import EOS, PADDING, loader_of, sequences_of
from made.numbered import write_numbered
from made.shuffles import SHUFFLES
from pagefeed.core.sequences.packed import PackedIndex

FIRST = 10  # tokens below are separators and padding
METHODS = ["best_fit", "first_fit", "greedy"]


def documents_in(folder: Path) -> list[range]:
    """The tokens of every document, empty ones included: they count up."""
    rows = [
        row
        for path in sorted(folder.glob("**/*.parquet"))
        for row in pq.read_table(path)["input_ids"].to_pylist()
    ]
    return [range(row[0], row[-1] + 1) if row else range(0) for row in rows]


def pieces_of(sequence: list[int]) -> list[list[int]]:
    """A sequence cut where tokens stop counting up; separators stand alone."""
    tokens = np.array(sequence)
    used = int((tokens != PADDING).sum())
    assert (tokens[:used] != PADDING).all(), "padding is at the end"
    goes_on = (np.diff(tokens[:used]) == 1) & (tokens[1:used] > FIRST)
    cuts = np.flatnonzero(~goes_on) + 1
    return [piece.tolist() for piece in np.split(tokens[:used], cuts)]


def check_documents(sequences: list[list[int]], documents: list[range]) -> int:
    """Every document once: its pieces make it up, and there is a separator for each.

    Args:
        sequences: Packed sequences.
        documents: What they are made of.

    Returns:
        Documents whose separator does not follow them, as they were split there.
    """
    ends = {document[-1] for document in documents if document}
    starts = np.array(sorted(document[0] for document in documents if document))
    found: dict[int, list[list[int]]] = {int(first): [] for first in starts}
    num_separators = num_apart = 0
    for sequence in sequences:
        pieces, here = pieces_of(sequence), set()
        for piece, following in zip(pieces, [*pieces[1:], []], strict=True):
            if piece == [EOS]:
                num_separators += 1
                continue
            num_apart += piece[-1] in ends and following != [EOS]
            first = int(starts[np.searchsorted(starts, piece[0], side="right") - 1])
            assert first not in here, "a document's tokens follow one another"
            here.add(first)
            found[first].append(piece)
    for document in filter(None, documents):
        pieces = sorted(found[document[0]])
        assert [token for piece in pieces for token in piece] == list(document)
    assert num_separators == len(documents)
    return num_apart


@pytest.fixture(scope="module")
def numbered(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("numbered")
    write_numbered(folder, first_token=FIRST)
    return folder


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("length", [7, 40, 500])
@pytest.mark.parametrize("method", METHODS)
def test_every_document_is_whole(numbered, method, length, shuffle):
    packed = pf.Packed(length, eos=EOS, method=method)
    sequences = sequences_of(loader_of(numbered, packed, shuffle=shuffle))
    documents = documents_in(numbered)
    num_apart = check_documents(sequences, documents)
    assert num_apart < len(documents) / 4


@pytest.mark.parametrize("method", METHODS)
def test_no_document_is_split_that_fits(numbered, method):
    packed = pf.Packed(64, eos=EOS, method=method, split="never")
    sequences = sequences_of(loader_of(numbered, packed, shuffle="page"))
    documents = documents_in(numbered)
    assert check_documents(sequences, documents) == 0
    whole = {tuple(piece) for sequence in sequences for piece in pieces_of(sequence)}
    assert whole == {tuple(document) for document in documents if document} | {(EOS,)}


def test_lengths_are_read_once_for_all_processes(numbered, tmp_path, monkeypatch):
    packed = pf.Packed(8, eos=EOS, split="never")
    cached = pf.parquet(numbered, column="input_ids", cache_dir=tmp_path)
    alone = packed.index(pf.parquet(numbered, column="input_ids").spans)
    first = packed.index(cached.spans)
    assert len(list(tmp_path.glob("packed-*"))) == 1
    monkeypatch.setattr(PackedIndex, "lengths", None)  # Not read again.
    again = packed.index(cached.spans)
    for sequences in (first, again):
        assert sequences.num_sequences == alone.num_sequences
        assert np.array_equal(sequences._first_sequence, alone._first_sequence)
    for other in (pf.Packed(9, eos=EOS, split="never"), replace(packed, eos=None)):
        with pytest.raises(TypeError):
            other.index(cached.spans)


@pytest.mark.parametrize("change", ["lose", "repeat", "swap", "separator"])
def test_the_check_sees_what_is_wrong(numbered, change):
    packed = pf.Packed(40, eos=EOS)
    sequences = sequences_of(loader_of(numbered, packed))
    sequence = next(one for one in sequences if EOS in one[5:-1] and EOS not in one[:2])
    if change == "lose":
        sequences.remove(sequence)
    elif change == "repeat":
        sequences.append(sequence)
    elif change == "swap":
        sequence[:2] = sequence[1::-1]
    else:
        sequence.remove(EOS)
    with pytest.raises(AssertionError):
        check_documents(sequences, documents_in(numbered))


def mixture_of(folder: Path, **options: Any) -> pf.Mixture:
    """Datasets of different sizes, each delivered once."""
    weights = {"code": 0.5, "math": 0.1, "web": 0.4}
    parts = {
        name: (pf.parquet(folder / name, column="input_ids"), weight)
        for name, weight in weights.items()
    }
    return pf.mix(parts, max_epochs=dict.fromkeys(weights, 1), **options)


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("mixed")
    for number, (name, rows) in enumerate(
        {"code": 200, "math": 30, "web": 300}.items()
    ):
        (folder / name).mkdir()
        first = FIRST + number * 10**6
        write_numbered(folder / name, num_rows=rows, first_token=first)
    return folder


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_a_mixture_has_every_packed_document_once(mixed_folder, method, world_size):
    stages = [
        pf.Stage(start_step=20, weights={"web": 1, "math": 1}, anneal=10),
        pf.Stage(start_step=40, weights={"code": 1, "math": 1, "web": 1}),
    ]
    sequences: list[list[int]] = []
    for rank in range(world_size):
        loader = pf.Loader(
            mixture_of(mixed_folder, stages=stages),
            sequences=pf.Packed(40, eos=EOS, method=method),
            batch_size=4,
            seed=3,
            memory="8MiB",
            num_threads=2,
            padding=PADDING,
            drop_last=False,
            rank=rank,
            world_size=world_size,
        )
        sequences += sequences_of(loader)
    assert len(sequences) == loader.num_sequences
    check_documents(sequences, documents_in(mixed_folder))


def test_only_the_length_is_given_without_a_name():
    with pytest.raises(TypeError, match="positional"):
        pf.Packed(8, EOS)  # type: ignore[call-arg]
