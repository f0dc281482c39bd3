"""Random numbers of functions of users: the same in every run, and else unlike."""

import functools
import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import images
from made.draws import draw_one, roll
from made.numbered import numbered_loader, write_numbered
from made.optional import as_dataset, torch
from made.streamed import open_loader, write_texts
from pagefeed.core.order import Drawing, make_generator
from pagefeed.documents import Decode
from pagefeed.errors import InvalidArgumentError
from pagefeed.reports import replay

ROWS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("draws")
    write_numbered(place)
    return place


def taker(batch: Any, rng: Any) -> Any:
    return batch, rng


class Taker:
    def __call__(self, batch: Any, rng: Any) -> Any:
        return batch, rng

    def bound(self, batch: Any, rng: Any = None) -> Any:
        return batch, rng


def passed_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return wrapper


def hidden(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(batch: Any) -> Any:
        return function(batch, "own")

    return wrapper


DRAW = {
    "function": taker,
    "lambda": lambda batch, rng: (batch, rng),
    "another name": lambda batch, noise: (batch, noise),
    "with a default": lambda batch, rng=None: (batch, rng),
    "further defaults": lambda batch, rng, p=0.5: (batch, rng, p)[:2],
    "by name alone": lambda batch, *, rng: (batch, rng),
    "after a default": lambda batch, p=1, rng=None: (batch, rng, p)[:2],
    "by place alone": lambda batch, rng, /: (batch, rng),
    "object": Taker(),
    "method": Taker().bound,
    "partial": functools.partial(lambda p, batch, rng: (batch, rng, p)[:2], 3),
    "partial by name": functools.partial(
        lambda batch, rng, p: (batch, rng, p)[:2], p=3
    ),
    "wrapped": passed_on(taker),
    "cached": functools.lru_cache(lambda batch, rng: (batch, rng)),
}
DRAW_NOT = {
    "lambda": lambda batch: (batch, "own"),
    "a default": lambda batch, rate="own": (batch, rate),
    "set by partial": functools.partial(taker, rng="own"),
    "wrapped": hidden(taker),
    "any": lambda *given: (*given, "own"),
    "called rng": lambda rng: (rng, "own"),
}


@pytest.mark.parametrize("name", DRAW)
def test_functions_with_a_second_parameter_draw(name: str):
    drawing = Drawing.of(DRAW[name], "transform")
    assert drawing("batch", lambda: "numbers") == ("batch", "numbers")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("name", DRAW_NOT)
def test_other_functions_are_called_as_ever(name: str):
    drawing = Drawing.of(DRAW_NOT[name], "transform")
    assert drawing("batch", pytest.fail) == ("batch", "own")


@pytest.mark.parametrize("function", [len, bytes, torch.from_numpy, json.loads])
def test_functions_of_libraries_draw_not(function: Any):
    assert not Drawing.of(function, "decode").draws


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda batch, rng, p: (batch, rng, p), lambda *, rng: rng],
    ids=["nothing", "three", "rng alone"],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(folder, function):
    with pytest.raises(InvalidArgumentError, match=r"transform=.* takes \("):
        numbered_loader(folder, transform=function)
    with pytest.raises(InvalidArgumentError, match=r"decode\['text'\]=.* takes \("):
        Decode({"text": function})


