"""Try the installed package on this interpreter, and print digests of what it delivers.

For example: python -W error packaging/check_python.py README.md corpus/web

A digest of the batches and states of the README's example, and one of the first batches
and states of 200 settings, must be equal on every Python, NumPy and processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import itertools
import json
import multiprocessing
import pickle
import platform
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import pagefeed as pf
from pagefeed.cli import VERBS, main

__all__ = ["readme", "settings"]

KINDS: tuple[Any, ...] = ("page", "row_group", "row", "buffer", None)


def digest(parts: Iterable[Any]) -> str:
    """Return a digest of batches and states."""
    found = hashlib.sha256()
    for part in parts:
        arrays = part if hasattr(part, "items") else {"": part}
        for name, value in sorted(arrays.items()):
            is_array = isinstance(value, np.ndarray)
            data = value.tobytes() if is_array else json.dumps(value).encode()
            found.update(name.encode() + data)
    return found.hexdigest()[:16]


def readme(page: Path) -> str:
    """Run the example of the README; return the digest of the rest of its epoch."""
    fence = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    [example, *_] = fence.findall(page.read_text())
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(example, names)  # noqa: S102 - our own page
    loader = names["loader"]
    return digest(itertools.chain(*((batch, loader.state_dict()) for batch in loader)))


def settings(corpus: str) -> str:
    """Return the digest of the first batches and states of 200 settings."""
    data = pf.parquet(corpus, column="input_ids")

    def parts() -> Iterable[Any]:
        for number in range(200):
            cut = pf.Packed if number % 2 else pf.Windows
            world_size = 1 + number % 5
            loader = pf.Loader(
                data,
                sequences=cut(64 + 16 * (number % 7), eos=0),
                batch_size=1 + number % 3,
                shuffle=pf.Shuffle(
                    block=KINDS[number % 5], passes=1 + (number % 5 < 2)
                ),
                seed=number,
                fields=("input_ids", "labels", "position_ids"),
                rank=number % world_size,
                world_size=world_size,
            )
            loader.seek(number % 11)
            yield next(iter(loader))
            yield loader.state_dict()
            loader.close()

    return digest(parts())


def first(batches: Iterable[Any]) -> str:
    """Return the digest of the first batches."""
    return digest(itertools.islice(batches, 5))


def send_first(loader: pf.Loader | bytes, connection: Any) -> None:
    """Send it to the process that started this one, of a pickled loader too."""
    given = pickle.loads(loader) if isinstance(loader, bytes) else loader  # noqa: S301
    connection.send(first(given))


def in_processes(make: Callable[[], pf.Loader]) -> None:
    """Read in two processes of each kind at a time, by DataLoader where torch is."""
    begun = make()
    batches = iter(begun)
    next(batches)
    # Pickled, a loader goes on where it was.
    pickled = pickle.dumps(begun)
    expected = [first(make()), first(pickle.loads(pickled))]  # noqa: S301
    for method in multiprocessing.get_all_start_methods():
        context: Any = multiprocessing.get_context(method)
        started, found = [], []
        for loader in (make(), pickled):
            receiver, sender = context.Pipe()
            process = context.Process(target=send_first, args=(loader, sender))
            with warnings.catch_warnings():
                # The engine's threads run, which a child goes without.
                warnings.filterwarnings("ignore", ".*multi-threaded, use of fork")
                process.start()
            started.append((process, receiver))
        for process, receiver in started:
            found.append(receiver.recv())
            process.join()
            assert process.exitcode == 0, (method, process.exitcode)
        assert found == expected, method
        if importlib.util.find_spec("torch") is not None:
            from torch.utils.data import DataLoader

            from pagefeed.torch import as_dataset

            workers = DataLoader(
                as_dataset(make()),
                batch_size=None,
                num_workers=1,
                multiprocessing_context=method,
            )
            arrays = ({n: np.asarray(v) for n, v in batch.items()} for batch in workers)
            assert first(arrays) == expected[0], method
    assert first(batches) == expected[1]


def in_threads(make: Callable[[], pf.Loader]) -> None:
    """Read two loaders in two threads at a time."""
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(first(make()))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first(make())] * 2


def in_subinterpreter() -> str:
    """Import the package in a subinterpreter, which may refuse it, and no more."""
    names = ("_interpreters", "_xxsubinterpreters")
    name = next(name for name in names if importlib.util.find_spec(name))
    interpreters: Any = importlib.import_module(name)
    number = interpreters.create()
    try:
        failed = interpreters.run_string(number, "import pagefeed; pagefeed.Loader")
    except Exception as error:  # noqa: BLE001 - of a class that some versions have
        failed = error
    interpreters.destroy(number)
    assert failed is None or "ImportError" in str(failed), failed
    return "works" if failed is None else "is refused"


def check(page: str, corpus: str) -> None:
    """Try all, and print what was found as JSON."""
    for verb in VERBS:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main([verb, "--help"])

    def make() -> pf.Loader:
        data = pf.parquet(corpus, column="input_ids")
        return pf.Loader(
            data,
            sequences=pf.Packed(128, eos=0),
            batch_size=2,
            seed=1,
            fields=("input_ids", "labels"),
        )

    found = {"readme": readme(Path(page)), "settings": settings(corpus)}
    assert first(pickle.loads(pickle.dumps(make()))) == first(make())  # noqa: S301
    in_processes(make)
    in_threads(make)
    more = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "subinterpreter": in_subinterpreter(),
    }
    assert first(make())
    print(json.dumps(found | more))


if __name__ == "__main__":
    check(*sys.argv[1:])
