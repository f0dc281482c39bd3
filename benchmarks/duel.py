"""Two builds of pagefeed against each other, as live processes that take turns.

    python benchmarks/duel.py OLD NEW [--pairs 24] [--only page fields] [--pause-ms 1]

OLD and NEW are folders that hold the package ``pagefeed`` with its core, such as
``python`` of two checkouts. For each way to batches of 64 x 2048 tokens, a process of
each build is started. They take as many batches in turn, and the first of a pair is now
this, now that one. After some pairs both are started anew: where its memory lies makes
a process 5 % faster or slower for life. On a machine that does other work this tells
them apart where rates do not: what is compared is processor time of all threads and of
the consumer's thread, and counts. A pause after each batch stands for a training step:
batches are then made ahead, and wait. A turn must be long: in one of 400 batches, which
takes 40 ms, a build that loads far ahead between turns seems cheaper than in a run.

By page, an epoch is longer than what is planned ahead: few pages in memory serve two
epochs, and the others are decoded, as in a long run. By row the data fit into memory.

Shown are medians of all turns, and of the ratios new to old, pair by pair. Twice the
same folder shows what a difference must exceed, and with ``--new-steps`` what another
way to ask for the steps costs.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
BATCH_SIZE, LENGTH = 64, 2048
FIELDS = ("input_ids", "labels", "position_ids", "document_ids", "cu_seqlens")
NUM_TOKENS = 200_000_000
PAIRS_OF_A_LIFE = 4

Figures = dict[str, float]


def settings(way: str) -> dict[str, Any]:
    """Return what a loader is told for one of ``WAYS``."""
    import pagefeed as pf

    ways: dict[str, dict[str, Any]] = {
        "page": {"sequences": pf.Windows(LENGTH)},
        "row": {"sequences": pf.Windows(LENGTH), "shuffle": "row"},
        "packed": {"sequences": pf.Packed(LENGTH, eos=0)},
        "fields": {"sequences": pf.Packed(LENGTH, eos=0), "fields": FIELDS},
    }
    return ways[way]


WAYS = ("page", "row", "packed", "fields")
STEPS = ("batch_size", "global_batch_size", "global_batch_size.at")


def used() -> Figures:
    """Return what this process has used so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu s/Gtok": usage.ru_utime + usage.ru_stime,
        "consumer s/Gtok": time.thread_time(),
        "system s/Gtok": usage.ru_stime,
        "faults/batch": usage.ru_minflt,
        "switches/batch": usage.ru_nvcsw,
        "late/batch": 0.0,
    }


