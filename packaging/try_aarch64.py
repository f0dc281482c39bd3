"""Try a wheel for aarch64 under qemu, on x86-64.

For example: python packaging/try_aarch64.py dist/pagefeed-*-aarch64.whl target/aarch64

A Python for arm64 and, where the system has none, qemu are Debian's, unpacked into the
folder named last. The demonstration, the first tutorial and `packaging/check_python.py`
run there: its digests must be those of this interpreter. With `--tests` tests of this
repository run there too, on the wheel's core.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cross_aarch64 import qemu, write_command
from debian import unpack
from try_wheel import FIRST, LOOK, ROOT, RUN_PAGE, check_name, prepare

PACKAGES = ("python3.11", "libgcc-s1", "libstdc++6")
TESTS = ("tests/property", "tests/integration/files", "tests/unit/test_order.py")
TOOLS = ("hypothesis", "psutil", "pytest", "pytest-timeout")
CHECK = str(ROOT / "packaging/check_python.py")


def main() -> None:
    """Fetch, install and try."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tests", nargs=argparse.REMAINDER, help=f"by default {' '.join(TESTS)}"
    )
    options = parser.parse_args()
    check_name(options.wheel, "aarch64")
    folder = options.folder.resolve()
    packages, home = folder / "packages", folder / "home"
    for fresh in (packages, home):
        shutil.rmtree(fresh, ignore_errors=True)
    tools = () if options.tests is None else TOOLS
    _install([f"pagefeed[demo] @ {options.wheel.resolve().as_uri()}", *tools], packages)
    home.mkdir()
    prepare(home, [FIRST])
    python = _python(folder, packages)
    write_command(home / "pip", ":")  # All is installed.
    write_command(home / "pagefeed", f"{python} -m pagefeed")
    environment = os.environ | {"PATH": f"{home}:{os.environ['PATH']}"}

    def call(*command: str, cwd: Path = home) -> str:
        done = subprocess.run(
            command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode()

    # Both read the same files, which this interpreter wrote.
    call(sys.executable, "-m", "pagefeed", "demo", "--data", "corpus")
    check = ("-W", "error", CHECK, str(ROOT / "README.md"), "corpus/web")
    here, there = (
        json.loads(call(which, *check).splitlines()[-1])
        for which in (sys.executable, python)
    )
    print(f"here {here}\nunder qemu {there}", flush=True)
    for name in ("readme", "settings"):
        if here[name] != there[name]:
            sys.exit(f"the digests of {name} differ: {here[name]} and {there[name]}")
    print(call(python, "-m", "pagefeed", "demo"), flush=True)
    for program in ([LOOK], [RUN_PAGE, f"{FIRST}.md"]):
        print(call(python, "-c", *program), flush=True)
    if options.tests is not None:
        chosen = options.tests or TESTS
        more = ("-q", "-p", "no:cacheprovider", "--timeout", "900")
        subprocess.run([python, "-m", "pytest", *more, *chosen], cwd=ROOT, check=True)
    print(f"{options.wheel.name} works under qemu")


def _install(names: list[str], packages: Path) -> None:
    install = ("uv", "pip", "install", "--quiet", "--only-binary", ":all:")
    platform = ("--python-platform", "aarch64-manylinux_2_28")
    place = ("--target", str(packages), "--python-version", "3.11")
    subprocess.run([*install, *platform, *place, *names], check=True)


def _python(folder: Path, packages: Path) -> str:
    """Write a program that is Python for aarch64, and return its path."""
    system = unpack(folder / "python", PACKAGES, "arm64", "bookworm")
    program = folder / "bin/python"
    program.parent.mkdir(exist_ok=True)
    # By the name that it is started with, Python starts others of its kind.
    return write_command(
        program,
        f"{qemu(folder)} -0 {program} -L {system} -E PYTHONHOME={system}/usr "
        f"-E PYTHONPATH={packages} {system}/usr/bin/python3.11",
    )


if __name__ == "__main__":
    main()
