"""A state with any entry changed is refused, or loads: in little time and memory."""

import json
import resource
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.numbered import LENGTH

ODD: list[Any] = [
    *(None, True, -1, 0, 1, 1.5, 1e300, float("nan"), 1 << 31, 1 << 53, 1 << 70),
    *(10**4000, "", "\0", "\ud800", "x" * 100_000, [], [[]], {}, {"a": 1}, ["x"] * 999),
]
GIB = 1 << 30


@pytest.fixture
def limited_memory():
    """Two GiB of addresses more than now."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2 * GIB, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all entries of a JSON value."""
    if at:
        yield at
    lists = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else lists:
        yield from places(part, (*at, key))


def changed(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the state with each entry removed, or replaced by odd values."""
    for *outer, last in places(state):
        for odd in (..., *ODD):
            inside = made = json.loads(json.dumps(state))
            for key in outer:
                inside = inside[key]
            inside[last] = odd
            if odd is ...:
                del inside[last]
            yield made


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changed")
    ids = [[*range(9 * n, 9 * n + 3 + n % 7)] for n in range(120)]
    table = pa.table({"id": range(120), "input_ids": ids})
    pq.write_table(table, folder / "a.parquet", row_group_size=16)
    return pf.parquet(folder, column="input_ids")


def mixed(data):
    return pf.mix({"a": (data, 0.7), "b": (data, 0.3)}, max_steps=20)


BALANCED = {"balance": "attention", "world_size": 2, "sequences": pf.Packed(LENGTH)}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (lambda data: data, {}),
    "balanced": (lambda data: data, BALANCED),
    "mixture": (mixed, {}),
    "balanced mixture": (mixed, BALANCED),
    "budget": (lambda data: data, {"batch_size": None, "batch_tokens": 4 * LENGTH}),
    "fleet": (lambda data: data, {"batch_size": None, "global_batch_size": 4}),
    "erased": (lambda data: data.erase(where="id == 5"), {}),
}


def refusal(loader, other, state) -> Exception | None:
    """Return why a changed state is refused; the loader stays at its state."""
    refused = None
    try:
        loader.load_state_dict(other)
        loader.load_state_dict(state)
    except pf.PagefeedError as error:
        refused = error
    assert loader.state_dict() == state
    return refused


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are of Linux")
@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("kind", KINDS)
def test_any_entry_may_be_changed(kind, data):
    make, options = KINDS[kind]
    usual: dict[str, Any] = {
        "sequences": pf.Windows(LENGTH),
        "batch_size": 2,
        "memory": "32MiB",
    }
    ranks: dict[str, Any] = {"rank": 0, "world_size": 1, "num_threads": 1}
    loader = pf.Loader(make(data), **usual | ranks | options)
    batches = iter(loader)
    next(batches)
    loader.skip([4])
    state = json.loads(json.dumps(loader.state_dict()))
    loader.load_state_dict(state)
    state = loader.state_dict()
    errors = [
        *filter(None, (refusal(loader, other, state) for other in changed(state)))
    ]
    assert len(errors) > 100
    assert max(len(str(error)) for error in errors) < 2000
    assert not any(isinstance(error, pf.errors.InternalError) for error in errors)
