"""Cuts of all kinds, drawn, and runs over them that go on with another world size."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

import pagefeed as pf

EOS, BOS = 1, 2


def token_cuts(lengths: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """Windows and packed sequences of some lengths, with all that they can be told."""
    separators = {
        "eos": st.sampled_from([None, EOS]),
        "bos": st.sampled_from([None, BOS]),
    }
    return st.one_of(
        st.builds(
            pf.Windows,
            lengths,
            **separators,
            overlap=st.integers(0, 3),
            join=st.sampled_from(["dataset", "file"]),
        ),
        st.builds(
            pf.Packed,
            lengths,
            **separators,
            method=st.sampled_from(["best_fit", "greedy"]),
        ),
    )


def all_cuts() -> st.SearchStrategy[Any]:
    """Windows, packed sequences and padded documents of at most 40 tokens."""
    return token_cuts(st.integers(4, 40)) | st.builds(
        pf.Documents,
        max_length=st.integers(1, 40),
        pad=st.sampled_from(["longest", "max_length"]),
    )


def make_loaders(data: Any, cut: Any, **options: Any) -> Callable[..., pf.Loader]:
    """A function of rank and world size that returns a loader."""
    settings = {"batch_size": 2, "seed": 3, "num_threads": 1, "drop_last": False}

    def make(rank: int, world_size: int) -> pf.Loader:
        return pf.Loader(
            data,
            sequences=cut,
            rank=rank,
            world_size=world_size,
            **settings | options,
        )

    return make


def resumed_on_two(
    make: Callable[..., pf.Loader],
    data: st.DataObject,
    read: Callable[[Iterable[Any]], list[int]],
) -> tuple[list[int], list[int]]:
    """What one rank delivers; and one up to some step, then two: both sorted."""
    first = make(0, 1)
    taken = data.draw(st.integers(0, len(first)))
    found = read(itertools.islice(iter(first), taken))
    state = first.state_dict()
    if taken < len(first):
        for rank in range(2):
            loader = make(rank, 2)
            loader.load_state_dict(state)
            found += read(loader)
    return sorted(read(make(0, 1))), sorted(found)
