"""Each prompt is finished once in each pass, in any schedule of calls and kills."""

import inspect
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from models.prompt_schedules import Schedule
from pagefeed.prompts import outstanding, places, queue, shares
from scaled import scaled

SIZES = {"code": 7, "math": 23}

FAULTS = [
    (outstanding, "_Waiting(priority, -number, again", "_Waiting(0, -number, again"),
    (outstanding, "_Waiting(priority, -number, again", "_Waiting(priority, 0, again"),
    (
        outstanding,
        "_Waiting(priority, -number, again",
        "_Waiting(-priority, -number, again",
    ),
    (outstanding, "_Waiting(priority, -number, _next", "_Waiting(0, -number, _next"),
    (
        outstanding,
        "_Waiting(priority, -number, _next",
        "_Waiting(priority, number, _next",
    ),
    (outstanding, "attempt=ticket.attempt + 1", "attempt=ticket.attempt"),
    (outstanding, "ticket.attempt - was_in_flight", "ticket.attempt"),
    (outstanding, "attempt=ticket.attempt - 1", "attempt=ticket.attempt"),
    (outstanding, "not was_in_flight, priority)", "True, priority)"),
    (outstanding, "not was_in_flight, priority)", "not was_in_flight, 0)"),
    (outstanding, "(ticket.key, (0, None))[1] != ticket", "(ticket.key) is None"),
    (
        outstanding,
        "self._put(-order, ticket._replace(version",
        "(ticket._replace(version",
    ),
    (outstanding, "self._num_given += 1", "self._num_given = 1"),
    (outstanding, "del self._flying[ticket.key]", "pass"),
    (outstanding, "number, _ = self._flying.pop(", "number, _ = self._flying.get("),
    (outstanding, "for ticket in self.checked(tickets):", "for ticket in tickets:"),
    (outstanding, "self._waiting = sorted(", "self._waiting = list("),
    (outstanding, "sorted(out)", "out"),
    (outstanding, "self._waiting.pop()", "self._waiting.pop(0)"),
    (places, "self.position = position + 1", "self.position = position"),
    (places, "self._ahead = self._taken_from(position)", "pass"),
    (places, "place += len(rows)", "place += LOOKED_AT"),
    (places, "epoch=epoch, position=position)", "epoch=0, position=position)"),
    (places, "state.epoch * self.num_rows + state.position", "state.position"),
    (places, "dict(self.counts)", "dict.fromkeys(self.counts, 0)"),
    (places, 'self.counts["taken"] += 1', "pass"),
    (queue, "self._out.remove(given)", "self._out.remove(given[:1])"),
    (queue, "given = self._out.checked(tickets)", "given = list(tickets)"),
    (queue, "self.in_flight < self.max_in_flight", "True"),
    (queue, "places.load(saved.get(name), curriculum)", "pass"),
    (queue, "self._out.take_back(version) or", ""),
    (shares, "(w := self.weights[n]) > 0", "(w := self.weights[n]) > 0.7"),
]
"""A line of a module, and what it is changed to: each change was seen to be found."""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, pf.dataset.ParquetDataset]:
    folder = tmp_path_factory.mktemp("prompts")
    datasets = {}
    for name, size in SIZES.items():
        table = pa.table({"prompt": [f"{name} {row}" for row in range(size)]})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=5)
        path: Path = folder / f"{name}.parquet"
        datasets[name] = pf.parquet(path, column="prompt")
    return datasets


def run(data, seed: int) -> None:
    """Run a schedule on one dataset, or on two by weights."""
    names = [*SIZES] if seed % 2 else ["math"]
    weighted = {name: (data[name], 0.7 if name == "math" else 0.3) for name in names}

    def make(max_in_flight: int) -> pf.PromptQueue:
        return pf.PromptQueue(weighted, seed=3, epochs=2, max_in_flight=max_in_flight)

    Schedule(make, {name: SIZES[name] for name in names}, 2, seed).run()


@pytest.mark.parametrize("seed", range(scaled(20)))
def test_each_prompt_is_finished_once_in_each_pass(data, seed):
    run(data, seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_many_schedules(data, part):
    for seed in range(100 * part, 100 * (part + 1)):
        run(data, 1000 + seed)


def plant(monkeypatch, module, old: str, new: str) -> None:
    """Change a line of a module, and put what it defines in place."""
    source = inspect.getsource(module)
    assert source.count(old) >= 1, f"{old!r} is no longer in {module.__name__}"
    names = {"__name__": module.__name__}
    exec(compile(source.replace(old, new, 1), module.__file__, "exec"), names)
    for name, changed in names.items():
        before = getattr(module, name, None)
        if getattr(changed, "__module__", None) != module.__name__:
            continue
        if isinstance(changed, type):
            for member, value in vars(changed).items():
                if inspect.isroutine(value) or isinstance(value, property):
                    monkeypatch.setattr(before, member, value)
        elif inspect.isfunction(changed) and hasattr(queue, name):
            monkeypatch.setattr(queue, name, changed)


@pytest.mark.parametrize(
    "fault", range(len(FAULTS)), ids=[f"{f[1]} -> {f[2]}" for f in FAULTS]
)
def test_planted_faults_are_found(data, monkeypatch, fault):
    plant(monkeypatch, *FAULTS[fault])

    def run_some() -> None:
        for seed in range(40):
            run(data, seed)

    with pytest.raises(Exception):  # noqa: PT011, B017 - whatever notices it
        run_some()
