"""Texts without counts: each lane's documents, joined and cut, once in a pass."""

import itertools
import json
import multiprocessing
import pickle
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from made.optional import as_dataset, torch
from made.pairs import pairs
from made.streamed import (
    EOS,
    LENGTH,
    ROWS,
    make_text,
    open_loader,
    write_texts,
)
from made.texts_made import make_tokenizer
from models.field_model import assert_model
from pagefeed.core._base import FIELDS
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.errors import CancelledError, InvalidArgumentError
from pagefeed.uncounted.lane_passes import LanePasses, lanes_for_ranks
from scaled import scaled


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    write_texts(path)
    return path


@pytest.fixture(scope="module")
def stream(folder):
    return pf.parquet(folder, column="text")


def positions(loader):
    return {
        lane: tuple(rest) for lane, *rest in json.loads(loader.state_dict()["lanes"])
    }


def lines(loaders, steps):
    """What each lane gives: its tokens, by lanes; batches have one row."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for loader in loaders:
        before = positions(loader)
        for batch in itertools.islice(loader, steps):
            after = positions(loader)
            moved = [lane for lane in after if after[lane] > before[lane]]
            # Others may have gone to their next pass, over texts without a token.
            lane = max(moved, key=lambda lane: any(after[lane][1:]))
            found[lane] += batch["input_ids"][0].tolist()
            before = after
    return found


def documents(tokens):
    """The documents of a line, the last one left out, which may go on."""
    text = bytes(0 if token == EOS else token for token in tokens)
    return text.split(b"\0")[:-1]


def rows_of(passes, lane, epoch):
    """How many rows a lane has in a pass."""
    parts = [
        passes.row_range(lane, epoch, n) for n in range(passes.length(lane, epoch))
    ]
    return sum(part.end_row - part.first_row for part in parts)


def of_pass(loaders, line, number):
    """The documents of one pass of each lane, told by how many rows it has."""
    passes = loaders[0]._session._passes
    found: Counter[bytes] = Counter()
    for lane, tokens in line.items():
        begin = sum(rows_of(passes, lane, epoch) for epoch in range(number))
        end = begin + rows_of(passes, lane, number)
        texts = documents(tokens)
        assert len(texts) >= end
        found.update(texts[begin:end])
    return found


ALL = Counter((make_text(row) or "").encode() for row in range(ROWS))


@pytest.mark.parametrize(
    ("world_size", "shuffle"), [(1, None), (2, "page"), (5, "page"), (5, None)]
)
def test_every_document_comes_once_in_a_pass(stream, world_size, shuffle):
    loaders = [
        open_loader(stream, rank, world_size, shuffle=shuffle)
        for rank in range(world_size)
    ]
    line = lines(loaders, 2600 // world_size)
    places = [position for loader in loaders for position in positions(loader).values()]
    assert min(epoch for epoch, *_ in places) >= 2
    for number in range(2):
        assert of_pass(loaders, line, number) == ALL


def test_passes_are_shuffled_anew(stream):
    texts = documents(itertools.chain(*lines([open_loader(stream)], 500).values()))
    assert texts[:50] != sorted(texts[:50])
    blocks = ExplicitBlocks(np.arange(0, 101, 5))
    for weights in (np.full(20, 7), np.arange(1, 21) ** 3):
        passes = LanePasses(blocks, weights, num_lanes=4, key=b"k")
        dealt = [
            [
                (part.block, row)
                for lane in range(4)
                for place in range(passes.length(lane, epoch))
                for part in [passes.row_range(lane, epoch, place)]
                for row in passes.rows(part, epoch).tolist()
            ]
            for epoch in range(2)
        ]
        every_row = [(block, row) for block in range(20) for row in range(5)]
        assert sorted(dealt[0]) == sorted(dealt[1]) == every_row
        assert dealt[0] != dealt[1]


def test_rows_of_a_block_are_shuffled_anew_in_each_pass(tmp_path):
    table = pa.table({"text": [make_text(row) for row in range(40)]})
    pq.write_table(table, tmp_path / "a.parquet")
    loader = open_loader(pf.parquet(tmp_path / "a.parquet", column="text"))
    batches = itertools.islice(loader, 400)
    tokens = [batch["input_ids"][0].tolist() for batch in batches]
    found = documents(itertools.chain(*tokens))
    first, second = found[:40], found[40:80]
    assert sorted(first) == sorted(second) != second
    assert first != second


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_forked_child_reads_with_threads_of_its_own(stream):
    batches = iter(open_loader(stream))
    [*itertools.islice(batches, 5)]
    ours, theirs = multiprocessing.Pipe()

    def rest():
        return [batch["input_ids"].tolist() for batch in itertools.islice(batches, 99)]

    context = multiprocessing.get_context("fork")
    child = context.Process(target=lambda: theirs.send(rest()), daemon=True)
    child.start()
    try:
        assert ours.poll(60), "the child waits for threads that it does not have"
        assert ours.recv() == rest()
    finally:
        child.kill()


@settings(max_examples=scaled(12))
@given(
    before=st.integers(1, 4),
    after=st.integers(1, 6),
    steps=st.integers(0, 150),
    length=st.sampled_from([3, 16, 70]),
)
def test_any_number_of_ranks_goes_on_exactly(stream, before, after, steps, length):
    given = {"sequences": pf.Windows(length, eos=EOS)}
    first = [open_loader(stream, rank, before, **given) for rank in range(before)]
    begun = lines(first, steps)
    states = json.loads(json.dumps([loader.state_dict() for loader in first]))
    going = lines(first, 40 * after)
    again = [open_loader(stream, rank, after, **given) for rank in range(after)]
    for loader in again:
        loader.load_state_dict(states)
        assert loader.step == steps
    resumed = lines(again, 40)
    for lane, tokens in resumed.items():
        common = min(len(tokens), len(going[lane]))
        assert common > 0 or not going[lane]
        assert tokens[:common] == going[lane][:common]
    assert begun.keys() <= going.keys() | begun.keys()


def test_a_rank_goes_on_by_its_own_state(stream):
    for rank in range(3):
        loader = open_loader(stream, rank, 3, batch_size=4)
        [*itertools.islice(loader, 7)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1024
        expected = [batch["input_ids"] for batch in itertools.islice(loader, 9)]
        other = open_loader(stream, rank, 3, batch_size=4)
        other.load_state_dict(state)
        found = [batch["input_ids"] for batch in itertools.islice(other, 9)]
        np.testing.assert_array_equal(found, expected)
        assert other.state_dict() == loader.state_dict()
        copy = pickle.loads(pickle.dumps(other))
        assert copy.state_dict() == other.state_dict()
        np.testing.assert_array_equal(
            next(iter(copy))["input_ids"], next(iter(other))["input_ids"]
        )


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_batch_size_change_nothing(stream, threads):
    one = itertools.islice(open_loader(stream), 60)
    expected = np.concatenate([batch["input_ids"] for batch in one])
    loader = open_loader(stream, batch_size=4, num_threads=threads, dtype="int32")
    found = np.concatenate([b["input_ids"] for b in itertools.islice(loader, 15)])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


def test_tokens_are_those_of_the_texts_as_counted(folder):
    """In file order, on one lane, it is the line of the counted dataset."""
    tok = make_tokenizer()
    texts = pf.parquet(folder / "0.parquet", column="text")
    given: Any = {"sequences": pf.Windows(LENGTH, eos=0, bos=1), "shuffle": None}
    counted = pf.Loader(
        texts.tokenize(tok), batch_size=1, rank=0, world_size=1, **given
    )
    expected = np.concatenate([batch["input_ids"][0] for batch in counted])
    loader = open_loader(texts, tokenizer=tok, **given)
    num_lanes = loader.state_dict()["num_lanes"]
    line = lines([loader], 3 * len(counted))
    reader, passes = loader._session._reader, loader._session._passes
    joined = []
    for lane in range(num_lanes):
        parts = [passes.row_range(lane, 0, n) for n in range(passes.length(lane, 0))]
        read = [reader.read(passes, part, 0).tokens for part in parts]
        whole = np.concatenate(read)
        np.testing.assert_array_equal(line[lane][: len(whole)], whole)
        joined.append(whole)
    found = np.concatenate(joined)
    np.testing.assert_array_equal(found, expected[: len(found)])
    assert len(expected) - len(found) < LENGTH


MADE = tuple(name for name in FIELDS if name not in ("metadata", "dataset_ids"))
OTHER_TYPES = {
    "labels": "int32",
    "position_ids": "int32",
    "document_ids": "int64",
    "attention_mask": "float32",
    "loss_mask": "float32",
}


@pytest.mark.parametrize(
    ("shifted", "across", "types"),
    pairs([False, True], [False, True], [{}, OTHER_TYPES]),
)
def test_fields_are_those_of_documents(stream, shifted, across, types):
    fields = pf.Fields(
        names=MADE,
        shifted=shifted,
        across_documents=across,
        dtypes=types,
        ignore_index=-7,
    )
    loader = open_loader(stream, batch_size=3, fields=fields, dtype="int32")
    for batch in itertools.islice(loader, 60):
        parts = []
        for row, tokens in enumerate(batch["input_ids"]):
            ends = (np.flatnonzero(tokens == EOS) + 1).tolist()
            borders = sorted({0, *ends, LENGTH})
            pairs = itertools.pairwise(borders)
            parts += [(row, begin, end - begin) for begin, end in pairs]
        assert_model(
            batch, parts, shifted=shifted, across=across, dtypes=types, ignored=-7
        )


def test_selected_rows_alone_come(folder):
    texts = pf.parquet(folder, column="text").where("good")
    loader = open_loader(texts, shuffle="row_group")
    line = lines([loader], 700)
    expected = Counter((make_text(n) or "").encode() for n in range(ROWS) if n % 3)
    assert of_pass([loader], line, 0) == expected


def test_a_step_that_failed_comes_again(stream):
    calls = []

    def fail_once(batch):
        calls.append(batch)
        if len(calls) == 3:
            raise RuntimeError("once")
        return batch

    loader = open_loader(stream, batch_size=2, transform=fail_once)
    batches = iter(loader)
    found = [next(batches)["input_ids"] for _ in range(2)]
    with pytest.raises(RuntimeError, match="once"):
        next(batches)
    assert loader.step == 2
    found += [next(batches)["input_ids"] for _ in range(4)]
    expected = itertools.islice(open_loader(stream, batch_size=2), 6)
    np.testing.assert_array_equal(found, [batch["input_ids"] for batch in expected])


def test_another_iteration_goes_on_and_ends_the_first(stream):
    loader = open_loader(stream)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    assert loader.step == 2
    with pytest.raises(CancelledError):
        next(first)
    assert loader.num_steps_left is None
    assert "num_lanes" in repr(loader)


def test_torch_and_its_loader(stream):
    expected = [b["input_ids"] for b in itertools.islice(open_loader(stream), 5)]
    dataset = as_dataset(open_loader(stream, format="torch"))
    batches = [
        *itertools.islice(torch.utils.data.DataLoader(dataset, batch_size=None), 5)
    ]
    assert isinstance(batches[0]["input_ids"], torch.Tensor)
    np.testing.assert_array_equal([b["input_ids"] for b in batches], expected)
    dataset.load_state_dict(dataset.state_dict())
    workers = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    with pytest.raises(Exception, match="num_workers=0"):
        next(iter(workers))


def test_one_worker_of_torch_gives_what_none_gives(stream):
    given = {"epochs": 1, "batch_size": 8}
    alone = open_loader(stream, **given)
    expected = [[b["input_ids"] for b in alone] for _ in range(2)]
    dataset = as_dataset(open_loader(stream, format="torch", **given))
    worker = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)
    for steps in expected:
        np.testing.assert_array_equal([b["input_ids"] for b in worker], steps)
    assert dataset.state_dict() == alone.state_dict()


def test_numbers_of_the_run(stream):
    loader = open_loader(stream, batch_size=4)
    [*itertools.islice(loader, 6)]
    assert loader.stats()["tokens"] == 6 * 4 * LENGTH
    assert loader.stats()["pages_loaded"] > 0
    assert 0 <= loader.stats()["batches_ready"] < 6  # The first batch waits.
    assert loader.metrics()["data/step"] == 6
    loader.check_ranks(lambda facts: [facts])


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"batch_size": 2}, "batch_size"),
        ({"fields": ("input_ids",)}, "fields"),
        ({"seed": 9}, "seed"),
    ],
)
def test_ranks_of_other_settings_are_told(stream, other, name):
    wanted: dict[str, Any] = {"batch_size": 4, "world_size": 2}
    facts: list[Any] = []

    def gather(own):
        facts.append(own)
        return facts

    with pytest.raises(InvalidArgumentError, match="no process has rank 1"):
        open_loader(stream, rank=0, **wanted).check_ranks(gather)
    wrong = f"fed by different plans: {name} is"
    with pytest.raises(InvalidArgumentError, match=wrong):
        open_loader(stream, rank=1, **wanted | other).check_ranks(gather)


def test_lanes_suit_the_ranks():
    assert lanes_for_ranks(1000, 1e6, 1) == 48
    assert lanes_for_ranks(3, 1e6, 2) == 2
    assert lanes_for_ranks(100, 1e12, 8) == 8
    for blocks, ranks in itertools.product(range(1, 60), range(1, 60)):
        if ranks <= blocks:
            found = lanes_for_ranks(blocks, 1e6, ranks)
            assert ranks <= found <= max(blocks, 48)


@pytest.mark.parametrize("most", [(1 << 16) - 1, 1 << 16, 1 << 17])
def test_ids_of_large_vocabularies_stay_whole(folder, most):
    above = most - max("ä".encode())

    def encode(text):
        return [byte + above for byte in text.encode()]

    large = pf.Tokenizer(encode, vocab_size=most + 1, name="large")
    texts = pf.parquet(folder, column="text")
    loader = open_loader(texts, tokenizer=large, batch_size=8)
    for batch in itertools.islice(loader, 20):
        ids = batch["input_ids"][batch["input_ids"] != EOS]
        assert above < ids.min() < ids.max() == most
