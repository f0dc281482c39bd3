"""Files of each node: ranks of a node read a part of the data alone, each row once."""

import itertools
from typing import Any

import numpy as np
import pytest

import pagefeed as pf
from made.numbered import LENGTH, first_tokens, numbered_loader, write_numbered
from pagefeed.errors import InvalidArgumentError, PagefeedWarning

NODES, RANKS = 3, 2
WORLD_SIZE = NODES * RANKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("nodes")
    write_numbered(path, num_files=9)
    return path


def shuffled(block) -> pf.Shuffle:
    return pf.Shuffle(block=block, nodes=pf.Nodes(NODES, RANKS))


def tokens_of_ranks(make, steps=None) -> list[list[int]]:
    """First tokens of the sequences of each rank, of some steps."""
    return [
        [
            token
            for batch in itertools.islice(make(rank, WORLD_SIZE), steps)
            for token in first_tokens(batch)
        ]
        for rank in range(WORLD_SIZE)
    ]


def nodes_of(tokens: list[list[int]]) -> list[list[int]]:
    return [
        sorted(itertools.chain(*tokens[node * RANKS : (node + 1) * RANKS]))
        for node in range(NODES)
    ]


@pytest.mark.parametrize("block", ["page", "row_group", "row", "buffer", None])
def test_a_node_reads_its_part_alone_and_every_sequence_comes_once(folder, block):
    def make(rank, world_size):
        return numbered_loader(
            folder, shuffle=shuffled(block), rank=rank, world_size=world_size
        )

    by_node = nodes_of(tokens_of_ranks(make))
    ends = [(tokens[0], tokens[-1]) for tokens in by_node]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
    every = sorted(itertools.chain(*by_node))
    loader = make(0, WORLD_SIZE)
    assert len(every) == len({*every}) == len(loader) * 4 * WORLD_SIZE
    num_files = [len({*np.searchsorted(starts(folder), t, "right")}) for t in by_node]
    assert sum(num_files) <= 9 + NODES - 1  # A file over a border is opened twice.


def starts(folder) -> np.ndarray:
    """The first token of each file."""
    dataset = pf.parquet(folder, column="input_ids")
    files = dataset.index.file_first_page
    return dataset.index.first_values(files[:-1])


@pytest.mark.parametrize("block", ["page", "row"])
def test_epochs_differ_and_a_resume_on_any_ranks_goes_on(folder, block):
    def make(rank, world_size, **options):
        return numbered_loader(
            folder, shuffle=shuffled(block), rank=rank, world_size=world_size, **options
        )

    first = tokens_of_ranks(make)

    def of_epoch_1(rank, world_size):
        loader = make(rank, world_size)
        loader.set_epoch(1)
        return loader

    second = tokens_of_ranks(of_epoch_1)
    pairs = zip(nodes_of(first), nodes_of(second), strict=True)
    assert all(abs(a[-1] - b[-1]) <= 2 * LENGTH for a, b in pairs)
    assert first != second
    begun = make(0, WORLD_SIZE)
    list(itertools.islice(begun, 7))
    state = begun.state_dict()
    rest = []
    for rank in range(4):
        with pytest.warns(PagefeedWarning, match="reads files of all nodes"):
            loader = make(rank, 4, batch_size=6)
        loader.load_state_dict(state)
        rest += [token for batch in loader for token in first_tokens(batch)]
    expected = {*itertools.chain(*(tokens[7 * 4 :] for tokens in first))}
    assert len(rest) == len({*rest})
    assert len({*rest} ^ expected) <= 4 * 6 + WORLD_SIZE * 4


def test_a_mixture_keeps_nodes_apart_through_many_epochs_of_a_dataset(folder, tmp_path):
    write_numbered(tmp_path, num_files=6, first_token=1 << 20)
    web, code = (pf.parquet(path, column="input_ids") for path in (folder, tmp_path))
    mixed = pf.mix({"web": (web, 0.3), "code": (code, 0.7)}, max_steps=60)

    def make(rank, world_size):
        return numbered_loader(
            mixed, shuffle=shuffled("page"), rank=rank, world_size=world_size
        )

    for dataset in (0, 1):
        of_dataset = [
            [token for token in tokens if (token >= 1 << 20) == dataset]
            for tokens in tokens_of_ranks(make)
        ]
        ends = [(tokens[0], tokens[-1]) for tokens in nodes_of(of_dataset)]
        # Borders of later epochs lie up to a round of all ranks elsewhere.
        apart = WORLD_SIZE * LENGTH
        for (_, last), (begin, _) in itertools.pairwise(ends):
            assert last < begin + apart


def test_what_moves_sequences_between_nodes_is_refused(folder):
    for options in ({"balance": "attention"}, {"epochs": 2}, {"epochs": None}):
        with pytest.raises(InvalidArgumentError, match="has no use"):
            numbered_loader(
                folder, shuffle=shuffled("page"), world_size=WORLD_SIZE, **options
            )
    for numbers in ((0, 2), (3, 0)):
        with pytest.raises(InvalidArgumentError, match=r"count=|ranks="):
            pf.Nodes(*numbers)
    nodes: Any = (3, 2)
    with pytest.raises(InvalidArgumentError, match="Nodes"):
        pf.Shuffle(nodes=nodes)


def test_a_state_is_of_its_nodes(folder):
    state = numbered_loader(
        folder, shuffle=shuffled("page"), world_size=WORLD_SIZE
    ).state_dict()
    with pytest.raises(pf.errors.StateMismatchError, match="nodes=3x2"):
        numbered_loader(folder, world_size=WORLD_SIZE).load_state_dict(state)
