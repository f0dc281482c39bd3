"""`python -m loaders` measures adapters, those of a user too, and says who failed."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from loaders.__main__ import PUBLISHED
from loaders.adapters import built_in, load
from loaders.orders import SHOWN
from loaders.picture import WIDTH, draw
from loaders.results import COLUMNS, page, table
from made.shared_data import ROOT

OWN = '''
import numpy as np
from loaders.protocol import Adapter, Replayed, Stateful


def batches(task, start=0, wrong=False):
    data = np.memmap(task.flat, np.uint16, "r").reshape(-1, task.length)
    for at in range(start, len(data) - task.batch_size + 1, task.batch_size):
        batch = data[at : at + task.batch_size].astype(np.int64)
        batch[:, 5] += wrong
        yield batch


class Shuffled:
    """A random order of all samples, with a position."""

    def __init__(self, task):
        self.data = np.memmap(task.flat, np.uint16, "r").reshape(-1, task.length)
        order = np.random.default_rng(task.seed).permutation(len(self.data))
        steps = len(order) // task.batch_size
        self.batches = order[: steps * task.batch_size].reshape(steps, -1)
        self.step = 0

    def __iter__(self):
        while self.step < len(self.batches):
            self.step += 1
            yield {"x": Batch(self.data[self.batches[self.step - 1]])}

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


class Batch(np.ndarray):
    def __new__(cls, array):
        return np.asarray(array).view(cls)

    def long(self):
        return np.asarray(self).astype(np.int64)


class Forgetful(Replayed):
    """Begins anew, whatever the state says."""

    def load(self, state):
        pass


def convert(task):
    (task.work / "copy").write_bytes(b"1234")


def named(name, make, **more):
    return Adapter(name="own: " + name, open=make, **more)


ADAPTERS = [
    named("shuffled", lambda task: Stateful(Shuffled(task), "x")),
    named("in order", lambda task: Replayed(batches(task))),
    named("forgets", lambda task: Forgetful(batches(task)), convert=convert),
    named("wrong", lambda task: Replayed(batches(task, wrong=True))),
    named("absent", None, needs=("no_such_module",)),
]
'''


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "loaders", *map(str, arguments)],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}/benchmarks:{ROOT}/python"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loaders")
    (folder / "own.py").write_text(OWN)
    asked = "--tokens 1e6 --length 64 --batch-size 16 --rounds 1 --seconds 0.2"
    written = "--json results.json --page page.md --picture rates.svg"
    options = f"--only own: --adapter own.py {asked} {written}".split()
    done = run(*options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "results.json").read_text()), done.stdout


def rows_of(measured):
    found = measured[1]["results"]
    return {row["loader"].removeprefix("own: "): row for row in found}


def test_all_that_was_asked_for_is_there(measured):
    rows = rows_of(measured)
    assert list(rows) == ["shuffled", "in order", "forgets", "wrong", "absent"]
    row = rows["shuffled"]
    assert row["rounds"] == 1
    assert row["tokens_per_second"] > 0
    assert row["cpu_seconds_per_1e9"] >= 0
    assert 0 <= row["wait_p50"] <= row["wait_p99"]
    assert row["run_peak_bytes"] > 1 << 20
    assert row["repeated"] == 0


def test_an_exact_resume_is_told_from_one_that_begins_anew(measured):
    rows = rows_of(measured)
    for name in ("shuffled", "in order"):
        assert rows[name]["same_batches"], name
        assert rows[name]["seen_again"] == 0
    assert not rows["forgets"]["same_batches"]
    assert rows["forgets"]["seen_again"] == 1
    assert "no, 100% seen before" in measured[2]


def test_an_order_is_told_from_a_shuffle(measured):
    rows = rows_of(measured)
    assert 0.5 < rows["shuffled"]["same_file"] < 1.5
    assert rows["in order"]["same_file"] > 7
    assert rows["in order"]["same_page"] > 20


def test_orders_are_compared_with_random_ones_under_many_seeds(measured):
    folder, found, _ = measured
    rows = rows_of(measured)
    assert rows["shuffled"]["orders"]["fails"] == []
    for name in ("in order", "forgets"):
        assert {"seeds", "mates", "parts"} <= {*rows[name]["orders"]["fails"]}
        assert rows[name]["orders"]["mates again"] > 10
    rates = found | {"results": [row | {"orders": None} for row in found["results"]]}
    (folder / "again.json").write_text(json.dumps(rates))
    chosen = ("--only", "shuffled", "--adapter", "own.py", "--batch-size", "16")
    done = run(*chosen, "--orders", "--json", "again.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    again = json.loads((folder / "again.json").read_text())["results"]
    for name in ("fails", *SHOWN):
        assert again[0]["orders"][name] == rows["shuffled"]["orders"][name]
    assert again[1]["orders"] is None
    assert "| own: in order | not measured |" in done.stdout


def test_conversion_and_failures_are_in_the_table(measured):
    rows = rows_of(measured)
    assert rows["forgets"]["convert"]["bytes"] >= 4
    assert "differs from the data" in rows["wrong"]["failed"][0]
    assert rows["absent"]["failed"] == ["not installed: no_such_module"]
    for line in table(measured[1]["results"]):
        assert line.count("|") == len(COLUMNS) + 1, line


def test_page_and_picture_show_every_loader_that_ran(measured):
    folder, found, _ = measured
    text = (folder / "page.md").read_text()
    assert "](rates.svg)" in text
    assert text == page(found, "rates.svg")
    drawn = ET.fromstring((folder / "rates.svg").read_text())
    texts = ["".join(each.itertext()) for each in drawn.iter() if "text" in each.tag]
    assert {f"own: {name}" for name in ("shuffled", "in order", "forgets")} <= set(
        texts
    )
    assert "own: wrong" not in texts
    widths = [float(e.attrib["width"]) for e in drawn.iter() if e.get("height") == "10"]
    assert len(widths) == 3
    assert all(0 < width < WIDTH for width in widths)


def test_what_is_published_is_of_one_run():
    found = json.loads(PUBLISHED["json"].read_text())
    assert PUBLISHED["page"].read_text() == page(found, "../pictures/rates.svg")
    assert PUBLISHED["picture"].read_text() == draw(found)


def test_picture_of_nothing_is_a_picture():
    found = {"results": [], "machine": {"processors": 1}, "settings": {"rounds": 1}}
    ET.fromstring(draw(found))


def test_every_adapter_can_be_loaded_without_its_loader():
    names = [name for file in built_in() for name in load(file)]
    assert names[0].startswith("pagefeed")
    assert len(names) == len(set(names)) >= 10


def test_wrong_requests_say_what_is_wrong(tmp_path):
    (tmp_path / "empty.py").write_text("")
    done = run("--only", "pagefed", cwd=tmp_path)
    assert "no loader has 'pagefed' in its name" in done.stderr
    done = run("--only", "pagefeed", "--adapter", "empty.py", cwd=tmp_path)
    assert "expected a list ADAPTERS, found None" in done.stderr
    done = run("--adapter", "no.py", cwd=tmp_path)
    assert "no.py is no Python file" in done.stderr
