"""Nodes that agree pass; each thing on which one differs is named."""

import json
from pathlib import Path
from typing import Any

import pytest

import pagefeed as pf
from made.numbered import LENGTH, numbered_loader, write_numbered
from pagefeed.cli import main

RANKS = {0: range(2), 1: range(2, 4)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("nodes")
    write_numbered(path)
    return path


def facts(folder, node: int, **options: Any) -> dict[str, Any]:
    loader = numbered_loader(folder, world_size=4, rank=RANKS[node][0], **options)
    made = json.loads(json.dumps(pf.reports.facts_of_node(loader, RANKS[node])))
    return {**made, "written": made["clock"], "host": f"node-{node}"}


def wrong(*nodes: dict[str, Any]) -> dict[str, str]:
    return {
        check.name: check.result
        for check in pf.reports.check_nodes(nodes)
        if check.ok is False
    }


def test_nodes_that_agree_pass(folder):
    assert wrong(facts(folder, 0), facts(folder, 1)) == {}


def test_memory_that_caches_files_can_be_had(folder):
    def read() -> dict[str, int]:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = dict(line.split(":") for line in lines)
        return {name: int(size.split()[0]) << 10 for name, size in sizes.items()}

    before, found, after = read(), facts(folder, 0)["memory_free_bytes"], read()
    free = max(before["MemFree"], after["MemFree"])
    available = min(before["MemAvailable"], after["MemAvailable"])
    if available - free < 1 << 28:
        pytest.skip("too few files are cached to tell")
    assert found > (free + available) / 2


def test_another_plan_is_found(folder):
    found = wrong(facts(folder, 0), facts(folder, 1, seed=6))
    assert set(found) >= {"plan"}
    assert "node-1" in found["plan"] or "node-0" in found["plan"]


def test_other_data_is_found(folder, tmp_path):
    write_numbered(tmp_path, num_rows=301)
    assert set(wrong(facts(folder, 0), facts(tmp_path, 1))) >= {"dataset", "plan"}


CHANGES: dict[str, dict[str, Any]] = {
    "versions": {"versions": {"pagefeed": "9.9"}},
    "clock": {"written": 0.0},
    "open files": {"open_files": 64},
    "disk": {"disk_free_bytes": 1},
    "memory": {"memory_free_bytes": 1 << 20},
    "ranks": {"ranks": [1, 2]},
    "cache": {"cache": {"folder": "/cache", "writable": False, "error": "read only"}},
    "exactly once": {"problems": ["3 sequences are delivered more than once"]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_is_named(name, folder):
    other = facts(folder, 1) | CHANGES[name]
    assert name in wrong(facts(folder, 0), other)


def test_a_sequence_on_two_ranks_is_found(folder):
    first, second = facts(folder, 0), facts(folder, 1)
    step = next(iter(first["steps"]))
    second["steps"][step]["2"][0] = first["steps"][step]["0"][0]
    assert "1 sequences on several ranks" in wrong(first, second)["exactly once"]


@pytest.mark.parametrize("apart", [4.9, -4.9, 5.1, -5.1])
def test_clocks_may_be_five_seconds_apart(folder, apart):
    first = facts(folder, 0)
    other = facts(folder, 1)
    other["clock"] = other["written"] + apart
    assert ("clock" in wrong(first, other)) == (abs(apart) > 5)


def test_the_largest_world_says_which_ranks_there_are(folder):
    first = facts(folder, 0)
    found = wrong(first, first | {"world_size": 2, "ranks": [1]})["ranks"]
    assert "world sizes differ: 2, 4" in found
    assert "on no node: ranks 2, 3" in found
    assert "on several nodes: ranks 1" in found


def test_a_node_that_is_missing_is_found(folder):
    assert "ranks 2, 3" in wrong(facts(folder, 0))["ranks"]


def test_the_command_line(folder, tmp_path, capsys):
    run = ["check", str(folder), "--column", "input_ids", "--length", str(LENGTH)]
    run += ["--world-size", "4", "--memory", "8MiB"]
    files = [str(tmp_path / f"node-{node}.json") for node in RANKS]
    for file, ranks in zip(files, ("0:2", "2:4"), strict=True):
        assert main([*run, "--ranks", ranks, "--facts", file]) == 0
    capsys.readouterr()
    assert main(["check", "--compare", *files]) == 0
    assert "each sequence once in the epoch" in capsys.readouterr().out
    assert main(["check", "--compare", files[0], "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["ok"]
    assert main(run) == 0
    assert "4 ranks on 1 nodes, each once" in capsys.readouterr().out
    for words, message in (
        (["--facts", files[0], "--compare", files[0]], "not both"),
        ([], "nothing is named"),
        (["--compare", str(tmp_path / "none.json")], "no facts"),
        (["--facts", files[0]], "nothing is named"),
    ):
        assert main(["check", *words]) == 2
        assert message in capsys.readouterr().err
    assert main([*run, "--ranks", "1", "--facts", files[0]]) == 2
    assert "FIRST:END" in capsys.readouterr().err
