"""Where a sequence is delivered says nothing of what it holds, from first to last."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.flat_files import write_megatron
from made.shuffles import BUFFER, PAGES
from scaled import scaled

LENGTH = 256
DOCUMENTS = pf.Documents([], max_length=LENGTH)
FLAT = pf.Documents([], max_length=LENGTH, pad=None)
SETTINGS = {
    "best fit": {"sequences": pf.Packed(LENGTH)},
    "never split": {"sequences": pf.Packed(LENGTH, split="never")},
    "first fit": {"sequences": pf.Packed(LENGTH, method="first_fit")},
    "greedy": {"sequences": pf.Packed(LENGTH, method="greedy")},
    "windows": {"sequences": pf.Windows(LENGTH)},
    "documents": {"sequences": DOCUMENTS},
    "padded batches": {"sequences": DOCUMENTS, "batch_tokens": 4 * LENGTH},
    "flat batches": {"sequences": FLAT, "batch_tokens": 4 * LENGTH},
    "balanced": {"sequences": pf.Packed(LENGTH), "balance": "attention"},
}
SIGMAS = 5
"""Of a million checks less than one fails by chance."""


def ranks(values):
    """Their ranks; equal ones have the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def delivered(data, shuffle, seed, options):
    """Documents of each sequence, or their mean length, as they are delivered."""
    is_documents = isinstance(options["sequences"], pf.Documents)
    loader = pf.Loader(
        data,
        shuffle=shuffle,
        seed=seed,
        rank=0,
        world_size=1,
        drop_last=False,
        fields=("input_ids",) if is_documents else ("input_ids", "document_ids"),
        **{"batch_size": None if "batch_tokens" in options else 1} | options,
    )
    if is_documents:
        return np.array([batch["lengths"].mean() for batch in loader])
    return np.array([int(batch["document_ids"].max()) for batch in loader])


@pytest.mark.parametrize("shuffle", ["page", PAGES, BUFFER])
@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=scaled(4), deadline=None)
@given(seed=st.integers(0, 1 << 30), num_documents=st.sampled_from([700, 7000]))
def test_position_and_contents_do_not_correlate(name, shuffle, seed, num_documents):
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(3.5, 1.2, num_documents).astype(int) + 1
    with tempfile.TemporaryDirectory() as folder:
        write_megatron(Path(folder) / "made", [range(n % 999) for n in lengths])
        data = pf.megatron(Path(folder) / "made")
        found = delivered(data, shuffle, seed, SETTINGS[name])
    rank = ranks(found)
    place = np.arange(len(rank))
    assert abs(np.corrcoef(rank, place)[0, 1]) < SIGMAS / np.sqrt(len(rank))
    few = max(len(rank) // 20, 5)
    for part in (rank[:few], rank[-few:]):
        assert abs(part.mean() - rank.mean()) < SIGMAS * rank.std() / np.sqrt(few)
