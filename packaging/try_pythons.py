"""Try a wheel on every Python of this machine, with the oldest and newest packages.

For example: python packaging/try_pythons.py --uv uv target/pythons/pagefeed-*.whl

Interpreters from 3.11 on are looked for in PATH and in pyenv's folder. Each gets an
environment with the oldest versions of NumPy, pyarrow and tokenizers that
`pyproject.toml` allows, and one with the newest. There `packaging/check_python.py`
runs, the demo, and the first tutorial. The digests must be equal everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from try_wheel import FIRST, ROOT, RUN_PAGE, prepare

__all__ = ["find_pythons"]

LEAST = 11
"""The oldest minor version of Python 3."""
EXTRAS = (
    "demo",
    "pyarrow",
    "tokenizers",
    "sentencepiece",
    "tiktoken",
    "chat",
)
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}


def find_pythons() -> dict[str, str]:
    """Return an interpreter for each version from 3.11 on."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += [
        str(path / "bin") for path in sorted(versions.glob("3.*"), reverse=True)
    ]
    # An abi3 wheel is none for interpreters without a lock.
    ask = (
        "import sys, sysconfig; assert sys.prefix == sys.base_prefix\n"
        "assert not sysconfig.get_config_var('Py_GIL_DISABLED')"
    )
    found: dict[str, str] = {}
    for folder in folders:
        for minor in range(LEAST, LEAST + 9):
            path = shutil.which(f"python3.{minor}", path=folder)
            command = [path or "false", "-c", ask]
            asked = subprocess.run(command, capture_output=True, check=False)
            if asked.returncode == 0:
                found.setdefault(f"3.{minor}", str(path))
    return found


class Trial:
    """An environment of one interpreter, and what is tried in it.

    Args:
        home: A folder for all environments.
        options: The arguments of the command.
        version: Version of the interpreter.
        python: The interpreter.
        age: Which packages: ``"oldest"`` or ``"newest"``.
    """

    def __init__(
        self, home: Path, options: Any, version: str, python: str, age: str
    ) -> None:
        self.name = f"Python {version}, {age} packages"
        self._home, self._python, self._age = home, python, age
        self._options = options
        self._place = home / f"{version}-{age}"
        names = ("PYTHON", "VIRTUAL_ENV", "PAGEFEED")
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(names)
        } | {"PATH": f"{self._place / 'env/bin'}:{os.environ['PATH']}"}

    def run(self) -> dict[str, Any]:
        """Install and try; return what `packaging/check_python.py` prints."""
        begun, environment = time.monotonic(), self._place / "env"
        self._place.mkdir()
        self._call(self._options.uv, "venv", "--quiet", "--python", self._python, "env")
        program = str(environment / "bin/python")
        install = (self._options.uv, "pip", "install", "--quiet", "--python", program)
        # Of these alone, not of what they need, are the oldest versions meant.
        how = ("--resolution", RESOLUTIONS[self._age], "--only-binary", ":all:")
        named = [f"--extra={name}" for name in EXTRAS]
        self._call(
            *install, *how, *named, "--requirements", str(ROOT / "pyproject.toml")
        )
        self._call(*install, "--no-deps", str(self._options.wheel.resolve()))
        (environment / "bin/pip").symlink_to("/bin/true")  # All is installed.
        shutil.copytree(self._home / "corpus", self._place / "corpus")
        self._call("pagefeed", "--version")
        self._call("pagefeed", "demo")
        self._call("python", "-c", RUN_PAGE, str(self._home / f"{FIRST}.md"))
        check = str(ROOT / "packaging/check_python.py")
        said = self._call(
            "python", "-W", "error", check, str(ROOT / "README.md"), "corpus/web"
        )
        found = dict(json.loads(said.splitlines()[-1]))
        print(f"{self.name}: {time.monotonic() - begun:.0f} s {found}", flush=True)
        return found

    def _call(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self._place,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stdout[-2000:] + done.stderr[-4000:]
            sys.exit(f"{self.name}: {' '.join(command)[:200]} failed:\n{said}")
        return done.stdout


def main() -> None:
    """Try the wheel that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", required=True, help="the program uv")
    parser.add_argument("--least", type=int, default=1, help="interpreters to find")
    options = parser.parse_args()
    pythons = find_pythons()
    print("found", pythons, flush=True)
    if len(pythons) < options.least:
        sys.exit(f"found {len(pythons)} Pythons from 3.{LEAST} on, not {options.least}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home, [FIRST])
        command = [sys.executable, "-m", "pagefeed", "demo", "--data", "corpus"]
        subprocess.run(command, cwd=home, check=True, capture_output=True)
        trials = [
            Trial(home, options, version, python, age)
            for version, python in pythons.items()
            for age in RESOLUTIONS
        ]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            found = list(threads.map(Trial.run, trials))
    for name in ("readme", "settings"):
        digests = {each[name] for each in found}
        if len(digests) > 1:
            sys.exit(f"the digests of {name} differ: {sorted(digests)}")
    print(f"{len(found)} environments deliver the same batches and states")


if __name__ == "__main__":
    main()
