"""Fields of real batches, and models that attend inside documents only."""

import itertools
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import pagefeed as pf
from made.documents import (
    EOS,
    PADDING,
    lines_of,
    loader_of,
    make_documents,
    write_documents,
)
from pagefeed.core._base import FIELDS
from pagefeed.core.batches import FieldName
from pagefeed.errors import InvalidArgumentError
from pagefeed.torch import check_isolation, flex_mask, sdpa_mask, varlen_arguments

LENGTH = 48
# Beside that one the borders do not count padding.
MADE: Any = tuple(name for name in FIELDS if name != "cu_seqlens_padded")
SEQUENCES = [
    pf.Windows(LENGTH, eos=EOS),
    pf.Windows(LENGTH, overlap=7),
    pf.Packed(LENGTH, eos=EOS),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    documents = make_documents(5, 250, longest=300)
    write_documents(folder, documents, num_files=2)
    return folder, documents


@pytest.mark.parametrize("sequences", SEQUENCES, ids=str)
def test_segments_are_parts_of_documents(written, sequences):
    folder, documents = written
    of_token = {
        token: number
        for number, document in enumerate(documents)
        for token in document or []
    }
    loader = loader_of(folder, sequences, fields=MADE)
    for batch in loader:
        tokens, borders = batch["input_ids"].reshape(-1), batch["cu_seqlens"]
        positions = batch["position_ids"].reshape(-1)
        is_padding = ~batch["attention_mask"].reshape(-1)
        assert np.array_equal(is_padding, tokens == PADDING)
        for start, end in itertools.pairwise(borders):
            part = tokens[start:end]
            own = [of_token[token] for token in part.tolist() if token > EOS]
            assert len(set(own)) <= 1
            assert len({bool(flag) for flag in is_padding[start:end]}) == 1
            assert positions[start:end].tolist() == list(range(end - start))
            if own and sequences.eos and part[-1] != EOS:
                # Only the end of the sequence or a split may cut a document.
                assert len(part) + 1 <= len(documents[own[0]] or []) + 1
        assert batch["max_seqlen"] == np.diff(borders).max()
        ids = batch["document_ids"]
        changes = np.flatnonzero(np.diff(ids.reshape(-1)) != 0) + 1
        assert set(changes) <= set(borders.tolist())


def test_padded_rows_carry_no_loss(written):
    folder, _ = written
    loader = loader_of(folder, pf.Packed(LENGTH, eos=EOS), batch_size=7, fields=MADE)
    *_, last = loader
    assert loader.num_sequences % 7
    padded = last["input_ids"][loader.num_sequences % 7 :]
    assert (padded == PADDING).all()
    assert not last["loss_mask"][loader.num_sequences % 7 :].any()


def test_statistics_count_padding_and_splits(written):
    folder, documents = written
    loader = loader_of(folder, pf.Packed(LENGTH, eos=EOS), batch_size=1)
    rows = [batch["input_ids"][0] for batch in loader]
    stats = loader.stats()
    assert stats["padding_tokens"] == sum(int((row == PADDING).sum()) for row in rows)
    assert stats["padding_tokens"] == loader.num_padding_tokens
    held = [set(row.tolist()) - {EOS, PADDING} for row in rows]
    lines = [line for line in lines_of(documents, None, EOS) if 1 < len(line) <= LENGTH]
    pieces = [sum(bool(set(line[:-1]) & row) for row in held) for line in lines]
    # Where only the separator is split off, the document's own tokens do not tell.
    assert sum(pieces) - len(lines) <= stats["splits"] <= len(rows)


def shout(batch):
    """A transform that other processes can import."""
    batch["input_ids"] *= 2
    return {**batch, "is_loud": True}


def test_a_transform_gets_the_arrays_themselves(written):
    folder, _ = written
    seen = []

    def keep(batch):
        seen.append(batch)
        return batch

    options = {"sequences": pf.Windows(LENGTH), "fields": ("input_ids", "labels")}
    plain = list(loader_of(folder, **options))
    loader = loader_of(folder, **options, transform=keep)
    for batch in loader:
        assert batch is seen[-1]
        assert not batch["input_ids"].flags.owndata
    loud = pickle.loads(pickle.dumps(loader_of(folder, **options, transform=shout)))
    for before, after in zip(plain, loud, strict=True):
        assert after["is_loud"]
        assert np.array_equal(after["input_ids"], 2 * before["input_ids"])
        assert np.array_equal(after["labels"], before["labels"])


def small_batch(folder):
    loader = loader_of(
        folder, pf.Packed(LENGTH, eos=EOS), fields=FIELDS, format="torch", batch_size=2
    )
    return next(batch for batch in loader if batch["document_ids"].max() > 0)


def varlen_attention(batch):
    """What FlashAttention computes from the same arguments, by loops."""
    arguments = varlen_arguments(batch)
    borders = arguments["cu_seqlens_q"].tolist()

    def attend(query, key, value):
        rows, heads, length, width = query.shape
        flat = [
            part.transpose(1, 2).reshape(rows * length, heads, width)
            for part in (query, key, value)
        ]
        outs = []
        for start, end in itertools.pairwise(borders):
            assert end - start <= arguments["max_seqlen_q"]
            one, two, three = (part[None, start:end].transpose(1, 2) for part in flat)
            out = scaled_dot_product_attention(one, two, three, is_causal=True)
            outs.append(out.transpose(1, 2)[0])
        joined = torch.cat(outs).reshape(rows, length, heads, width)
        return joined.transpose(1, 2)

    return attend


def test_borders_that_do_not_end_with_the_tokens_are_refused(written):
    batch = small_batch(written[0])
    with pytest.raises(InvalidArgumentError, match="context_parallel"):
        varlen_arguments({**batch, "input_ids": batch["input_ids"][:, :8]})
    loader = loader_of(
        written[0],
        pf.Packed(LENGTH, multiple_of=4),
        fields=("input_ids", "cu_seqlens", "cu_seqlens_padded", "max_seqlen"),
        format="torch",
        batch_size=2,
    )
    is_short = (b for b in loader if b["cu_seqlens"][-1] < b["input_ids"].numel())
    with pytest.raises(InvalidArgumentError, match="cu_seqlens_padded"):
        varlen_arguments(next(is_short))


def test_attention_stays_inside_documents(written):
    batch = small_batch(written[0])
    ids = batch["document_ids"]
    assert ids.max() > 0
    mask = sdpa_mask(ids)
    size: dict[str, Any] = {
        "B": len(ids),
        "H": 1,
        "Q_LEN": LENGTH,
        "KV_LEN": LENGTH,
        "device": "cpu",
    }
    assert torch.equal(create_mask(flex_mask(ids), **size), mask)

    def sdpa(query, key, value):
        return scaled_dot_product_attention(query, key, value, attn_mask=mask)

    for attend in (sdpa, varlen_attention(batch)):
        check_isolation(attend, batch)

    def leaks(query, key, value):
        return scaled_dot_product_attention(query, key, value, is_causal=True)

    def sees_itself_only(_query, _key, value):
        return value

    with pytest.raises(InvalidArgumentError, match="sees token"):
        check_isolation(leaks, batch)
    with pytest.raises(InvalidArgumentError, match="does not see"):
        check_isolation(sees_itself_only, batch)


class TinyModel(torch.nn.Module):
    """Two layers of attention and a perceptron, in double precision."""

    def __init__(self, num_tokens, width=32):
        super().__init__()
        self.tokens = torch.nn.Embedding(num_tokens, width)
        self.places = torch.nn.Embedding(512, width)
        self.inner = torch.nn.ModuleList(
            torch.nn.Linear(width, 3 * width) for _ in range(2)
        )
        self.outer = torch.nn.ModuleList(
            torch.nn.Linear(width, width) for _ in range(2)
        )
        self.head = torch.nn.Linear(width, num_tokens)
        self.double()

    def forward(self, input_ids, position_ids, mask):
        hidden = self.tokens(input_ids) + self.places(position_ids)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            query, key, value = (
                inner(hidden).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            )
            seen = scaled_dot_product_attention(query, key, value, attn_mask=mask)
            hidden = hidden + outer(seen.transpose(1, 2).flatten(2)).tanh()
        return self.head(hidden)


def loss_of(model, batch):
    """Sum of the losses, as Hugging Face models compute it from their labels."""
    mask = sdpa_mask(batch["document_ids"])
    logits = model(batch["input_ids"], batch["position_ids"], mask)
    return cross_entropy(
        logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), reduction="sum"
    )


