"""Try a wheel for aarch64 under qemu, on a machine of another kind.

For example: python packaging/try_aarch64.py dist/pagefeed-*-aarch64.whl target/aarch64

Needs `qemu-aarch64-static` and apt-get of Debian or Ubuntu, which fetches a Python for
arm64 into the folder named last, without installing anything and without root. With
`--tests` tests of this repository run there too, on the wheel's core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from try_wheel import FIRST, LOOK, ROOT, RUN_PAGE, check_name, prepare

PACKAGES = ("python3.11", "libgcc-s1", "libstdc++6")
TESTS = ("tests/property", "tests/integration/files", "tests/unit/test_order.py")
TOOLS = ("hypothesis", "psutil", "pytest", "pytest-timeout", "tokenizers")


def main() -> None:
    """Fetch, install and try."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tests", nargs="*", help=f"by default {' '.join(TESTS)}")
    options = parser.parse_args()
    check_name(options.wheel, "aarch64")
    folder = options.folder.resolve()
    if shutil.which("qemu-aarch64-static") is None:
        sys.exit("qemu-aarch64-static is missing: apt-get install qemu-user-static")
    system = folder / "system"
    if not (system / "usr/bin/python3.11").exists():
        _fetch_system(folder, system)
    packages = folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    tools = () if options.tests is None else TOOLS
    _install([f"{options.wheel.resolve()}[pyarrow]", *tools], packages)
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    prepare(home, [FIRST])
    python = _python(folder, system, packages)
    _write_command(home / "pip", ":")  # All is installed.
    _write_command(home / "pagefeed", f'exec {python} -m pagefeed "$@"')
    environment = os.environ | {"PATH": f"{home}:{os.environ['PATH']}"}
    for program in ([LOOK], [RUN_PAGE, f"{FIRST}.md"]):
        command = [python, "-c", *program]
        subprocess.run(command, cwd=home, env=environment, check=True)
    if options.tests is not None:
        chosen = options.tests or TESTS
        more = ("-q", "-p", "no:cacheprovider", "--timeout", "900")
        subprocess.run([python, "-m", "pytest", *more, *chosen], cwd=ROOT, check=True)
    print(f"{options.wheel.name} works under qemu")


def _fetch_system(folder: Path, system: Path) -> None:
    """Unpack Debian's Python for arm64, by lists and a cache of its own."""
    for name in ("state/lists/partial", "cache/archives/partial", "system"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "state/status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures::": "arm64",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Debug::NoLocking": "1",
    }
    apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    wanted = ["--yes", "--no-install-recommends", "--download-only", "install"]
    subprocess.run([*apt, *wanted, *PACKAGES], check=True)
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(system)], check=True)


def _install(names: list[str], packages: Path) -> None:
    platforms = ("manylinux2014", "manylinux_2_27", "manylinux_2_28")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet"),
            *("--only-binary", ":all:", "--target", str(packages)),
            *(f"--platform={name}_aarch64" for name in platforms),
            *("--python-version", "3.11", "--implementation", "cp"),
            *("--abi", "cp311", "--abi", "abi3", "--abi", "none"),
            *names,
        ],
        check=True,
    )


def _python(folder: Path, system: Path, packages: Path) -> str:
    """Write a command that is Python for aarch64, and return its path."""
    script = folder / "python"
    _write_command(
        script,
        f"exec {shutil.which('qemu-aarch64-static')} -L {system} "
        f'-E PYTHONPATH={packages} {system}/usr/bin/python3.11 "$@"',
    )
    return str(script)


def _write_command(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o700)


if __name__ == "__main__":
    main()
