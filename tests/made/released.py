"""What a release promises to read and to repeat: files, orders and states of it.

``python tests/made/released.py VERSION`` writes those of this version into
``tests/integration/runs/released``. Released ones are never written again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pagefeed as pf
from made.numbered import write_numbered

FOLDER = Path(__file__).parents[1] / "integration" / "runs" / "released"
STEPS_BEFORE, STEPS_AFTER = 3, 3


def write_data(folder: Path) -> None:
    """The files that a release keeps: a stream by its own writer, and small pages."""
    with pf.StreamWriter(
        folder / "stream", dtype=[("token", "u2"), ("weight", "f4")], serialize="bytes"
    ) as out:
        for number in range(30):
            tokens = np.arange(5 + 7 * number % 31) + 40 * number
            spans = [(1, 3, b"span %d" % number)]
            out.append(tokens, weight=tokens / 4, spans=spans)
    (folder / "parquet").mkdir()
    write_numbered(folder / "parquet", num_files=2, num_rows=150)


def files_of(folder: Path) -> dict[str, str]:
    """The files below a folder by name, as texts."""
    return {
        str(path.relative_to(folder)): base64.b85encode(path.read_bytes()).decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def put_files(files: dict[str, str], folder: Path) -> None:
    """Write the files of a release."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(base64.b85decode(text))


def loaders(folder: Path) -> dict[str, Callable[[], pf.Loader]]:
    """A loader of every kind of order, over the files of a release."""
    data = pf.parquet(folder / "parquet", column="input_ids")

    def make(sequences: Any, source: Any = None, **settings: Any) -> pf.Loader:
        given: dict[str, Any] = {"seed": 11, "rank": 1, "world_size": 2}
        if not {"batch_tokens", "global_batch_size"} & settings.keys():
            given["batch_size"] = 2
        return pf.Loader(
            data if source is None else source,
            sequences=sequences,
            fields=("input_ids", "labels"),
            num_threads=1,
            **given | settings,
        )

    windows, packed = pf.Windows(24, eos=0), pf.Packed(48, eos=0)

    def mixture() -> pf.Mixture:
        later = pf.Stage(start_step=4, weights={"a": 0.2, "b": 0.8})
        parts = {"a": (data, 0.7), "b": (data.take(share=0.5, seed=1), 0.3)}
        return pf.mix(parts, stages=[later])

    def shuffle(block: Any, passes: int = 1) -> pf.Shuffle:
        return pf.Shuffle(block=block, window=144, passes=passes)

    return {
        "windows, page": lambda: make(windows, shuffle=shuffle("page")),
        "windows, row group": lambda: make(windows, shuffle=shuffle("row_group")),
        "windows, row": lambda: make(windows, shuffle="row"),
        "windows, two passes": lambda: make(windows, shuffle=shuffle("page", 2)),
        "windows, buffer": lambda: make(windows, shuffle=shuffle("buffer")),
        "windows, in file order": lambda: make(windows, shuffle=None),
        "windows, of a stream": lambda: make(windows, pf.stream(folder / "stream")),
        "packed": lambda: make(packed),
        "packed, balanced": lambda: make(packed, balance="attention"),
        "documents": lambda: make(pf.Documents(max_length=32)),
        "documents, a budget": lambda: make(
            pf.Documents(max_length=32), batch_tokens=128
        ),
        "a global batch": lambda: make(windows, global_batch_size=6),
        "infilled": lambda: make(
            packed, data.infill(pf.Infill(rate=0.5, prefix=1, middle=2, suffix=3))
        ),
        "a mixture": lambda: make(windows, mixture(), epochs=None),
    }


def digest_of(batch: dict[str, Any]) -> str:
    """A digest of the tokens and labels of a batch."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("input_ids", "labels"):
        digest.update(np.ascontiguousarray(batch[name]).astype("<i8").tobytes())
    return digest.hexdigest()


def steps_of(loader: pf.Loader, count: int) -> list[str]:
    """Digests of the next steps of a loader."""
    batches = iter(loader)
    return [digest_of(next(batches)) for _ in range(count)]


def record(folder: Path) -> dict[str, Any]:
    """The first steps, the state after them and the next steps, of every kind."""
    found = {}
    for name, make in loaders(folder).items():
        loader = make()
        first = steps_of(loader, STEPS_BEFORE)
        state = loader.state_dict()
        again = make()
        again.load_state_dict(state)
        found[name] = {
            "first": first,
            "state": state,
            "next": steps_of(again, STEPS_AFTER),
        }
    return found


def main() -> None:
    """Write the files of a release, unless they are there."""
    path = FOLDER / f"{sys.argv[1]}.json"
    if path.exists():
        raise SystemExit(f"{path} is released, and stays as it is")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_data(folder)
        kept = {"files": files_of(folder), "orders": record(folder)}
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
