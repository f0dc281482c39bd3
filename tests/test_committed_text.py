"""The texts of the repository hold on any machine: no local path, no index address."""

import re
import subprocess
import tomllib

import pytest

from made.shared_data import ROOT

# Spelled in pieces, so that this file does not contain what it looks for.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.-])/(?:work" + r"|root|home/\w+)(?:/|\b)",
    "a folder outside the repository": r"\.\." + "/shared",
    "the address of a package index": r"https?://[^\s\"']*/(?:simple|pypi)\b",
    "an index option": r"--(?:extra-)?index" + r"-url\b|\bindex" + r"-url *=",
}


def find(text: str) -> list[str]:
    """What a text holds that it must not, with its line."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {what}: {match.group()}"
        for what, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, text)
    ]


def test_texts_name_no_machine():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert "pyproject.toml" in names
    found = {}
    for name in names:
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content and (lines := find(content.decode())):
            found[name] = lines
    assert found == {}


@pytest.mark.parametrize(
    "text",
    ["cd /wor" + "k/main", 'open("/roo' + 't/x")', "https://example.org/simpl" + "e/"],
)
def test_forbidden_texts_are_found(text):
    assert find(text)


def test_crates_come_from_the_public_registry():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    sources = {crate["source"] for crate in lock["package"] if "source" in crate}
    assert sources == {"registry+https://github.com/rust-lang/crates.io-index"}
