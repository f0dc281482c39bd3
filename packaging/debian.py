"""Packages of Debian in a folder: nothing is installed, and root is not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["unpack"]


def unpack(
    folder: Path, packages: Iterable[str], architecture: str, suite: str
) -> Path:
    """Unpack packages and all that they need; return where they lie.

    Lists and downloads lie in the folder too. The archive is the one that apt of this
    system uses. A package of another architecture is named with a colon and that.
    """
    system, packages = folder / "system", [*packages]
    unpacked, wanted = folder / "unpacked", " ".join([suite, *packages])
    if unpacked.exists() and unpacked.read_text() == wanted:
        return system
    for name in ("state/lists/partial", "cache/archives/partial", "system"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "state/status").touch()
    (folder / "sources.list").write_text(_sources(suite))
    others = {name.partition(":")[2] for name in packages} - {"", architecture}
    settings = [
        f'APT::Architecture "{architecture}";',
        f"APT::Architectures {{ {' '.join(map(_quoted, [architecture, *others]))} }};",
        f'Dir::State "{folder}/state";',
        f'Dir::State::status "{folder}/state/status";',
        f'Dir::Cache "{folder}/cache";',
        f'Dir::Etc::sourcelist "{folder}/sources.list";',
        'Dir::Etc::sourceparts "-";',
        'Debug::NoLocking "1";',
        'Acquire::Languages "none";',
        # A snapshot of an archive is not signed anew.
        'Acquire::Check-Valid-Until "false";',
    ]
    (folder / "apt.conf").write_text("\n".join(settings) + "\n")
    environment = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
    download = ("--yes", "--no-install-recommends", "--download-only", "install")
    for command in (["update"], [*download, *packages]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, check=True)
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, system], check=True)
    unpacked.write_text(wanted)
    return system


def _quoted(name: str) -> str:
    return f'"{name}";'


def _sources(suite: str) -> str:
    """Return the lines for a suite of the archives of Debian that apt uses."""
    ask = ("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages")
    said = subprocess.run(
        [*ask, "Label: Debian"], check=True, capture_output=True, text=True
    )
    sites = sorted({*said.stdout.split()})
    if not sites:
        sys.exit("apt knows no archive of Debian: add one, then run apt-get update")
    return "".join(f"deb {site} {suite} main\n" for site in sites)
