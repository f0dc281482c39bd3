"""Texts with images, decoded and packed: pagefeed, `datasets`, and WebDataset's form.

    python benchmarks/bench_images.py [--images 800] [--rounds 3] [--workers 2] [--page]

``--page`` writes the table into docs/explanation/images.md. It takes some two minutes.

All deliver the same JPEGs as arrays, in sequences of 2048 tokens (a token for every 28
x 28 pixels), 4 a step, shuffled. ``datasets`` streams the Parquet files through a
buffer of 1000 rows, ``webdataset`` the same rows as tar files; both behind a
``torch.utils.data.DataLoader`` whose workers decode, with a collator that packs rows as
they come. Each run is a process of its own, and they take turns. Images a second are
medians, by the clock and by the processor (that of workers counts). Memory is the most
that a process and its workers held (PSS). Waits are the share of time in which a
consumer that takes 30 ms a step had no batch. Of a resume of pagefeed in the middle of
the epoch, ``first batch`` is the time from the state to the next batch, and ``exact``
whether exactly the batches came that were left; the others lose what their buffers of
rows hold, or have no state.
"""

import argparse
import io
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

LENGTH, BATCH_SIZE, FILES, STEP_SECONDS, BUFFER = 2048, 4, 4, 0.03, 1000
PLACEHOLDER, SIDE = "<image>", 28
WORDS = [f"w{n}" for n in range(500)]
LOADERS = {
    "pagefeed": (),
    "datasets": ("not measured", "the buffer of rows is lost"),
    "webdataset": ("no state", "-"),
}
"""Loaders, and what the table says of a resume of those that have no exact one."""
LABELS = (
    *("", "---", "images a second", "images a processor second", "waits", "memory"),
    *("first batch of a resume", "batches after a resume"),
)
"""First cells of the rows of the table."""
PAGE = Path(__file__).resolve().parent.parent / "docs/explanation/images.md"
TABLE = re.compile(r"^\| \| pagefeed .*?^Medians of .*?$", re.DOTALL | re.MULTILINE)
"""The table of loaders in the page, and the line beneath it."""


