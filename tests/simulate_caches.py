"""Caches whose users are killed at any write, run out of room, or build together.

    .venv/bin/python tests/simulate_caches.py --seed 7
    .venv/bin/python tests/simulate_caches.py --first 0 --count 1000

Processes share an index, arrays that are derived from it, and pages of a storage. A
seed decides who reads, and where each is stopped. A limit on the size of files makes
any write the last one: it kills the process, or fails as on a full disk. Others are
killed after some time. What they leave must serve a process that nobody stops.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401 - Once, before processes fork.
import pyarrow.parquet as pq

import pagefeed as pf
from made.numbered import write_numbered
from pagefeed.errors import FileAccessError
from servers.web_servers import Handler, WebServer

RIGHT, REFUSED, WRONG = 0, 3, 4
LARGEST_FILE = 13_000
"""Somewhat more bytes than the files of these caches have."""
NUM_STEPS = 12
FORKS = multiprocessing.get_context("fork")


def write_files(folder: Path) -> None:
    """Write tokens with a quality to select by."""
    write_numbered(folder)
    for path in folder.iterdir():
        table = pq.read_table(path)
        quality = [row % 10 / 10 for row in range(len(table))]
        table = table.append_column("quality", [quality])
        pq.write_table(table, path, row_group_size=100, data_page_size=256)


def read(urls: list[str], caches: Path) -> list[Any]:
    """Return some batches, which need an index, a selection and the rows' lengths."""
    data = pf.parquet(
        urls,
        column="input_ids",
        cache_dir=caches / "index",
        storage_cache="1GB",
        storage_options={"storage_cache_dir": str(caches / "pages")},
    )
    with pf.Loader(
        data.where("quality > 0.25"),
        sequences=pf.Packed(64),
        batch_size=4,
        seed=3,
        memory="8MiB",
        num_threads=1,
        rank=0,
        world_size=1,
    ) as loader:
        batches = iter(loader)
        return [next(batches)["input_ids"].tolist() for _ in range(NUM_STEPS)]


def limit_files(num_bytes: int, *, is_deadly: bool) -> None:
    """Let a write behind so many bytes of a file kill this process, or fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if is_deadly else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def in_process(body: Callable[[], bool]) -> Any:
    """Start a process that ends with whether the body was right."""

    def live() -> None:
        code = WRONG
        try:
            code = RIGHT if body() else WRONG
        except FileAccessError:  # Not even temporary files can be written.
            code = REFUSED
        except BaseException:  # noqa: BLE001 - A fork must not go on as its parent.
            traceback.print_exc()
        os._exit(code)

    process = FORKS.Process(target=live)
    process.start()
    return process


class World:
    """Files behind a server, what is read of them, and folders of caches.

    Args:
        folder: For all of it.
    """

    def __init__(self, folder: Path) -> None:
        files = folder / "files"
        files.mkdir()
        write_files(files)
        server = WebServer(files, Handler)
        self.urls = [f"{server.url}/{path.name}" for path in sorted(files.iterdir())]
        self.caches = folder / "caches"
        self.server = FORKS.Process(target=server.serve_forever, daemon=True)
        self.server.start()
        server.server_close()
        receiver, sender = FORKS.Pipe(duplex=False)
        whole = folder / "whole"
        teller = FORKS.Process(target=lambda: sender.send(read(self.urls, whole)))
        teller.start()
        self.expected = receiver.recv()
        teller.join()

    def is_right(self) -> bool:
        return bool(read(self.urls, self.caches) == self.expected)

    def live(self, number: int) -> Counter[int]:
        """Stop some users; what they leave serves the next.

        Returns:
            How often users ended with each exit code.
        """
        rng = random.Random(number)
        if rng.random() < 0.3:
            shutil.rmtree(self.caches, ignore_errors=True)
        codes: Counter[int] = Counter()
        for _ in range(rng.randint(1, 3)):
            together = [self._user(rng) for _ in range(rng.randint(1, 3))]
            for user, end in together:
                user.join(end)
                if end is not None:
                    user.kill()
            for user, _ in together:
                user.join(100)
                assert user.exitcode is not None, f"seed {number}: one waits for ever"
                codes[user.exitcode] += 1
        stopped = {RIGHT, REFUSED, -signal.SIGKILL, -signal.SIGXFSZ}
        assert set(codes) <= stopped, f"seed {number}: {codes}"
        last = in_process(self.is_right)
        last.join(100)
        assert last.exitcode == RIGHT, f"seed {number}: {codes}, then {last.exitcode}"
        return codes

    def _user(self, rng: random.Random) -> tuple[Any, float | None]:
        """Return a process, and after how many seconds it is killed."""
        limit = rng.choice([None, rng.randrange(LARGEST_FILE), rng.randrange(600)])
        is_deadly = rng.random() < 0.7
        end = rng.random() * 0.2 if rng.random() < 0.5 else None

        def body() -> bool:
            warnings.simplefilter("ignore")  # Of folders that cannot be written.
            if limit is not None:
                limit_files(limit, is_deadly=is_deadly)
            return self.is_right()

        return in_process(body), end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, help="endless without")
    options = parser.parse_args()
    first = options.first if options.seed is None else options.seed
    count = options.count if options.seed is None else 1
    begin = time.monotonic()
    codes: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for number in itertools.count(first):
            if number - first == count:
                break
            codes += world.live(number)
        world.server.kill()
    ends = {
        RIGHT: "read all",
        REFUSED: "had no room",
        -signal.SIGXFSZ: "died of a write",
        -signal.SIGKILL: "were killed",
    }
    said = ", ".join(f"{codes[code]} {end}" for code, end in ends.items())
    print(f"{count} seeds, {time.monotonic() - begin:.0f} s: of the users {said}")


if __name__ == "__main__":
    main()
