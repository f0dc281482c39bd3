"""Real processes: ranks that are killed and resumed, forks, spawns, Ctrl-C, exits."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pagefeed
from made import numbered
from made.numbered import numbered_loader, write_numbered

# From Python 3.12 on a fork beside threads is warned of; these forks are the point.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")

TESTS = Path(numbered.__file__).parents[1]
PACKAGES = Path(pagefeed.__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered")
    write_numbered(path, num_rows=600)
    return path


def run_program(program, *, stdin=None):
    """Run a program in a fresh interpreter that finds this package and the helpers."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGES), str(TESTS)])},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Its output; a process that hangs fails the test."""
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return output, errors


# Ranks that are killed.


def join_environment(rank, world_size, _folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))


def join_gloo(rank, world_size, folder):
    import torch.distributed

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world_size,
    )
    torch.distributed.barrier()


def consume(join, rank, world_size, batch_size, data, state, folder):
    """Be a rank: write down every batch and the state after it, unbuffered."""
    join(rank, world_size, folder)
    loader = numbered_loader(
        data, batch_size=batch_size, rank=None, world_size=None, drop_last=False
    )
    assert (loader.rank, loader.world_size) == (rank, world_size)
    loader.load_state_dict(state)
    log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pause = random.Random(rank + os.getpid())
    for batch in loader:
        tokens = batch["input_ids"][batch["input_ids"] >= 0].tolist()
        line = json.dumps({"tokens": tokens, "state": loader.state_dict()}) + "\n"
        os.write(log, line.encode())
        time.sleep(pause.random() / 200)
    os.write(log, b"end\n")


def read_logs(folder, world_size):
    """The whole lines that each rank has written so far."""
    logs = []
    for rank in range(world_size):
        path = folder / f"{rank}.log"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        logs.append([line.rstrip() for line in lines if line.endswith("\n")])
    return logs


def run_until_killed(join, world_size, batch_size, data, state, folder, num_lines):
    """Run all ranks; kill them once one of them has written so many lines."""
    context = multiprocessing.get_context("fork")
    ranks = [
        context.Process(
            target=consume,
            args=(join, rank, world_size, batch_size, data, state, folder),
        )
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks):
        if max(map(len, read_logs(folder, world_size))) >= num_lines:
            for process in random.sample(ranks, len(ranks)):
                process.kill()
        time.sleep(0.002)
    for process in ranks:
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
    return read_logs(folder, world_size)


@pytest.mark.parametrize(("launcher", "rounds"), [("environment", 30), ("gloo", 8)])
def test_ranks_killed_at_any_step_and_resumed_as_others_make_one_epoch(
    folder, tmp_path, launcher, rounds
):
    join, world_sizes = join_environment, [1, 2, 3, 4]
    if launcher == "gloo":
        pytest.importorskip("torch", reason="the extra torch is not installed")
        join, world_sizes = join_gloo, [2, 4]
    random.seed(3)
    state: dict[str, Any] = {}
    seen: list[int] = []
    kills = 0
    for number in range(rounds):
        here = tmp_path / str(number)
        here.mkdir()
        num_lines = random.randint(1, 9) if number < rounds - 1 else 10**9
        world_size, batch_size = random.choice(world_sizes), random.randint(1, 3)
        logs = run_until_killed(
            join, world_size, batch_size, folder, state, here, num_lines
        )
        # What some ranks did beyond the last step that all have passed is undone.
        passed = min(sum(line != "end" for line in lines) for lines in logs)
        steps = [[json.loads(line) for line in lines[:passed]] for lines in logs]
        for ranks in zip(*steps, strict=True):
            state = ranks[0]["state"]
            assert all(rank["state"] == state for rank in ranks)
            seen += [token for rank in ranks for token in rank["tokens"]]
        finished = all(lines[-1:] == ["end"] for lines in logs)
        assert finished == (number == rounds - 1)
        kills += not finished
    assert kills == rounds - 1
    source = numbered_loader(folder).view().run
    num_tokens = source.datasets[0].index.num_values
    assert sorted(seen) == list(range(num_tokens))


# Forks and spawns.

FORK = """
import os, sys
from made.numbered import first_tokens, numbered_loader
from pagefeed.errors import CancelledError

whole = [first_tokens(batch) for batch in numbered_loader(sys.argv[1])]
loader = numbered_loader(sys.argv[1])
running = iter(loader)
head = [first_tokens(next(running)) for _ in range(3)]
state = loader.state_dict()
children = []
for number in range(12):
    child = os.fork()
    if child == 0:
        try:
            next(running)
        except CancelledError as error:
            assert "iter(loader)" in str(error)
        else:
            raise AssertionError("threads that are not there gave a batch")
        assert loader.state_dict() == state
        if number % 2:
            loader.seek(5)
        found = [first_tokens(batch) for batch in loader]
        assert found == whole[5 * (number % 2) :]
        sys.exit()
    children.append(child)
assert head + [first_tokens(batch) for batch in running] == whole
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
print("done")
"""