def test_the_loss_is_that_of_the_documents_one_by_one(tmp_path):
    rng = np.random.default_rng(2)
    documents = [rng.integers(2, 50, count).tolist() for count in [5, 40, 1, 0] * 10]
    write_documents(tmp_path, [*documents], num_files=2)
    loader = loader_of(
        tmp_path,
        pf.Packed(64, eos=EOS, split="never"),
        fields=("input_ids", "labels", "position_ids", "document_ids", "loss_mask"),
        format="torch",
    )
    torch.manual_seed(0)
    model = TinyModel(50)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    lines = [torch.tensor(line) for line in lines_of([*documents], None, EOS)]
    num_losses = sum(len(line) - 1 for line in lines)
    losses = []
    for _ in range(3):
        batches = list(loader)  # Shuffled anew every time.
        assert sum(int(batch["loss_mask"].sum()) for batch in batches) == num_losses
        packed = sum(loss_of(model, batch) for batch in batches)
        alone = sum(
            loss_of(
                model,
                {
                    "input_ids": line[None],
                    "labels": line[None],
                    "position_ids": torch.arange(len(line))[None],
                    "document_ids": torch.zeros(1, len(line)),
                },
            )
            for line in lines
        )
        assert float(packed.detach()) == pytest.approx(float(alone.detach()), rel=1e-12)
        losses.append(float(packed.detach()))
        optimizer.zero_grad()
        packed.backward()
        optimizer.step()
    assert losses[-1] < losses[0]


def test_type_checkers_know_the_names_of_the_data_plane():
    assert get_args(FieldName) == tuple(FIELDS)


def test_the_guide_has_the_table_of_the_data_plane():
    guide = Path(__file__).parents[3] / "docs/explanation/sequences.md"
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", guide.read_text(), re.MULTILINE)
    shapes = {
        "tokens": "{} [batch, length]",
        "borders": "{} [segments + 1]",
        "segments": "{} [batch, most segments of a row]",
        "number": "int",
        "rows": "list of int",
        "sequences": "{} [batch]",
        "table": "Arrow table",
    }
    told = {
        name: shapes[entry.shape].format(*entry.dtypes[:1] or ["`dtype`"])
        for name, entry in FIELDS.items()
    }
    assert {name: kind for name, kind in rows if name in FIELDS} == told
