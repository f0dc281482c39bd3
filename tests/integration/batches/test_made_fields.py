"""The fields of loaders of every kind, against a plain model."""

from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.documents import (
    BOS,
    EOS,
    PADDING,
    loader_of,
    make_documents,
    write_documents,
)
from made.optional import torch
from models.field_model import assert_model
from pagefeed.core._base import FIELDS as ALL_FIELDS
from pagefeed.errors import InvalidArgumentError

FIELDS: Any = pf.Fields(names=tuple(ALL_FIELDS)).made
LENGTH = 48
APART = 10**5
SEQUENCES = [
    pf.Windows(LENGTH),
    pf.Windows(LENGTH, eos=EOS),
    pf.Windows(LENGTH, eos=EOS, bos=BOS),
    pf.Windows(LENGTH, overlap=7),
    pf.Windows(LENGTH, overlap=7, eos=EOS),
    pf.Packed(LENGTH),
    pf.Packed(LENGTH, eos=EOS),
    pf.Packed(LENGTH, bos=BOS),
    pf.Packed(LENGTH, eos=EOS, split="never"),
    pf.Packed(LENGTH, eos=EOS, method="greedy"),
]
OTHER_TYPES = {
    "labels": "int32",
    "position_ids": "int32",
    "document_ids": "int64",
    "attention_mask": "int64",
    "loss_mask": "float32",
}
SMALL = "40KiB"
"""Holds a batch with its fields and few of its pages at a time."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two datasets whose tokens tell their document."""
    paths = []
    for number in range(2):
        folder = tmp_path_factory.mktemp("documents")
        documents = make_documents(number, 150, longest=300)
        apart = [
            None if document is None else [token + number * APART for token in document]
            for document in documents
        ]
        write_documents(folder, apart, num_files=2)
        paths.append((folder, apart))
    return paths


@pytest.fixture(scope="module")
def document_of(folders):
    """The document of each token, over both datasets."""
    documents = [document or [] for _, part in folders for document in part]
    return {
        token: number for number, document in enumerate(documents) for token in document
    }


def parts_of(tokens, document_of):
    """The parts of documents in a batch: they end behind EOS and before BOS."""
    parts = []
    for row, values in enumerate(tokens.tolist()):
        start, inside = 0, None
        for place, token in enumerate([*values, PADDING]):
            own = document_of.get(token, inside)
            is_first = token - 1 not in document_of or document_of[token - 1] != own
            is_new = own != inside and not (is_first and values[place - 1] == BOS)
            if token == PADDING:
                is_new = True
            elif token == BOS or (place and values[place - 1] == EOS):
                is_new, own = True, document_of.get(token)
            if place and is_new and values[place - 1] != PADDING:
                parts.append((row, start, place - start))
            if is_new or place == 0:
                start = place
            inside = own
    return parts


def check(loader, document_of):
    num_batches = 0
    fields = loader.fields
    for batch in loader:
        arrays = {
            name: value.numpy() if isinstance(value, torch.Tensor) else value
            for name, value in batch.items()
        }
        arrays.pop("lengths", None)
        parts = parts_of(arrays["input_ids"], document_of)
        assert tuple(arrays) == fields.names
        assert_model(
            arrays,
            parts,
            shifted=fields.shifted,
            across=fields.across_documents,
            dtypes=fields.dtypes,
            ignored=fields.ignore_index,
        )
        num_batches += 1
    assert num_batches == len(loader) > 5


@pytest.mark.parametrize("sequences", SEQUENCES, ids=str)
@pytest.mark.parametrize("memory", ["16MiB", SMALL])
def test_of_all_sequences(folders, document_of, sequences, memory):
    # Some batch of the last step is padding alone: drop_last is False.
    loader = loader_of(
        folders[0][0], sequences, fields=FIELDS, memory=memory, batch_size=4
    )
    check(loader, document_of)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_of_all_settings(folders, document_of, shifted, across):
    fields = pf.Fields(names=FIELDS, shifted=shifted, across_documents=across)
    sequences = pf.Packed(LENGTH, eos=EOS)
    check(loader_of(folders[0][0], sequences, fields=fields), document_of)