def test_a_fork_gets_an_error_then_its_own_iteration_and_the_parent_goes_on(folder):
    program = f"import sys; sys.argv = ['', {str(folder)!r}]\n{FORK}"
    output, errors = finish(run_program(program))
    assert (output, errors) == ("done\n", "")


def test_a_spawned_process_continues_a_pickled_loader(folder):
    whole = numbered.rows_of(numbered_loader(folder))
    loader = numbered_loader(folder)
    iterator = iter(loader)
    head = [token for _ in range(2) for token in numbered.first_tokens(next(iterator))]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        rest = pool.apply(numbered.rows_of, (loader,))
    assert head + rest == whole


# The end of a process.

ENDLESS = """
from made.numbered import numbered_loader
loader = numbered_loader({folder!r}, epochs=None, {options})
iterator = iter(loader)
next(iterator)
print("running", flush=True)
while True:
    next(iterator)
"""


@pytest.mark.parametrize(
    "options", ["", "batch_size=20_000, memory='6MiB', shuffle='row'"]
)
def test_ctrl_c_ends_a_loop(folder, options):
    process = run_program(ENDLESS.format(folder=str(folder), options=options))
    assert process.stdout
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    _, errors = finish(process)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


INDEXING = """
from pagefeed import _core
try:
    print("building", flush=True)
    _core.Index.build(
        [{path!r}] * 1_000_000, "input_ids",
        page_index=True, verify_checksums=True, num_threads=2,
    )
finally:
    print("left", flush=True)
"""


def test_ctrl_c_ends_an_index_build(folder):
    """A million files take longer than a test may: it must end before they are read."""
    path = str(next(folder.glob("*.parquet")))
    process = run_program(INDEXING.format(path=path))
    assert process.stdout
    assert process.stdout.readline() == "building\n"
    process.send_signal(signal.SIGINT)
    output, errors = finish(process)
    assert process.returncode == -signal.SIGINT
    assert output == "left\n"
    assert errors.rstrip().endswith("KeyboardInterrupt")


ENDINGS = {
    "iterating": "",
    "closed": "iterator.close()",
    "without the loader": "del loader",
    "in a cycle": "loader.itself, loader.iterator = loader, iterator",
    "in the loop": "sys.exit(0)",
    "from a thread": "threading.Thread(target=lambda: list(iterator)).start()",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_ends_in_the_middle_of_an_iteration(folder, ending):
    program = f"""
import sys, threading
from made.numbered import numbered_loader
loader = numbered_loader({str(folder)!r})
iterator = iter(loader)
batch = next(iterator)
{ENDINGS[ending]}
"""
    process = run_program(program)
    assert finish(process) == ("", "")
    assert process.returncode == 0


def test_threads_end_with_their_loader(folder):
    program = f"""
import gc
from made.numbered import numbered_loader
from models.tasks import ends, tasks
before = tasks()
loader = numbered_loader({str(folder)!r}, num_threads=3, warn_after=None)
iterator = iter(loader)
batch = next(iterator)
started = tasks() - before
assert len(started) == 3
del loader, iterator
gc.collect()
assert ends(started)
assert batch["input_ids"].sum()
"""
    process = run_program(program)
    assert finish(process) == ("", "")


def test_a_fresh_process_takes_its_rank_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    process = run_program(
        "from made.numbered import numbered_loader\n"
        f"loader = numbered_loader({str(folder)!r}, rank=None, world_size=None)\n"
        "print(loader.rank, loader.world_size)"
    )
    assert finish(process) == ("2 3\n", "")


# Limits of a process.


def test_many_datasets_need_few_descriptors(tmp_path):
    for number in range(150):
        (tmp_path / f"{number}").mkdir()
        write_numbered(tmp_path / f"{number}", num_rows=2, first_token=number * 1000)
    process = run_program(
        f"""
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
import pagefeed as pf

parts = {{
    str(n): pf.parquet(f"{tmp_path}/{{n}}", column="input_ids") for n in range(150)
}}
mixed = pf.mix(parts, temperature=1e9, max_steps=450)
fields = ["input_ids", "loss_mask"]
settings = dict(batch_size=1, fields=fields, memory="8MiB", num_threads=2)
settings |= dict(rank=0, world_size=1)
loader = pf.Loader(mixed, sequences=pf.Windows(8), **settings)
print(len({{int(batch["input_ids"][0, 0]) // 1000 for batch in loader}}))
"""
    )
    assert finish(process) == ("150\n", "")
