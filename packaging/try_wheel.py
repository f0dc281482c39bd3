"""Install a wheel into an empty environment without Rust, and try it there.

For example: python packaging/try_wheel.py dist/pagefeed-*-x86_64.whl

The blocks of the first tutorial run there, as a new user copies them, and the tests of
`tests/outside`, which extend the package by its contract. With
`--tutorials` so do all tutorials but those of a bucket and of many nodes, one behind
the other in one folder; their packages take some GB.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FIRST", "LOOK", "RUN_PAGE", "check_name", "prepare"]

ROOT = Path(__file__).resolve().parent.parent
FIRST = "first-run"
MORE = ("pretraining", "fine-tuning", "evaluation")

LOOK = """
import importlib.metadata, pathlib, pagefeed
assert ".venv" not in pagefeed.__file__, pagefeed.__file__
files = importlib.metadata.files("pagefeed")
names = {pathlib.PurePath(str(file)).name for file in files}
assert {"LICENSE", "LICENSE-THIRD-PARTY", "py.typed"} <= names, names
print("pagefeed", pagefeed.__version__, "and its licences")
"""

# Blocks of a page in one Python and a shell, as they are pasted.
RUN_PAGE = r"""
import pathlib, re, subprocess, sys
FENCE = r'(<!-- not run[^>]*-->\n+)?^```(python|bash)(?: title="([^"]*)")?\n(.*?)^```$'
names, count = {"__name__": "__main__"}, 0
text = pathlib.Path(sys.argv[1]).read_text()
for skipped, kind, title, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE):
    if skipped:
        continue
    count += 1
    if title:
        pathlib.Path(title).write_text(block)
    elif kind == "python":
        exec(block, names)
    else:
        subprocess.run(["sh", "-ec", block], check=True)
assert count > 4, count
print(count, "blocks of", sys.argv[1], "run", flush=True)
"""


def check_name(wheel: Path, machine: str) -> None:
    """Exit if a wheel is none for every Python of a machine, and every Linux of it."""
    system = r"macosx_\d+_\d+" if sys.platform == "darwin" else r"manylinux[\w.]*"
    form = rf"pagefeed-[\w.]+-cp311-abi3-{system}_{machine}\.whl"
    if not re.fullmatch(form, wheel.name):
        sys.exit(f"{wheel.name} is no abi3 wheel of the form {form}")


def prepare(home: Path, pages: Iterable[str]) -> None:
    """Put tutorials into a folder, for `RUN_PAGE`."""
    for page in pages:
        shutil.copy(ROOT / "docs/tutorials" / f"{page}.md", home)


def main() -> None:
    """Install and try the wheel that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--tutorials", action="store_true", help="run them all")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    check_name(wheel, platform.machine())
    with tempfile.TemporaryDirectory() as folder:
        _try(wheel, [FIRST, *(MORE if options.tutorials else ())], Path(folder))
    print(f"{wheel.name} works in an empty environment")


def _try(wheel: Path, pages: list[str], home: Path) -> None:
    venv.create(home / "env", with_pip=True)
    # The environment's own programs and the system's shell tools, no compiler.
    programs = home / "programs"
    programs.mkdir()
    for name in ("sh", "env", "uname", "cat", "ls"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    # The name of the package means this wheel.
    found_links = f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}"
    constraints = home / "constraints.txt"
    version = wheel.name.split("-")[1]
    pinned = (ROOT / "constraints.txt").read_text()
    constraints.write_text(f"{pinned}\npagefeed=={version}\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "CARGO", "RUST"))
    } | {
        "PATH": f"{home / 'env' / 'bin'}:{programs}",
        "HOME": str(home),
        "PIP_FIND_LINKS": found_links,
        "PIP_CONSTRAINT": str(constraints),
        "PIP_ONLY_BINARY": ":all:",
        "PIP_QUIET": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    assert shutil.which("rustc", path=environment["PATH"]) is None
    place = home / "empty"
    place.mkdir()
    prepare(home, pages)

    def run(*command: str) -> None:
        subprocess.run(command, cwd=place, env=environment, check=True)

    for page in pages:
        begun = time.monotonic()
        run("python", "-c", RUN_PAGE, str(home / f"{page}.md"))
        print(f"{page}: {time.monotonic() - begun:.0f} s", flush=True)
        if page == FIRST:
            run("python", "-c", LOOK)
            # Extensions that know the contract alone.
            shutil.copytree(ROOT / "tests" / "outside", home / "tests" / "outside")
            run("python", "-m", "pip", "install", "pytest", "pyarrow")
            run("python", "-m", "pytest", "-q", str(home / "tests"))
            for verb in ("inspect", "plan", "verify", "smoke"):
                data = ("data", "--column", "input_ids", "--length", "256")
                run("pagefeed", verb, *data, "--json")


if __name__ == "__main__":
    main()