@pytest.mark.parametrize("memory", ["16MiB", SMALL])
@pytest.mark.parametrize("sequences", [SEQUENCES[1], SEQUENCES[6]], ids=str)
def test_of_other_types(folders, document_of, sequences, memory):
    fields = pf.Fields(names=FIELDS, dtypes=OTHER_TYPES, ignore_index=-1)
    options = {"fields": fields, "memory": memory, "batch_size": 4, "dtype": "int32"}
    check(loader_of(folders[0][0], sequences, **options), document_of)


def test_labels_hold_all_tokens(folders):
    names = ("input_ids", "labels")
    fields = pf.Fields(names=names, dtypes={"labels": torch.int32})
    sequences = pf.Packed(LENGTH, eos=EOS)
    with pytest.raises(InvalidArgumentError, match="give the Loader dtype='int32'"):
        loader_of(folders[0][0], sequences, fields=fields)


def test_types_change_neither_states_nor_order(folders):
    sequences = pf.Packed(LENGTH, eos=EOS)
    plain, typed = (
        loader_of(folders[0][0], sequences, fields=fields, batch_size=4, dtype="int32")
        for fields in (
            FIELDS,
            pf.Fields(names=FIELDS, dtypes=OTHER_TYPES, ignore_index=0),
        )
    )
    for ours, theirs in zip(plain, typed, strict=True):
        assert np.array_equal(ours["input_ids"], theirs["input_ids"])
        assert plain.state_dict() == typed.state_dict()
        typed.load_state_dict(plain.state_dict())
        break


@pytest.mark.parametrize("types", [{}, OTHER_TYPES], ids=["usual", "others"])
def test_as_tensors_of_the_same_memory(folders, document_of, types):
    sequences = pf.Windows(LENGTH, eos=EOS)
    fields = pf.Fields(names=FIELDS, dtypes=types)
    options = {"fields": fields, "format": "torch", "dtype": "int32"}
    loader = loader_of(folders[0][0], sequences, **options)
    check(loader, document_of)
    batch = next(iter(loader))
    starts = [
        value.data_ptr() for value in batch.values() if isinstance(value, torch.Tensor)
    ]
    assert len(starts) == len(FIELDS) - 2
    # Beside each other, as only memory of the engine is.
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < 4 * len(FIELDS) * batch["input_ids"].numel() + 700
    labels, mask = "int64", "bool"
    assert str(batch["labels"].dtype) == f"torch.{types.get('labels', labels)}"
    assert str(batch["loss_mask"].dtype) == f"torch.{types.get('loss_mask', mask)}"
    assert batch["cu_seqlens"].dtype == torch.int32


def test_of_mixtures(folders, document_of):
    parts = {
        name: (pf.parquet(folder, column="input_ids"), weight)
        for name, weight, (folder, _) in zip("ab", (0.3, 0.7), folders, strict=True)
    }
    loader = pf.Loader(
        pf.mix(parts, max_steps=30),
        sequences=pf.Packed(LENGTH, eos=EOS),
        batch_size=4,
        fields=FIELDS,
        memory="16MiB",
        num_threads=2,
        rank=0,
        world_size=1,
    )
    check(loader, document_of)


@pytest.mark.parametrize("types", [{}, OTHER_TYPES], ids=["usual", "others"])
@pytest.mark.parametrize("pad", ["longest", "max_length"])
def test_of_padded_documents(folders, pad, types):
    sequences = pf.Documents(max_length=LENGTH, pad=pad)
    fields = pf.Fields(names=FIELDS, shifted=True, dtypes=types)
    options = {"fields": fields, "batch_size": 7, "dtype": "int32"}
    loader = loader_of(folders[0][0], sequences, **options)
    for batch in loader:
        counts = batch.pop("lengths").tolist()
        parts = [(row, 0, count) for row, count in enumerate(counts) if count]
        assert_model(batch, parts, shifted=True, across=False, dtypes=types)
        assert batch["input_ids"].shape[1] == (
            max(1, *counts) if pad == "longest" else LENGTH
        )


def test_memory_is_used_again_and_not_written_while_it_is_kept(folders):
    sequences = pf.Packed(LENGTH, eos=EOS)
    loader = loader_of(folders[0][0], sequences, fields=FIELDS, memory=SMALL)
    kept, copies, places = [], [], set()
    for number, batch in enumerate(loader):
        places.add(batch["labels"].ctypes.data)
        if number % 9 == 0:
            kept.append(batch["labels"])
            copies.append(batch["labels"].copy())
    assert all(map(np.array_equal, kept, copies))
    assert len(places) < len(loader)
