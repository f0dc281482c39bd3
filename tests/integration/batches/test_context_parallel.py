"""Ranks of a context-parallel group get the parts that training frameworks define."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import write_numbered
from made.optional import torch
from pagefeed.errors import InvalidArgumentError

FIELDS = ("input_ids", "labels", "position_ids", "loss_mask", "cu_seqlens")


def megatron_part(field, size, rank):
    """Megatron-Core's get_batch_on_this_cp_rank, from its definition.

    The sequence is seen as 2 * size chunks, and those of the rank are selected.
    """
    seen = field.view(field.shape[0], 2 * size, field.shape[1] // (2 * size))
    index = torch.tensor([rank, 2 * size - rank - 1])
    return seen.index_select(1, index).reshape(field.shape[0], -1)


def test_parts_are_those_of_megatron_in_many_cases():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        size = int(rng.integers(1, 17))
        length = 2 * size * int(rng.integers(1, 40))
        rank, rows = int(rng.integers(size)), int(rng.integers(1, 5))
        field = rng.integers(0, 1000, (rows, length))
        part = pf.ContextParallel(rank, size).part({"labels": field}, length)
        expected = megatron_part(torch.from_numpy(field), size, rank)
        assert np.array_equal(part["labels"], expected)


def transformer_engine_indices(borders, num_tokens, size, rank):
    """TransformerEngine's thd_get_partitioned_indices, from its definition.

    Token t of the rank is of the sequence whose borders, divided by the size, it lies
    between. In the first half of these places it comes from chunk ``rank`` of ``2 *
    size``, in the second from chunk ``2 * size - 1 - rank``.
    """
    found = []
    for token in range(num_tokens // size):
        sequence = max(i for i, border in enumerate(borders) if border <= token * size)
        begin, length = borders[sequence], borders[sequence + 1] - borders[sequence]
        chunk, within = divmod(token - begin // size, length // (2 * size))
        chunk = rank if chunk == 0 else 2 * size - 1 - rank
        found.append(begin + chunk * (length // (2 * size)) + within)
    return found


def test_parts_of_documents_are_those_of_transformer_engine_in_many_cases():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        size = int(rng.integers(1, 9))
        lengths = 2 * size * rng.integers(1, 9, rng.integers(1, 6))
        borders, rank = np.append(0, np.cumsum(lengths)), int(rng.integers(size))
        total = int(borders[-1])
        expected = transformer_engine_indices(borders.tolist(), total, size, rank)
        assert pf.ContextParallel(rank, size).places(borders).tolist() == expected


@pytest.mark.parametrize("format_name", ["numpy", "torch"])
def test_a_group_gets_each_document_in_parts(data, format_name):
    names = (*FIELDS, "cu_seqlens_padded", "max_seqlen", "document_ids")
    packed = pf.Packed(64, eos=9, multiple_of=8)
    options: dict[str, Any] = {"sequences": packed, "fields": names, "padding": -1}
    parts = [pf.ContextParallel(rank, 4) for rank in range(4)]
    groups = [batches(data, part, format=format_name, **options) for part in parts]
    count = 0
    for whole, *shares in zip(batches(data, **options), *groups, strict=True):
        borders = whole["cu_seqlens_padded"]
        own, places = np.diff(whole["cu_seqlens"]), np.diff(borders)
        assert (own <= places).all()
        assert (places % 8 == 0).all()
        assert whole["max_seqlen"] == places.max()
        # Documents and what fills them up: each is one, or padding alone.
        ids = whole["document_ids"].ravel()
        for begin, tokens, end in zip(borders, own, borders[1:], strict=False):
            assert len(set(ids[begin : begin + tokens].tolist())) <= 1
            assert (ids[begin : begin + tokens] >= 0).all()
            assert (ids[begin + tokens : end] == -1).all()
            assert end - begin == -(-tokens // 8) * 8 or tokens == 0
        for name in ("input_ids", "labels", "position_ids", "loss_mask"):
            joined = np.full_like(whole[name].ravel(), 99)
            for rank, share in enumerate(shares):
                assert share[name].shape == (4, 16)
                at = transformer_engine_indices(borders.tolist(), 256, 4, rank)
                joined[at] = np.asarray(share[name]).ravel()
            assert np.array_equal(joined, whole[name].ravel())
        for name in ("cu_seqlens", "cu_seqlens_padded"):
            for share in shares:
                assert np.asarray(share[name]).tolist() == whole[name].tolist()
        count += len(own)
    assert count > 100


def test_packed_documents_of_a_multiple_hold_every_token_once(data):
    for multiple_of in (1, 4, 32):
        packed = pf.Packed(64, multiple_of=multiple_of, split="never")
        loader = pf.Loader(
            data, sequences=packed, batch_size=1, padding=-1, rank=0, world_size=1
        )
        rows = np.concatenate([batch["input_ids"] for batch in loader])
        assert len(rows) == loader.num_sequences
        tokens = np.sort(rows[rows >= 0])
        assert np.array_equal(tokens, np.arange(len(tokens)))
        assert loader.num_padding_tokens == (rows < 0).sum()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    write_numbered(folder)
    return pf.parquet(folder, column="input_ids")


def batches(data, part=None, **options):
    settings: dict[str, Any] = {"sequences": pf.Windows(64), "batch_size": 4}
    settings |= {"fields": FIELDS, "rank": 0, "world_size": 1, **options}
    settings["fields"] = pf.Fields(names=settings["fields"], shifted=True)
    return itertools.islice(pf.Loader(data, context_parallel=part, **settings), 20)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["zigzag", "contiguous"])
def test_ranks_of_a_group_have_each_token_once(data, layout, kind):
    parts = [pf.ContextParallel(rank, 4, layout) for rank in range(4)]
    groups = [batches(data, part, format=kind) for part in parts]
    for whole, *shares in zip(batches(data), *groups, strict=True):
        for name in FIELDS:
            if name == "cu_seqlens":
                for share in shares:
                    assert np.asarray(share[name]).tolist() == whole[name].tolist()
                continue
            joined = np.empty_like(whole[name])
            for part, share in zip(parts, shares, strict=True):
                assert share[name].shape == (4, 16)
                joined[:, part.columns(64)] = np.asarray(share[name])
            assert np.array_equal(joined, whole[name])


@pytest.mark.parametrize("cut", [pf.Windows(64), pf.Packed(64, multiple_of=8)])
def test_columns_of_several_numbers_a_token_are_cut_like_tokens(tmp_path, cut):
    rows = [np.arange(1, n % 50 + 2) + 100 * n for n in range(300)]
    wide = [np.stack([row, -row], axis=1).ravel() for row in rows]
    pq.write_table(pa.table({"tokens": rows, "wide": wide}), tmp_path / "a.parquet")
    aligned = {"wide": pf.Aligned(width=2)}
    data = pf.parquet(tmp_path, column="tokens", aligned=aligned)
    options: dict[str, Any] = {"sequences": cut, "fields": ("input_ids",)}
    for rank in range(4):
        for batch in batches(data, pf.ContextParallel(rank, 4), **options):
            tokens = batch["input_ids"][:, :, None]
            assert np.array_equal(batch["wide"], tokens * [1, -1])


def test_a_part_holds_its_share_of_the_memory(data):
    (batch,) = itertools.islice(batches(data, pf.ContextParallel(1, 8)), 1)
    (whole,) = itertools.islice(batches(data), 1)
    tokens = batch["input_ids"]
    owner = tokens if tokens.base is None else tokens.base
    assert owner.nbytes == whole["input_ids"].nbytes // 8


@pytest.mark.parametrize("layout", ["zigzag", "contiguous"])
def test_each_label_of_a_part_is_the_next_token(data, layout):
    behind = dict[int, int]()
    for whole in batches(data):
        ids, labels = whole["input_ids"], whole["labels"]
        ends = labels[:, :-1] == -100  # Of documents.
        assert ((labels[:, :-1] == ids[:, 1:]) | ends).all()
        assert ends.mean() < 0.5
        behind.update(zip(ids.ravel().tolist(), labels.ravel().tolist(), strict=True))
    for rank in range(4):
        for part in batches(data, pf.ContextParallel(rank, 4, layout)):
            ids, labels = part["input_ids"].ravel(), part["labels"].ravel()
            assert [behind[one] for one in ids.tolist()] == labels.tolist()


def test_labels_that_a_loss_would_shift_inside_a_part_are_refused(data):
    options: dict[str, Any] = {"sequences": pf.Windows(64), "batch_size": 4}
    options |= {"context_parallel": pf.ContextParallel(0, 4)}
    with pytest.raises(
        InvalidArgumentError, match=r"the loss cannot shift labels.*shifted=True"
    ):
        pf.Loader(data, fields=("input_ids", "labels"), **options)
    pf.Loader(data, fields=("input_ids",), **options)


def test_what_cannot_be_cut_is_refused(data):
    with pytest.raises(InvalidArgumentError, match="60 tokens"):
        batches(data, pf.ContextParallel(0, 3), sequences=pf.Windows(64))
    packed = pf.Packed(64, multiple_of=2)
    with pytest.raises(InvalidArgumentError, match="multiple_of"):
        batches(data, pf.ContextParallel(0, 2), sequences=packed)
    with pytest.raises(InvalidArgumentError, match="multiple_of=5"):
        pf.Packed(64, multiple_of=5)
    for pad in ("longest", None):
        documents = pf.Documents([], max_length=64, pad=pad)
        for budget in (None, 640):
            options: dict[str, Any] = {"sequences": documents, "batch_tokens": budget}
            options["batch_size"] = None if budget else 4
            with pytest.raises(InvalidArgumentError, match=f"pad={pad!r}.*differ"):
                batches(data, pf.ContextParallel(0, 2), **options)
    for settings in ((2, 2), (0, 0), (-1, 2), (0, 2, "rings")):
        with pytest.raises(InvalidArgumentError):
            pf.ContextParallel(*settings)
    with pytest.raises(InvalidArgumentError, match="ContextParallel"):
        batches(data, (0, 2))
    for mesh in (None, "cp", SimpleNamespace(get_local_rank=None, ndim=2)):
        with pytest.raises(InvalidArgumentError, match="one dimension"):
            pf.ContextParallel.from_mesh(mesh)


@pytest.mark.parametrize("borders", [None, [0, 4, 8, 16]])
def test_what_tells_of_whole_sequences_stays_whatever_its_shape(borders):
    ids = np.arange(16).reshape(2, 8)
    # As many documents in a row as it has tokens.
    batch: dict[str, np.ndarray] = {
        "input_ids": ids,
        "doc_lens": np.ones_like(ids),
        "lengths": ids + 1,
        "cu_seqlens": np.arange(9),
    }
    cut = pf.ContextParallel(1, 2).part(batch, 8, borders)
    assert cut["input_ids"].shape == (2, 4)
    for name in ("doc_lens", "lengths", "cu_seqlens"):
        assert cut[name] is batch[name]


@pytest.mark.parametrize("length", [-4, 7, 8.5, "8", True, None, np.array([8, 8])])
def test_a_length_that_cannot_be_cut_is_refused_by_name(length):
    with pytest.raises(InvalidArgumentError, match=r"length|multiple"):
        pf.ContextParallel(0, 2).columns(length)
    assert pf.ContextParallel(0, 2).columns(8).tolist() == [0, 1, 6, 7]


@pytest.mark.parametrize(
    "borders", [5, None, "ab", [0, 4.5], [-4, 4], [0, 8, 4], [[0, 8]], [[0], [0, 8]]]
)
def test_what_are_no_borders_is_refused_by_name(borders):
    with pytest.raises(InvalidArgumentError, match="borders"):
        pf.ContextParallel(0, 2).places(borders)
    assert pf.ContextParallel(0, 2).places([]).tolist() == []
