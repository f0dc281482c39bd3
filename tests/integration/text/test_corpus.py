"""Packing of real text: hardly any padding, and hardly a document split."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import pagefeed as pf
from made.shared_data import shared
from pagefeed.reports import forecast

EVERY = 20
EOS = 0


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory):
    """Every twentieth document of the longer half of the corpus, tokenized."""
    tokenizer = Tokenizer.from_file(str(shared("data", "corpus", "tokenizer.json")))
    table = pq.read_table(
        shared("data", "corpus", "slice-01.parquet"), columns=["text"]
    )
    texts = table["text"].to_pylist()[::EVERY]
    rows = [
        encoding.ids
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]
    path = tmp_path_factory.mktemp("corpus") / "tokens.parquet"
    tokens = pa.array(rows, pa.list_(pa.int32()))
    pq.write_table(pa.table({"input_ids": tokens}), path, data_page_size=1 << 16)
    return path, rows


@pytest.mark.parametrize("length", [2048, 8192])
def test_padding_and_splits_are_few(tokenized, length):
    path, rows = tokenized
    loader = pf.Loader(
        pf.parquet(path, column="input_ids"),
        sequences=pf.Packed(length, eos=EOS),
        batch_size=1,
        rank=0,
        world_size=1,
    )
    num_tokens = sum(len(row) + 1 for row in rows)
    assert not isinstance(loader.dataset, pf.Mixture)
    sequences = pf.Packed(length, eos=EOS).index(loader.dataset.spans)
    num_blocks = len(sequences)
    assert num_blocks >= 1
    delivered = np.concatenate([batch["input_ids"][0] for batch in loader])
    stats = loader.stats()
    assert len(delivered) == stats["tokens"]
    # Of real tokens each is there; zeros are padding and the ends of documents.
    expected = np.bincount(np.concatenate(rows), minlength=1 << 15)
    found = np.bincount(delivered, minlength=1 << 15)
    assert np.array_equal(found[1:], expected[1:])
    padding = stats["tokens"] - num_tokens
    assert stats["padding_tokens"] == padding == loader.num_padding_tokens
    assert padding <= 0.005 * stats["tokens"]
    plan = forecast(loader)
    assert (plan.padding_tokens, plan.sequences) == (padding, loader.num_sequences)
    split = []
    for block in range(num_blocks):
        packing = sequences.packing(block)
        tokens = np.bincount(packing.row, weights=packing.num_tokens)
        is_short = (tokens <= length) & (np.bincount(packing.row) > 1)
        split.append(int(is_short.sum()))
    assert max(split) <= 1, split
