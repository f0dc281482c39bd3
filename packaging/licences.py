"""Write the licences of all crates that are linked into the extension, in one file.

For example: python packaging/licences.py LICENSE-THIRD-PARTY
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
)
ROOT_CRATE = "pagefeed-python"
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
"""How the names of files with licences begin."""

HEADER = """\
pagefeed's extension module is linked with the following Rust crates, and with the C
libraries that some of them contain. Each is under the licence that is named; the texts
that came with them follow. The Rust standard library is linked too, under MIT or
Apache-2.0 (https://www.rust-lang.org/policies/licenses).
"""


def linked_crates(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The crates of other authors that end up in the library, sorted by name.

    Args:
        metadata: What `cargo metadata` says.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    [root] = [key for key, one in packages.items() if one["name"] == ROOT_CRATE]
    seen, queue = {root}, [root]
    while queue:
        for need in nodes[queue.pop()]["deps"]:
            # Only kind null is linked; build scripts, tests and macros are not.
            is_linked = any(kind["kind"] is None for kind in need["dep_kinds"])
            if (
                is_linked
                and need["pkg"] not in seen
                and not _is_macro(packages[need["pkg"]])
            ):
                seen.add(need["pkg"])
                queue.append(need["pkg"])
    found = [packages[key] for key in seen if packages[key]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def _is_macro(package: Mapping[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def licence_texts(folder: Path) -> Iterator[str]:
    """The licences in a crate's folder, and of the C sources below it."""
    for pattern in ("*", "*/*"):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and path.name.upper().startswith(NAMES):
                yield path.read_text(encoding="utf-8", errors="replace").strip()


def write(crates: list[dict[str, Any]]) -> str:
    """The whole file; a text that several crates share is in it once."""
    lines = [HEADER]
    lines += [
        f"{one['name']} {one['version']}: {one['license'] or 'see its text'}"
        for one in crates
    ]
    owners: dict[str, list[str]] = defaultdict(list)
    for one in crates:
        for text in dict.fromkeys(licence_texts(Path(one["manifest_path"]).parent)):
            owners[text].append(one["name"])
    for text, names in owners.items():
        lines += ["", "=" * 78, ", ".join(dict.fromkeys(names)), "=" * 78, "", text]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file that is named."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(
        [*command, *(f"--filter-platform={target}" for target in TARGETS)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    crates = linked_crates(json.loads(done.stdout))
    (ROOT / sys.argv[1]).write_text(write(crates), encoding="utf-8")
    print(f"{sys.argv[1]}: {len(crates)} crates")


if __name__ == "__main__":
    main()
