"""Install a wheel into an empty environment without Rust, and try it there.

For example: python packaging/try_wheel.py dist/pagefeed-0.1.0-cp311-abi3-*.whl
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEEL = re.compile(r"pagefeed-[\w.]+-cp311-abi3-manylinux[\w.]*_x86_64\.whl")
FIRST_PAGE = ROOT / "docs/tutorials/first-run.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)

LOOK = """
import importlib.metadata, pathlib, pagefeed
assert ".venv" not in pagefeed.__file__, pagefeed.__file__
files = importlib.metadata.files("pagefeed")
names = {pathlib.PurePath(str(file)).name for file in files}
assert {"LICENSE", "LICENSE-THIRD-PARTY", "py.typed"} <= names, names
print("pagefeed", pagefeed.__version__, "and its licences")
"""


def main() -> None:
    """Install and try the wheel that is named."""
    wheel = Path(sys.argv[1]).resolve()
    if not WHEEL.fullmatch(wheel.name):
        sys.exit(f"{wheel.name} is no abi3 wheel for manylinux")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        # The environment's own programs and the system's shell tools, no compiler.
        programs = home / "programs"
        programs.mkdir()
        for name in ("sh", "env", "uname", "cat"):
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
        for number, text in enumerate(FENCE.findall(FIRST_PAGE.read_text())):
            (home / f"example_{number}.py").write_text(text)
            run("python", f"example_{number}.py")
        data = ("corpus", "--column", "input_ids", "--length", "256")
        for verb in ("inspect", "plan", "verify", "smoke"):
            run("pagefeed", verb, *data, "--json")
    print(f"{wheel.name} works in an empty environment")


if __name__ == "__main__":
    main()