def fight(way: str, folder: str, num_batches: int, pause: float, steps: str) -> None:
    """Take batches whenever a line comes in, and say what they cost."""
    import pagefeed as pf

    warnings.simplefilter("ignore", pf.errors.PaddingWarning)
    size: dict[str, Any] = {steps.removesuffix(".at"): BATCH_SIZE}
    loader = pf.Loader(
        pf.parquet(folder, column="input_ids"),
        **size,
        seed=1,
        epochs=None,
        memory="512MiB",
        num_threads=2,
        rank=0,
        world_size=1,
        **settings(way),
    )
    batches: Any = iter(loader)
    if steps.endswith(".at"):
        batches = (loader.at(step, rank=0, world_size=1) for step in itertools.count())

    def take(count: int) -> None:
        for _ in range(count):
            batch = next(batches)
            batch["input_ids"][:, ::512].sum()
            del batch
            if pause:
                time.sleep(pause)

    take(num_batches // 2)
    print("{}", flush=True)
    before, ready = used(), loader.stats()["batches_ready"]
    for _ in sys.stdin:
        take(num_batches)
        after, now_ready = used(), loader.stats()["batches_ready"]
        after["late/batch"] = num_batches - (now_ready - ready)
        scale = num_batches * BATCH_SIZE * LENGTH / 1e9
        figures = {
            name: (after[name] - before[name])
            / (num_batches if name.endswith("/batch") else scale)
            for name in after
        }
        # What threads did since the last turn is counted: they may load far ahead.
        before, ready = after | {"late/batch": 0.0}, now_ready
        print(json.dumps(figures), flush=True)


class Fighter:
    """A process of one of the builds."""

    def __init__(self, build: Path, arguments: list[str]) -> None:
        command = [sys.executable, __file__, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(build)}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()  # It has warmed up.

    def answer(self) -> Figures:
        """Return the next line that it prints."""
        line = _open(self.process.stdout).readline()
        if not line:
            raise SystemExit(f"a build ended with {self.process.wait()}")
        figures: Figures = json.loads(line)
        return figures

    def take_turn(self) -> Figures:
        """Let it take its batches."""
        pipe = _open(self.process.stdin)
        pipe.write("go\n")
        pipe.flush()
        return self.answer()

    def end(self) -> None:
        """Let it end, and wait for that."""
        _open(self.process.stdin).close()
        self.process.wait()


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def duel(
    builds: list[Path], arguments: list[str], num_pairs: int, new_steps: str
) -> None:
    """Print the figures of one way."""
    pairs: list[list[Figures]] = []
    while len(pairs) < num_pairs:
        fighters = [
            Fighter(build, [*arguments, "--new-steps", steps])
            for build, steps in zip(builds, ("batch_size", new_steps), strict=True)
        ]
        for number in range(min(PAIRS_OF_A_LIFE, num_pairs - len(pairs))):
            order = [0, 1] if number % 2 == 0 else [1, 0]
            turns = {which: fighters[which].take_turn() for which in order}
            pairs.append([turns[0], turns[1]])
        for fighter in fighters:
            fighter.end()
    for name in pairs[0][0]:
        old, new = (statistics.median(pair[i][name] for pair in pairs) for i in (0, 1))
        ratios = [new[name] / old[name] for old, new in pairs if old[name] > 0]
        ratio = f"{statistics.median(ratios):7.3f}" if ratios else ""
        print(f"  {name:16} {old:9.3f} {new:9.3f} {ratio}", flush=True)


def make_data(way: str) -> Path:
    """Return the folder of a way's data, made if it is not there."""
    import bench_sequences
    import data

    if way == "page":
        return data.make(num_tokens=data.LONG_EPOCH, numbered=True).parquet[0].parent
    if way == "row":
        return data.make(num_tokens=NUM_TOKENS).parquet[0].parent
    documents = data.CACHE / f"documents-{NUM_TOKENS}"
    if not documents.exists():
        documents.mkdir(parents=True)
        bench_sequences.write_documents(documents, NUM_TOKENS)
    return documents


def main() -> None:
    """Let the builds meet, way by way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("builds", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--batches", type=int, default=2000, help="of a turn")
    parser.add_argument("--pause-ms", type=float, default=0.0, help="after each batch")
    parser.add_argument("--only", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument(
        "--new-steps",
        default=STEPS[0],
        choices=STEPS,
        help="how NEW is asked for batches: as OLD, as a fleet of one, or by Loader.at",
    )
    parser.add_argument("--fight", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fight:
        way, folder = options.fight
        pause, steps = options.pause_ms / 1e3, options.new_steps
        fight(way, folder, options.batches, pause, steps)
        return
    if len(options.builds) != 2:
        parser.error("give two folders that hold the package pagefeed")
    builds = [path.resolve() for path in options.builds]
    for build in builds:
        if not list((build / "pagefeed").glob("_core*.so")):
            parser.error(f"{build} holds no package pagefeed with its core")
    # The data are made by the build that these benchmarks belong to.
    sys.path.insert(0, str(builds[1]))
    for way in options.only:
        print(f"{way:18} {'old':>9} {'new':>9} {'new/old':>7}", flush=True)
        arguments = [
            "--fight",
            way,
            str(make_data(way)),
            "--batches",
            str(options.batches),
        ]
        arguments += ["--pause-ms", str(options.pause_ms)]
        duel(builds, arguments, options.pairs, options.new_steps)


if __name__ == "__main__":
    main()
