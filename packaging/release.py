"""Check everything that a tag releases, and publish it if asked.

    python packaging/release.py v0.2.0 --dist dist --site site
    python packaging/release.py v0.2.0 --dist dist --site site --publish

Without `--publish` nothing leaves this machine: all problems are listed, and the exit
status is 1 if there is one. The release workflow runs both, one after the other.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = {
    "Linux on x86-64": r"manylinux[\w.]*_x86_64",
    "Linux on aarch64": r"manylinux[\w.]*_aarch64",
    "macOS on arm64": r"macosx_\d+_\d+_arm64",
}
LICENCES = ("LICENSE", "LICENSE-THIRD-PARTY")
PAGES = ("index.html", "404.html", "reference/errors/index.html", "search")


def problems(tag: str, root: Path, dist: Path, site: Path) -> Iterator[str]:
    """Yield what keeps a tag from being released, a sentence each."""
    with (root / "Cargo.toml").open("rb") as file:
        version = tomllib.load(file)["workspace"]["package"]["version"]
    if tag != f"v{version}":
        yield f"the tag is {tag}, and Cargo.toml has version {version}: tag v{version}"
    changes = (root / "CHANGELOG.md").read_text()
    if not section(changes, version):
        yield f"CHANGELOG.md has no text under a heading '## {version}': write it"
    if section(changes, "Unreleased"):
        yield f"CHANGELOG.md has unreleased changes: move them under '## {version}'"
    yield from _wrong_files(version, dist)
    for page in PAGES:
        if not (site / page).exists():
            yield f"{site} has no {page}: run make docs"


def section(changes: str, version: str) -> str:
    """Return the text of the change log under the heading of a version, or nothing."""
    heading = rf"^## {re.escape(version)}(?: .*)?$"
    text = re.split(heading, changes, maxsplit=1, flags=re.MULTILINE)[1:]
    return re.split(r"^## ", text[0], flags=re.MULTILINE)[0].strip() if text else ""


def _wrong_files(version: str, dist: Path) -> Iterator[str]:
    found = sorted(path.name for path in dist.glob("*")) if dist.is_dir() else []
    sdist = f"pagefeed-{version}.tar.gz"
    expected = {"source": re.escape(sdist)}
    expected |= {
        system: rf"pagefeed-{re.escape(version)}-cp311-abi3-{platform}\.whl"
        for system, platform in WHEELS.items()
    }
    for what, form in expected.items():
        fitting = [name for name in found if re.fullmatch(form, name)]
        if len(fitting) != 1:
            yield f"{dist} has {len(fitting)} files for {what}, expected 1: {form}"
        found = [name for name in found if name not in fitting]
        for name in fitting:
            missing = set(LICENCES) - _names(dist / name)
            if missing:
                yield f"{name} lacks {', '.join(sorted(missing))}"
    for name in found:
        yield f"{dist} has {name}, which is not of this release: remove it"


def _names(path: Path) -> set[str]:
    """Return the names of the files in a wheel or an sdist, without their folders."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
    else:
        with tarfile.open(path) as source:
            names = source.getnames()
    return {Path(name).name for name in names}


def publish(tag: str, dist: Path) -> None:
    """Upload the files to the index, and make a release whose text is the changes."""
    files = sorted(str(path) for path in dist.iterdir())
    changes = (ROOT / "CHANGELOG.md").read_text()
    subprocess.run(["uv", "publish", *files], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".md") as notes:
        notes.write(section(changes, tag.removeprefix("v")))
        notes.flush()
        given = ["--title", tag, "--notes-file", notes.name, "--verify-tag"]
        subprocess.run(["gh", "release", "create", tag, *given, *files], check=True)


def main() -> None:
    """Check, and publish if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tag", help="such as v0.2.0")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--site", type=Path, default=ROOT / "site")
    parser.add_argument("--publish", action="store_true", help="then upload it")
    given = parser.parse_args()
    wrong = list(problems(given.tag, ROOT, given.dist, given.site))
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{given.tag} can be released")
    if given.publish:
        publish(given.tag, given.dist)


if __name__ == "__main__":
    main()
