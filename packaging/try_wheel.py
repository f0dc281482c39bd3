"""Install a wheel into an empty environment without Rust, and try it there.

For example: python packaging/try_wheel.py dist/pagefeed-*-x86_64.whl

The blocks of the first page of the tutorials run there, as a new user copies them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

__all__ = ["LOOK", "RUN_PAGE", "check_name", "prepare"]

ROOT = Path(__file__).resolve().parent.parent
FIRST_PAGE = ROOT / "docs/tutorials/first-run.md"

LOOK = """
import importlib.metadata, pathlib, pagefeed
assert ".venv" not in pagefeed.__file__, pagefeed.__file__
files = importlib.metadata.files("pagefeed")
names = {pathlib.PurePath(str(file)).name for file in files}
assert {"LICENSE", "LICENSE-THIRD-PARTY", "py.typed"} <= names, names
print("pagefeed", pagefeed.__version__, "and its licences")
"""

RUN_PAGE = r"""
import pathlib, re, shlex
from pagefeed.cli import main
FENCE = r"(<!-- not run[^>]*-->\n+)?^```(python|bash)\n(.*?)^```$"
names, count = {"__name__": "__main__"}, 0
text = pathlib.Path("page.md").read_text()
for skipped, kind, block in re.findall(FENCE, text, re.DOTALL | re.MULTILINE):
    if skipped:
        continue
    count += 1
    if kind == "python":
        exec(block, names)
        continue
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("pagefeed "):
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
assert count > 4, count
print(count, "blocks of the first page run")
"""


def check_name(wheel: Path, machine: str) -> None:
    """Exit if a wheel is none for every Linux and Python of a machine."""
    form = rf"pagefeed-[\w.]+-cp311-abi3-manylinux[\w.]*_{machine}\.whl"
    if not re.fullmatch(form, wheel.name):
        sys.exit(f"{wheel.name} is no abi3 wheel for manylinux on {machine}")


def prepare(home: Path) -> None:
    """Put the first page into a folder, for `RUN_PAGE`."""
    shutil.copy(FIRST_PAGE, home / "page.md")


def main() -> None:
    """Install and try the wheel that is named."""
    wheel = Path(sys.argv[1]).resolve()
    check_name(wheel, platform.machine())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        # The environment's own programs and the system's shell tools, no compiler.
        programs = home / "programs"
        programs.mkdir()
        for name in ("sh", "env", "uname", "cat", "ls"):
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        bin_folder = home / "env" / "bin"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "CARGO", "RUST"))
        } | {"PATH": f"{bin_folder}:{programs}", "HOME": str(home)}
        assert shutil.which("rustc", path=environment["PATH"]) is None

        def run(*command: str) -> None:
            subprocess.run(command, cwd=home, env=environment, check=True)

        pip = ["python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        only_wheels = ["--only-binary", ":all:", f"{wheel}[pyarrow]"]
        run(*pip, "install", *constraints, *only_wheels)
        run("pagefeed", "--version")
        run("python", "-c", LOOK)
        prepare(home)
        run("python", "-c", RUN_PAGE)
        for verb in ("inspect", "plan", "verify", "smoke"):
            data = ("corpus", "--column", "input_ids", "--length", "256")
            run("pagefeed", verb, *data, "--json")
    print(f"{wheel.name} works in an empty environment")


if __name__ == "__main__":
    main()
