"""Packing keeps its promises whatever the lengths are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagefeed.core.sequences.packed import pack_lengths
from pagefeed.core.sequences.sequence_index import SequenceLayout

METHODS = ("best_fit", "first_fit", "greedy")
LENGTHS = {
    "equal": lambda length, rng: np.full(150, rng.integers(1, 2 * length + 1)),
    "longer": lambda length, rng: rng.integers(length + 1, 6 * length + 2, 40),
    "just over half": lambda length, _: np.full(301, length // 2 + 1),
    "power law": lambda length, rng: (rng.pareto(0.9, 400) * length / 20).astype(int),
    "mixed": lambda length, rng: rng.integers(0, 2 * length + 1, 100),
}


def check(lengths, length, layout):
    """Every token once, in sequences that are filled from their start."""
    packed = pack_lengths(lengths, length, layout)
    filled: dict[int, int] = {}
    for sequence, count, offset in zip(
        packed.sequence.tolist(),
        packed.num_tokens.tolist(),
        packed.offset.tolist(),
        strict=True,
    ):
        assert offset == filled.get(sequence, 0)
        assert count > 0
        filled[sequence] = offset + count
    assert max(filled.values(), default=0) <= length
    assert sorted(filled) == list(range(len(filled)))
    order = np.lexsort((packed.first_token, packed.row))
    first, count = packed.first_token[order], packed.num_tokens[order]
    goes_on = np.diff(packed.row[order], prepend=-1) == 0
    assert np.array_equal(first[1:][goes_on[1:]], (first + count)[:-1][goes_on[1:]])
    assert not first[~goes_on].any()
    tokens = np.bincount(packed.row, packed.num_tokens, minlength=len(lengths))
    assert tokens.tolist() == list(lengths)
    pieces = np.bincount(packed.row, minlength=len(lengths))
    num_split = int(((pieces > 1) & (np.asarray(lengths) <= length)).sum())
    return len(filled), num_split


@given(
    lengths=st.lists(st.integers(0, 60), max_size=80),
    length=st.integers(1, 40),
    method=st.sampled_from(METHODS),
)
def test_any_lengths(lengths, length, method):
    num_sequences, _ = check(lengths, length, SequenceLayout(packing=method))
    assert num_sequences == -(-sum(lengths) // length)
    num_sequences, num_split = check(
        lengths, length, SequenceLayout(packing=method, never_split=True)
    )
    assert num_split == 0
    assert num_sequences >= -(-sum(lengths) // length)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LENGTHS)
def test_adversarial_lengths(name, method):
    rng = np.random.default_rng(3)
    for length in (2, 3, 64, 1000, 2048):
        lengths = LENGTHS[name](length, rng).tolist()
        num_sequences, _ = check(lengths, length, SequenceLayout(packing=method))
        assert num_sequences == -(-sum(lengths) // length)


def test_best_fit_splits_at_most_one_where_documents_vary():
    rng = np.random.default_rng(5)
    for length in (2048, 8192):
        for _ in range(30):
            lengths = rng.lognormal(6, 1.2, 128 * length // 500).astype(int) + 1
            _, num_split = check(
                lengths.tolist(), length, SequenceLayout(packing="best_fit")
            )
            assert num_split <= 1


def test_an_impossible_length_is_refused():
    with pytest.raises(ValueError, match="no document"):
        pack_lengths([1], 0, SequenceLayout(packing="best_fit"))
    with pytest.raises(ValueError, match="one of best_fit"):
        pack_lengths([1], 1, SequenceLayout(packing="worst_fit"))
