"""Scripts run as a launcher would, in processes forked where torch is imported already.

Frameworks take longer to be imported than most of their tests do.
"""

import multiprocessing
import os
import runpy
import socket
import sys
from collections.abc import Iterable
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import mkstemp
from unittest.mock import patch

TORCH = ("torch.distributed.device_mesh", "torch.nn.functional", "pagefeed.torch")
"""What scripts import that need no framework beside it."""
BEFORE_IMPORTS = {
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    "PYTHONWARNINGS": "ignore",
}


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def launch(
    argv: list[str],
    folder: Path,
    *,
    world_size: int = 1,
    expect: int = 0,
    imports: Iterable[str] = TORCH,
) -> str:
    """Run a script in a folder, on all ranks as torchrun does; returns what they print.

    Args:
        argv: Path and arguments of the script.
        folder: The working folder, which also takes the output.
        world_size: How many ranks.
        expect: The exit status of each.
        imports: Modules that are imported once, by the first call.
    """
    shared = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(free_port()),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["made.launched", *imports])
    with patch.dict(os.environ, BEFORE_IMPORTS):
        forkserver.ensure_running()
    outputs = [Path(mkstemp(dir=folder, suffix=".txt")[1]) for _ in range(world_size)]
    processes = [
        forks.Process(
            target=run_rank,
            args=(argv, folder, output),
            kwargs=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, output in enumerate(outputs)
    ]
    try:
        for process in processes:
            process.start()
        while running := [each for each in processes if each.exitcode is None]:
            assert wait([each.sentinel for each in running], 600), "timed out"
            if any(each.exitcode not in (None, expect) for each in running):
                break  # The others might wait for it.
    finally:
        for process in processes:
            process.kill()
            process.join()
    printed = "".join(output.read_text() for output in outputs)
    codes = [process.exitcode for process in processes]
    assert codes == [expect] * world_size, f"{codes}\n{printed}"
    return printed


def run_rank(argv: list[str], folder: Path, output: Path, **environment: str) -> None:
    """Run a script in this process, which is one rank."""
    multiprocessing.set_start_method("fork", force=True)  # Not as this one started.
    os.environ.update(environment)
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    runpy.run_path(argv[0], run_name="__main__")