def tokens(width: int, height: int) -> int:
    """Return the tokens of an image."""
    return -(-width // SIDE) * -(-height // SIDE)


def decode(data: bytes | memoryview) -> np.ndarray:
    """Return the pixels of an image."""
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


def tokenizer() -> Tokenizer:
    """Return a tokenizer of words."""
    words = {word: n for n, word in enumerate(["?", *WORDS])}
    made = Tokenizer(models.WordLevel(words, unk_token="?"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens([AddedToken(PLACEHOLDER, special=True)])
    return made


def write(folder: Path, num_images: int) -> None:
    """Write rows of one to three images as Parquet and as tar files."""
    rng = np.random.default_rng(1)
    rows: list[dict[str, Any]] = []
    while sum(len(row["images"]) for row in rows) < num_images:
        images, words = list[bytes](), [f"w{len(rows) % 500}"]
        for _ in range(int(rng.integers(1, 4))):
            width, height = rng.integers(200, 500, 2).tolist()
            coarse = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
            out = io.BytesIO()
            Image.fromarray(coarse).resize((width, height)).save(out, "JPEG")
            images.append(out.getvalue())
            words += [
                PLACEHOLDER,
                *rng.choice(WORDS, int(rng.integers(5, 60))).tolist(),
            ]
        rows.append({"id": len(rows), "text": " ".join(words), "images": images})
    kind = pa.schema(
        [("id", pa.int64()), ("text", pa.string()), ("images", pa.list_(pa.binary()))]
    )
    for number, part in enumerate(np.array_split(np.arange(len(rows)), FILES)):
        some = [rows[row] for row in part.tolist()]
        table = pa.Table.from_pylist(some, kind)
        path = folder / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=100, write_batch_size=4)
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for row in some:
                names = {"json": json.dumps({"id": row["id"], "text": row["text"]})}
                parts = {name: text.encode() for name, text in names.items()}
                parts |= {f"{n}.jpg": data for n, data in enumerate(row["images"])}
                for name, data in parts.items():
                    info = tarfile.TarInfo(f"{row['id']:06}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


class Pack:
    """Packs rows as they come into steps of whole sequences, as collators do."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield steps."""
        library = tokenizer()
        image_id = library.token_to_id(PLACEHOLDER)
        ids = np.zeros((BATCH_SIZE, LENGTH), dtype=np.int64)
        place, used = 0, 0
        images, seen = list[np.ndarray](), list[int]()
        for row in self.rows:
            pixels = [decode(data) for data in row["images"]]
            found = np.array(library.encode(row["text"]).ids)
            times = np.ones(len(found), dtype=np.int64)
            times[found == image_id] = [tokens(*p.shape[1::-1]) for p in pixels]
            found = np.repeat(found, times)
            if used + len(found) > LENGTH:
                place, used = place + 1, 0
            if place == BATCH_SIZE:
                yield {"input_ids": ids, "images": images, "rows": seen}
                ids = np.zeros((BATCH_SIZE, LENGTH), dtype=np.int64)
                place, images, seen = 0, [], []
            ids[place, used : used + len(found)] = found
            used += len(found)
            images += pixels
            seen.append(row["id"])


def steps_of_pagefeed(folder: Path, workers: int, state: Any) -> Any:
    """Return a loader, and what a step has."""
    import pagefeed as pf

    data = pf.with_images(
        pf.parquet(
            folder / "*.parquet",
            column="text",
            metadata=["id"],
            cache_dir=folder / "index",
        ).tokenize(pf.Tokenizer(tokenizer())),
        "images",
        placeholder=PLACEHOLDER,
        tokens=tokens,
        decode=decode,
    )
    loader = pf.Loader(
        data,
        sequences=pf.Packed(LENGTH, split="never"),
        batch_size=BATCH_SIZE,
        seed=1,
        fields=("input_ids", "labels", "metadata"),
        num_threads=workers,
        memory="512MiB",
    )
    if state is not None:
        loader.load_state_dict(state)

    def told(batch: Any) -> tuple[list[int], int]:
        ids = pa.table(batch["metadata"])["id"].to_pylist()
        return ids, len(batch["images"]["data"])

    return loader, told


class Rows:
    """Rows of `datasets` or of tar files, on a worker of a DataLoader."""

    def __init__(self, kind: str, folder: Path, state: Any = None) -> None:
        self.kind, self.folder = kind, folder
        if kind == "datasets":
            from datasets import load_dataset

            files = [str(folder / f"{n}.parquet") for n in range(FILES)]
            rows = load_dataset(
                "parquet", data_files=files, split="train", streaming=True
            )
            self.rows = rows.shuffle(seed=1, buffer_size=BUFFER)
            if state is not None:
                self.rows.load_state_dict(state)
        else:
            import webdataset

            urls = f"{folder}/{{0..{FILES - 1}}}.tar"
            rows = webdataset.WebDataset(
                urls, shardshuffle=FILES, nodesplitter=None, empty_check=False
            )
            self.rows = rows.shuffle(BUFFER).map(self.parsed)

    @staticmethod
    def parsed(sample: dict[str, Any]) -> dict[str, Any]:
        """Return a row of a sample of a tar file."""
        names = sorted(name for name in sample if name.endswith(".jpg"))
        return {**json.loads(sample["json"]), "images": [sample[n] for n in names]}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield rows."""
        return iter(self.rows)


def steps_of_rows(kind: str, folder: Path, workers: int, state: Any) -> Any:
    """Return a DataLoader, and what a step has."""
    from torch.utils.data import DataLoader, IterableDataset

    class Steps(IterableDataset[Any]):
        def __init__(self) -> None:
            self.pack = Pack(Rows(kind, folder, state))

        def __iter__(self) -> Iterator[Any]:
            return iter(self.pack)

    loader = DataLoader(Steps(), batch_size=None, num_workers=workers)
    return loader, lambda batch: (batch["rows"], len(batch["images"]))


def held_bytes() -> int:
    """Return what this process and its workers hold, shared pages divided."""
    total = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(entry) == os.getpid() or int(stat[1]) == os.getpid():
                rollup = Path(f"/proc/{entry}/smaps_rollup").read_text()
                [line] = [x for x in rollup.splitlines() if x.startswith("Pss:")]
                total += int(line.split()[1]) << 10
        except (OSError, IndexError, ValueError):
            continue  # It has ended.
    return total


def measure(kind: str, folder: Path, workers: int, step_seconds: float) -> None:
    """Run one epoch in this process, and print what it came to."""
    make = steps_of_pagefeed if kind == "pagefeed" else None
    most, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            most[0] = max(most[0], held_bytes())

    def steps(state: Any = None) -> Any:
        if make is not None:
            return make(folder, workers, state)
        return steps_of_rows(kind, folder, workers, state)

    watcher = threading.Thread(target=watch)
    loader, told = steps()
    images, waited, seen = 0, 0.0, []
    iterator = iter(loader)
    next(iterator)  # Imports and first pages are not what is compared.
    watcher.start()
    begin, first_cpu = time.monotonic(), cpu_seconds()
    while True:
        asked = time.monotonic()
        batch = next(iterator, None)
        waited += time.monotonic() - asked
        if batch is None:
            break
        rows, count = told(batch)
        seen += rows
        images += count
        time.sleep(step_seconds)
    wall = time.monotonic() - begin
    ended.set()
    watcher.join()
    del iterator
    if kind == "pagefeed":
        loader.close()
    found = {
        "images": images,
        "by_clock": images / wall,
        "by_processor": images / (cpu_seconds() - first_cpu),
        "waits": waited / wall,
        "memory": most[0],
    }
    if step_seconds and kind == "pagefeed":
        found |= resumed(steps)
    print(json.dumps(found))


def cpu_seconds() -> float:
    """Return the processor time of this process and its workers that have ended."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(who) for who in both]
    return sum(each.ru_utime + each.ru_stime for each in used)


def resumed(steps: Any) -> dict[str, Any]:
    """Resume in the middle of an epoch; return how long that took, and if exactly."""
    loader, told = steps()
    iterator, half = iter(loader), len(loader) // 2
    for _ in range(half):
        next(iterator)
    state = loader.state_dict()
    rest = [told(batch)[0] for batch in iterator]
    begin = time.monotonic()
    again, told = steps(state)
    iterator = iter(again)
    first = told(next(iterator))[0]
    seconds = time.monotonic() - begin
    found = [first, *(told(batch)[0] for batch in iterator)]
    return {"first_batch": seconds, "exact": found == rest}


Runs = dict[tuple[str, float], list[dict[str, Any]]]
"""The figures of each round, by loader and seconds a step."""


def table(runs: Runs) -> str:
    """Return the table of medians, as the page has it."""

    def median(rounds: list[dict[str, Any]], name: str) -> float:
        return statistics.median(figures[name] for figures in rounds)

    columns: list[list[str]] = []
    for kind, resume in LOADERS.items():
        fast, slow = runs[kind, 0.0], runs[kind, STEP_SECONDS]
        cells = [
            f"{median(fast, 'by_clock'):,.0f}",
            f"{median(fast, 'by_processor'):,.0f}",
            f"{100 * median(slow, 'waits'):.0f} %",
            f"{median(fast, 'memory') / (1 << 20):,.0f} MiB",
        ]
        if not resume:
            is_exact = all(figures["exact"] for figures in slow)
            cells.append(f"{1000 * median(slow, 'first_batch'):,.0f} ms")
            cells.append("those that were left" if is_exact else "others")
        name = kind if kind == "pagefeed" else f"`{kind}`"
        columns.append([name, "---", *cells, *resume])
    rows = zip(LABELS, *columns, strict=True)
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def main() -> None:
    """Measure all in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--one", choices=LOADERS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    asked = parser.parse_args()
    if asked.one:
        measure(asked.one, asked.folder, asked.workers, asked.step_seconds)
        return
    runs: Runs = {}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), asked.images)
        for _ in range(asked.rounds):
            for step_seconds in (0.0, STEP_SECONDS):
                for kind in LOADERS:
                    command = [sys.executable, __file__, "--one", kind]
                    command += ["--folder", folder, "--workers", str(asked.workers)]
                    command += ["--step-seconds", str(step_seconds)]
                    out = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                    figures = json.loads(out.stdout.splitlines()[-1])
                    runs.setdefault((kind, step_seconds), []).append(figures)
    made = table(runs)
    made += f"\n\nMedians of {asked.rounds} rounds with {asked.images:,} images."
    print(made)
    if asked.page:
        text, count = TABLE.subn(made, PAGE.read_text())
        if count != 1:
            sys.exit(f"{PAGE} has {count} tables of loaders, and should have one")
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
