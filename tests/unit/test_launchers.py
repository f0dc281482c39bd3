"""Ranks from variables of launchers: a process without one of its own is refused."""

import re

import pytest

import pagefeed as pf
from pagefeed.core.ranks import resolve_rank
from pagefeed.errors import InvalidArgumentError
from pagefeed.launch import Ranks
from pagefeed.launch.launchers import LAUNCHERS

PAIRS = [(name, pair) for name, pairs in LAUNCHERS.items() for pair in pairs]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for names in [("RANK", "WORLD_SIZE"), *(pair for _, pair in PAIRS)]:
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("here", "gone"), [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")]
)
def test_half_of_a_pair_is_refused(here, gone, monkeypatch):
    monkeypatch.setenv(here, "1")
    monkeypatch.setenv(gone, "")  # As good as none.
    with pytest.raises(InvalidArgumentError, match=f"has {here}=1 and no {gone}"):
        resolve_rank(None, None)
    assert resolve_rank(1, 2) == (1, 2)


@pytest.mark.parametrize(("function", "names"), PAIRS)
def test_one_of_several_processes_asks_for_its_rank(function, names, monkeypatch):
    rank, size = names
    monkeypatch.setenv(size, "1")
    assert resolve_rank(None, None) == (0, 1)
    monkeypatch.setenv(size, "3")
    with pytest.raises(InvalidArgumentError, match=rf"pf\.launch\.{function}\(\)\n"):
        resolve_rank(None, None)
    from_launcher = getattr(pf.launch, function)
    with pytest.raises(InvalidArgumentError, match=f"has {size}=3 and no {rank}"):
        from_launcher()
    monkeypatch.setenv(rank, "2")
    assert from_launcher() == Ranks(2, 3) == resolve_rank(*from_launcher())
    assert resolve_rank(0, 1) == (0, 1)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert resolve_rank(None, None) == (0, 2)


@pytest.mark.parametrize("function", LAUNCHERS)
def test_without_a_launcher_the_variables_are_named(function):
    names = re.escape(LAUNCHERS[function][0][0])
    with pytest.raises(InvalidArgumentError, match=f"has no {names} and .*: start the"):
        getattr(pf.launch, function)()
