"""Plant faults into the core, and see whether a simulated world goes wrong.

    .venv/bin/python tests/plant.py
    .venv/bin/python tests/plant.py --only 17 --seconds 300

All faults of ``tests/faults.toml`` are compiled into one copy of the core, in which a
variable of the environment switches one of them on. A fault that no world notices meets
the tests in the engine's own modules: some faults change the order of work and counters
alone. One that these pass too survives, and is printed.
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "planted"
# Its own: cargo would take the copy for the tree.
BUILD = ROOT / "target" / "planted-build"
CORE = Path("crates/pagefeed-core/src")
CORPUS = ROOT / "crates/pagefeed-core/tests/simulate/corpus.txt"
SWITCH = """
/// Whether a fault is switched on.
pub fn is_planted(number: usize) -> bool {
    static PLANTED: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        let number = std::env::var("PAGEFEED_FAULT").unwrap_or_default();
        number.parse().unwrap_or(usize::MAX)
    });
    *PLANTED == number
}
"""


class Change(NamedTuple):
    """A part of a file, and what stands there in the copy."""

    start: int
    end: int
    text: str


def change(number: int, fault: dict[str, str], source: str) -> Change:
    """The place of a fault in its file, which has it and what was there."""
    begin = source.find(fault.get("after", ""))
    start = source.find(fault["old"], begin)
    if min(begin, start) < 0:
        raise ValueError(f"fault {number} ({fault['what']}) finds no place: {fault}")
    old, new = fault["old"], fault["new"]
    text = f"if crate::sync::is_planted({number}) {{ {new} }} else {{ {old} }}"
    is_statement = old.endswith((";", "}"))
    return Change(start, start + len(old), text if is_statement else f"({text})")


def planted(faults: list[dict[str, str]]) -> None:
    """Write the copy, with all faults switched off."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "crates", COPY / "crates")
    for name in ("Cargo.toml", "Cargo.lock", "clippy.toml"):
        shutil.copy(ROOT / name, COPY)
    for file in {fault["file"] for fault in faults}:
        path = COPY / CORE / file
        source = path.read_text()
        changes = sorted(
            change(number, fault, source)
            for number, fault in enumerate(faults)
            if fault["file"] == file
        )
        for one, next_one in itertools.pairwise(changes):
            if one.end > next_one.start:
                raise ValueError(f"two faults of {file} overlap: {one}, {next_one}")
        for one in reversed(changes):
            source = source[: one.start] + one.text + source[one.end :]
        path.write_text(source)
    with (COPY / CORE / "sync.rs").open("a") as switch:
        switch.write(SWITCH)


WORLDS = ("--features", "simulate", "--test", "simulate")


def build(*target: str) -> Path:
    """Compile a target of the copy; return its program."""
    command = ["cargo", "test", "--no-run", "--package", "pagefeed-core", *target]
    result = subprocess.run(
        command,
        cwd=COPY,
        env={**os.environ, "CARGO_TARGET_DIR": str(BUILD)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(result.stderr)
    return Path(result.stderr.rsplit("Executable", 1)[1].split("(")[1].split(")")[0])


def finds(program: Path, number: int, seconds: int) -> str:
    """Return what a world says of a fault; nothing if none notices it."""
    command = [str(program), "--corpus", str(CORPUS)]
    command += ["--first", "0", "--seconds", str(seconds)]
    try:
        result = subprocess.run(
            command,
            env={**os.environ, "PAGEFEED_FAULT": str(number)},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + 60,
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    lines = result.stdout.splitlines() or [f"it ends with {result.returncode}"]
    return lines[-1][:120] if result.returncode else ""


def fails(tests: Path, number: int) -> str:
    """Return the first test of the engine that fails with a fault, or nothing."""
    result = subprocess.run(
        [str(tests), "engine::"],
        env={**os.environ, "PAGEFEED_FAULT": str(number)},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = (line for line in result.stdout.splitlines() if line.endswith("FAILED"))
    return next(failed, f"ends with {result.returncode}") if result.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="for each fault")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    parser.add_argument("--jobs", type=int, default=2, help="worlds side by side")
    options = parser.parse_args()
    faults = tomllib.loads((ROOT / "tests" / "faults.toml").read_text())["fault"]
    planted(faults)
    program = build(*WORLDS)
    if found := finds(program, len(faults), 10):
        sys.exit(f"a world goes wrong without a fault: {found}")
    numbers = options.only or range(len(faults))
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda n: finds(program, n, options.seconds), numbers)
        pairs = list(zip(numbers, results, strict=True))
    if any(not found for _, found in pairs):
        tests = build("--lib")
        pairs = [(number, found or fails(tests, number)) for number, found in pairs]
    survivors = [number for number, found in pairs if not found]
    for number, found in pairs:
        print(f"{number:3} {faults[number]['what']}: {found or 'SURVIVES'}")
    print(f"{len(pairs) - len(survivors)} of {len(pairs)} faults are found")


if __name__ == "__main__":
    main()
