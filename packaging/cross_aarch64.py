"""Print what cargo and maturin need to build for aarch64 on x86-64, and to run it.

For example: env $(python packaging/cross_aarch64.py target/aarch64) cargo build ...

The settings name a compiler that has the target, and qemu for what it built. The
compiler is rustup's where `rustup target add aarch64-unknown-linux-gnu` was run.
Elsewhere it is Debian's, of the first suite whose Rust is as new as the project's,
unpacked into the folder. So is qemu where the system has none. zig, of the group
`wheel`, links.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from debian import unpack
from try_wheel import ROOT

__all__ = ["qemu", "write_command"]

TARGET = "aarch64-unknown-linux-gnu"
SUITES = ("testing", "unstable")
COMPILER = ("rustc", "libstd-rust-dev", "libstd-rust-dev:arm64")
LOADER = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"


def main() -> None:
    """Print settings of the environment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    libraries = unpack(folder / "run", ["libgcc-s1", "libstdc++6"], "arm64", "bookworm")
    run = write_command(folder / "run/qemu", f"{qemu(folder)} -L {libraries}")
    print(f"RUSTC={_compiler(folder)}")
    print(f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_RUNNER={run}")


def write_command(path: Path, command: str) -> str:
    """Write a program that starts a command with its arguments; return its path."""
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o700)
    return str(path)


def qemu(folder: Path) -> str:
    """Return the emulator of aarch64: the system's, or Debian's in a folder."""
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if found is None:
        system = unpack(folder / "emulator", ["qemu-user"], "amd64", SUITES[0])
        found = str(system / "usr/bin/qemu-aarch64")
    return found


def _compiler(folder: Path) -> str:
    ask = ("rustup", "target", "list", "--installed")
    if shutil.which("rustup") is not None and TARGET in _said(*ask).split():
        return "rustc"
    wanted = re.search(
        r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE
    )
    assert wanted is not None
    for suite in SUITES:
        usr = unpack(folder / f"rust-{suite}", COMPILER, "amd64", suite) / "usr"
        # Its libraries are newer than this system's, its loader finds them.
        command = (
            f"{usr}/{LOADER} --library-path {usr}/lib/x86_64-linux-gnu {usr}/bin/rustc"
        )
        rustc = write_command(folder / "rustc", f"{command} --sysroot {usr}")
        version = re.search(
            r"^release: ([\d.]+)", _said(str(rustc), "-vV"), re.MULTILINE
        )
        if version is not None and _number(version[1]) >= _number(wanted[1]):
            return rustc
    sys.exit(f"Rust of Debian {' and '.join(SUITES)} is older than {wanted[1]}")


def _number(version: str) -> list[int]:
    return [*map(int, version.split("."))]


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