def draw(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    shape = batch["input_ids"].shape
    return batch | {"draw": rng.integers(0, 1 << 40, shape[0])}


def draws_of(batches: Iterable[dict[str, Any]]) -> list[list[int]]:
    return [batch["draw"].tolist() for batch in batches]


def drawing_loader(folder: Any, **options: Any) -> pf.Loader:
    return numbered_loader(folder, transform=draw, **options)


@pytest.mark.parametrize("options", [{}, {"epochs": 2}, {"global_batch_size": 6}])
def test_a_step_draws_the_same_wherever_the_loop_began(folder, options):
    if "global_batch_size" in options:
        options = {"batch_size": None} | options
    loader = drawing_loader(folder, **options)
    first, second = draws_of(loader), draws_of(loader)
    together = [n for step in first + second for n in step]
    assert len(set(together)) == len(together)
    begun = drawing_loader(folder, **options)
    assert draws_of(islice(begun, 7)) == first[:7]
    again = drawing_loader(folder, **options)
    again.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert draws_of(again) == first[7:]
    assert draws_of(again) == second
    again.set_epoch(1)
    again.seek(5)
    assert draws_of(again) == second[5:]
    again.set_epoch(0)
    steps = [batch["draw"].tolist() for _, batch in replay(again, [2, 4])]
    assert steps == [first[2], first[4]]
    if "global_batch_size" not in options:  # Its steps are counted without these.
        again.skip(range(3, 6))
        assert draws_of(again) == first[:3] + first[6:]


def test_a_step_of_a_fleet_draws_by_rank(folder):
    fleet = {"batch_size": None, "global_batch_size": 6}
    first = draws_of(drawing_loader(folder, **fleet))
    loader = drawing_loader(folder, **fleet)
    for step in (4, 2, 4):
        batch = loader.at(step, rank=0, world_size=1)
        assert batch is not None
        assert batch["draw"].tolist() == first[step]
    ranks = [loader.at(4, rank=rank, world_size=3) for rank in range(3)]
    numbers = [n for batch in ranks if batch for n in batch["draw"].tolist()]
    assert len(set(numbers)) == 6


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_draw_as_one_process_does(folder):
    first = draws_of(drawing_loader(folder, batch_size=60))
    data = as_dataset(drawing_loader(folder, batch_size=60, format="torch"))
    loop = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    assert draws_of(loop) == first


def test_a_mixture_draws_anew_in_each_loop(folder):
    data = pf.parquet(folder, column="input_ids")
    mixture = pf.mix({"a": (data, 0.7), "b": (data, 0.3)}, max_steps=9)
    loader = drawing_loader(mixture)
    first, second = draws_of(loader), draws_of(loader)
    assert first != second
    again = drawing_loader(mixture)
    draws_of(again)
    again.seek(4)
    assert draws_of(again) == second[4:]


def test_a_loader_of_texts_draws_by_step(tmp_path):
    write_texts(tmp_path)
    data = pf.parquet(tmp_path, column="text")
    first = draws_of(islice(open_loader(data, transform=draw), 9))
    begun = open_loader(data, transform=draw)
    assert draws_of(islice(begun, 4)) == first[:4]
    again = open_loader(data, transform=draw)
    again.load_state_dict(begun.state_dict())
    assert draws_of(islice(again, 5)) == first[4:]
    assert len({n for step in first for n in step}) == sum(map(len, first))


def test_the_doctor_gives_the_generator_too(folder):
    seen = []

    def noted(batch: Any, rng: Any) -> Any:
        seen.append(rng.random())
        return batch

    pf.doctor(numbered_loader(folder, transform=noted), seconds=0.05)
    assert seen


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("rows")
    columns: dict[str, list[Any]] = {
        "input_ids": [[n + 1] * (1 + n % 7) for n in range(ROWS)],
        "image": [None if n == 3 else b"%d" % n for n in range(ROWS)],
        "text": [f"t{n}" for n in range(ROWS)],
        "url": [f"u{n}" for n in range(ROWS)],
    }
    for part in range(2):
        half = {name: of[part * 30 : part * 30 + 30] for name, of in columns.items()}
        pq.write_table(pa.table(half), place / f"{part}.parquet", row_group_size=8)
    return place


def rolling(data: Any, **options: Any) -> pf.Loader:
    if isinstance(data, Path):
        data = pf.parquet(data, column="input_ids")
    settings: dict[str, Any] = {
        "sequences": pf.Documents(columns=["image", "text"]),
        "batch_size": 6,
        "seed": 8,
        "decode": {"image": roll},
        "rank": 0,
        "world_size": 1,
        "num_threads": 2,
        "drop_last": False,
    }
    return pf.Loader(data, **settings | options)


def rolled(loaders: Any) -> dict[int, int]:
    pairs = [p for loader in loaders for b in loader for p in b["image"] if p]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


TOKENS = pf.Documents(columns=["image", "text"], max_length=4, pad=None)
BUDGET = {"sequences": TOKENS, "batch_size": None, "batch_tokens": 24}


def test_a_row_draws_the_same_on_any_ranks(rows):
    first = rolled([rolling(rows)])
    assert len(set(first.values())) == len(first) == ROWS - 1
    ways: list[list[dict[str, Any]]] = [
        [{"rank": rank, "world_size": 3, "batch_size": 2} for rank in range(3)],
        [{"rank": rank, "world_size": 2, "batch_size": 7} for rank in range(2)],
        [{"shuffle": None}],
        [{"sequences": TOKENS}],
        [{"sequences": TOKENS, "balance": "tokens"}],
        [BUDGET],
        [BUDGET | {"rank": rank, "world_size": 2} for rank in range(2)],
        [BUDGET | {"global_batch_size": 3}],
        [{"batch_size": None, "global_batch_size": 5}],
    ]
    for way in ways:
        assert rolled(rolling(rows, **options) for options in way) == first, way


def test_a_row_draws_anew_in_each_epoch(rows):
    loader = rolling(rows)
    epochs = [rolled([loader]) for _ in range(3)]
    numbers = [number for epoch in epochs for number in epoch.values()]
    assert len(set(numbers)) == len(numbers)
    joined = [p for batch in rolling(rows, epochs=3) for p in batch["image"] if p]
    assert sorted(joined) == sorted(p for epoch in epochs for p in epoch.items())
    begun = rolling(rows)
    assert len([*islice(begun, 4)]) == 4
    rest = [rolling(rows, rank=rank, world_size=2) for rank in range(2)]
    for loader in rest:
        loader.load_state_dict(begun.state_dict())
    assert rolled(rest).items() <= epochs[0].items()
    other = rolled([rolling(rows, seed=9)])
    assert not set(other.values()) & set(numbers)


def test_a_row_draws_the_same_for_all_its_columns_and_in_processes(rows):
    both = {"image": roll, "text": draw_one}
    first = rolled([rolling(rows)])
    for decode in (both, Decode(both, processes=True, workers=1)):
        for batch in rolling(rows, decode=decode):
            for pair, number in zip(batch["image"], batch["text"], strict=True):
                assert pair is None or number == pair[1] == first[pair[0]]


def test_erased_and_selected_rows_leave_the_others_alone(rows):
    first = rolled([rolling(rows)])
    data = pf.parquet(rows, column="input_ids")
    erased = data.erase(where="url in ('u7', 'u20')")
    for options in ({}, BUDGET):
        left = rolled([rolling(erased, **options)])
        assert left == {n: first[n] for n in first if n not in (7, 20)}
    chosen = rolled([rolling(data.where("url < 'u3'"))])
    assert chosen.items() < first.items()


def test_a_mixture_draws_by_dataset_and_epoch(rows):
    data = pf.parquet(rows, column="input_ids")
    mixture = pf.mix({"a": (data, 0.8), "b": (data, 0.2)}, max_steps=30)

    def pairs_of(loader: Any) -> list[tuple[int, int]]:
        return [p for batch in loader for p in batch["image"] if p]

    whole = pairs_of(rolling(mixture))
    assert len({number for _, number in whole}) == len(whole) > 2 * ROWS
    ranks = [rolling(mixture, rank=r, world_size=2, batch_size=3) for r in range(2)]
    assert sorted(p for loader in ranks for p in pairs_of(loader)) == sorted(whole)
    begun = rolling(mixture)
    taken = pairs_of(islice(begun, 11))
    again = rolling(mixture)
    again.load_state_dict(begun.state_dict())
    assert taken + pairs_of(again) == whole
    assert not {n for _, n in pairs_of(again)} & {n for _, n in whole}


def test_images_draw_by_row_and_number(tmp_path):
    made = images.rows(40)
    images.write(tmp_path, made)

    def drawn(data: Any, rng: np.random.Generator) -> tuple[Any, int]:
        return images.place_of(data), int(rng.integers(0, 1 << 40))

    def of_images(loaders: Any) -> list[tuple[Any, int]]:
        return sorted(p for x in loaders for b in x for p in b["images"]["data"])

    data = images.dataset(tmp_path, decode=drawn)
    loader = images.loader(data, drop_last=False)
    first, second = of_images([loader]), of_images([loader])
    assert len({number for _, number in first + second}) == 2 * len(first)
    assert len(first) == sum(len(row.images) for row in made)
    for cut in (None, pf.Documents([], max_length=300)):
        given = {} if cut is None else {"sequences": cut}
        ranks = [
            images.loader(data, rank=r, world_size=2, drop_last=False, **given)
            for r in range(2)
        ]
        assert of_images(ranks) == first


def test_streams_of_numbers_are_uncorrelated():
    """Over steps, ranks, epochs and seeds, compared with what chance gives."""
    keys = [
        (s, "batch", e, t, r)
        for s in range(4)
        for e in range(2)
        for t in range(16)
        for r in range(2)
    ]
    streams = np.stack([make_generator(*key).standard_normal(400) for key in keys])
    correlation: Any = np.corrcoef(streams)
    correlation = correlation[np.triu_indices(len(keys), 1)] * 400**0.5
    # Of 32,640 pairs, chance gives about 1.0 and a largest of 4.3.
    assert abs(correlation.std() - 1) < 0.02
    assert np.abs(correlation).max() < 5.5
    # First numbers of neighbouring keys, as few functions draw many.
    first = np.array(
        [make_generator(0, "batch", 0, t, 0).random() for t in range(4000)]
    )
    neighbours: Any = np.corrcoef(first[1:], first[:-1])
    assert abs(neighbours[0, 1]) < 4 / 4000**0.5
    counts = np.histogram(first, 20, (0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 50  # 19 degrees; 1 in 10,000 is more.
